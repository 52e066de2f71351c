package provenance

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// The parts of a run that a Go program may bring, by their names in a manifest.
const (
	OwnGrader    = "grader"
	OwnWrapper   = "wrapper" // wraps the grader
	OwnAdvantage = "advantage"
	OwnLoss      = "loss"

	OwnEnvironment = "environment"
)

// ownParts lists these parts in the order of messages, with the setting that each replaces and the option that brings it.
var ownParts = []struct{ name, key, option string }{
	{OwnAdvantage, "advantage", "WithAdvantage"}, {OwnLoss, "loss", "WithLoss"}, {OwnEnvironment, "env", "WithEnvironment"},
	{OwnGrader, "reward", "WithGrader"}, {OwnWrapper, "reward", "WrapGrader"},
}

// Own are the parts that the caller's program brought at a start. known is false for a start of an older release, which
// did not record them.
func (r *Run) Own(s Start) (own []string, known bool) {
	says := func(s Start) bool { return len(s.Own) > 0 }
	starts := r.Manifest.Starts
	return s.Own, len(starts) > 0 && (len(r.Manifest.Own) == 0 || slices.ContainsFunc(starts, says))
}

// OwnDifferences says, by setting, which own parts have come or gone since a start. It says nothing about a start whose
// parts are unknown.
func (r *Run) OwnDifferences(s Start, now []string) map[string]string {
	before, known := r.Own(s)
	all := map[string]string{}
	for _, part := range ownParts {
		was, is := slices.Contains(before, part.name), slices.Contains(now, part.name)
		if !known || was == is {
			continue
		}
		how := part.key + ": the program's own " + part.name + " (" + part.option + "), before that of the settings"
		if was {
			how = part.key + ": that of the settings, before the program's own " + part.name + " (" + part.option + ")"
		}
		if part.name == OwnWrapper {
			how = strings.NewReplacer("that of the settings", "nothing around the grader").Replace(how)
		}
		if said := all[part.key]; said != "" {
			how = said + ", " + how
		}
		all[part.key] = how
	}
	return all
}

// CheckOwn refuses to resume with other own parts than before. It reports the changes that are allowed, which are all for
// a fork. made is the step of the checkpoint.
func (p *ResumeOrigin) CheckOwn(cfg *configs.Config, made int, now []string, tell func(string)) error {
	if p.Checkpoint == "" {
		return nil
	}
	run, err := Read(rundir.RunOf(p.Checkpoint))
	if err != nil {
		return err
	}
	start := run.lastStart()
	if p.Fork || cfg.Resume == p.Checkpoint {
		start = run.startOf(made)
	}
	all := run.OwnDifferences(start, now)
	if p.Fork {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			tell("different from the run that this one is a fork of: " + all[key])
		}
		return nil
	}
	var said, keys []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if cfg.Allowed(key) {
			tell("changed since the run began, as allowed: " + all[key])
		} else {
			said, keys = append(said, all[key]), append(keys, key)
		}
	}
	if len(said) == 0 {
		return nil
	}
	return badinput.Errorf("run %s cannot be resumed with a change of %s; resume it in the program that trained it, "+
		"type init_from=%s run_dir=DIR for a new run, or allow_change=%s to accept the change",
		run.Dir, strings.Join(said, ", "), display.ShellQuote(run.Dir), strings.Join(keys, ","))
}

// SameJudge reports whether the first evaluation of the run was judged the same way as now.
func (p *ResumeOrigin) SameJudge(own []string) bool {
	return p.run == nil || p.run.OtherJudge(0, own) == ""
}

// OtherJudge says how the grader differs from the one at a step; "" if it does not, or that is unknown.
func (r *Run) OtherJudge(step int, own []string) string {
	return r.OwnDifferences(r.startOf(step), own)["reward"]
}
