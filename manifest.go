package grpo

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/version"
)

type manifest = provenance.Manifest

// Resolve makes the configuration of a source as the command line does: where neither a preset nor a file is given,
// words that name a run by run_dir, resume or init_from are changes of that run's own settings, and words that name
// none are changes of the default preset.
func Resolve(s configs.Source) (*configs.Config, error) { return provenance.Resolve(s) }

// checkParts compares what the run is made of with what its checkpoint knows.
func (t *Trainer) checkParts() (err error) {
	if t.parts, err = provenance.Of(t.cfg, t.problems, t.judging.judge != nil); err != nil {
		return err
	}
	t.parts["model"] = t.policy.print
	if t.origin.fork { // which may differ
		for _, what := range t.parts.Differences(t.origin.state.Parts) {
			t.watcher.Warn("not as in the run that this one is a fork of: " + what)
		}
		return nil
	}
	allowed, err := provenance.CheckParts(t.cfg.RunDir, t.origin.state.Parts, t.parts, t.cfg)
	if len(allowed) > 0 {
		t.watcher.Warn("changed since the run began, as allowed: " + strings.Join(allowed, ", "))
	}
	return err
}

// writeManifest writes down how the run came to be. Of a run that goes on it first tells what is not as it was.
func (t *Trainer) writeManifest() (err error) {
	now, o := time.Now().UTC().Format(time.RFC3339), t.origin
	m := manifest{
		Created: now, Version: version.Program(), Git: version.Checkout(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.NumCPU(), Backend: t.backend.Name(), Sandbox: t.judging.sandbox, Own: t.custom.names(),
		Problems: t.pool.Len(), HeldOut: len(t.HeldOut()), Seed: t.cfg.Seed, KV: t.sampling.engine.Plan.String(),
		Parameters: t.policy.TrainableCount(),
	}
	for _, set := range t.problems.Sets {
		m.Datasets = append(m.Datasets, set.Manifest())
	}
	start := provenance.Start{After: t.step, Time: now, Order: t.backend.Order(), Parts: t.parts}
	first := t.cfg
	switch {
	case o.fork:
		if m.Origin, err = filepath.Abs(o.checkpoint); err != nil {
			return err
		}
	case o.checkpoint != "":
		before := t.origin.run.Manifest
		t.tellChanges(before, m, start)
		m.Created, m.Origin, m.Resumed = before.Created, before.Origin, append(before.Resumed, now)
		if o.run.Known() { // what it began with stays as it is
			first, m.Starts = nil, before.Starts
			if start.Settings, err = o.run.Since(t.cfg); err != nil {
				return err
			}
		}
	}
	m.Starts = append(m.Starts, start)
	t.manifest, t.weights = m, provenance.Weigh(t.policy.dir)
	t.closers = append(t.closers, t.weights)
	return provenance.Write(t.record.Dir, &t.manifest, first)
}

// tellChanges tells what has changed since the run last began to train.
func (t *Trainer) tellChanges(before, now manifest, start provenance.Start) {
	for i := range min(len(before.Datasets), len(now.Datasets)) {
		if drift := now.Datasets[i].Drift(before.Datasets[i]); drift != "" {
			t.watcher.Warn("the data changed since the run began: " + drift)
		}
	}
	if n := len(before.Starts); n > 0 && before.Starts[n-1].Order != start.Order {
		t.watcher.Warn(fmt.Sprintf("this backend takes sums in another order than the run before (%s, before %s): last bits will differ",
			start.Order, before.Starts[n-1].Order))
	}
	if t.origin.before == nil {
		return
	}
	if changed := provenance.Changes(t.origin.before, t.cfg); len(changed) > 0 {
		t.watcher.Warn("settings changed since the run began: " + provenance.List(changed))
	}
}

// weigh adds the fingerprint of all the weights to the manifest when it is there, and ends a run whose weights turn out
// to be others.
func (t *Trainer) weigh() error {
	if t.weights == nil {
		return nil
	}
	full, done, err := t.weights.Done()
	if !done {
		return nil
	}
	t.weights = nil
	if err != nil {
		t.watcher.Warn(fmt.Sprintf("fingerprint of the weights: %v", err))
		return nil
	}
	last := &t.manifest.Starts[len(t.manifest.Starts)-1]
	print := last.Parts["model"]
	print.Full = full
	last.Parts["model"] = print
	var changed error
	if n := len(t.manifest.Starts); n > 1 && !t.origin.fork {
		_, changed = provenance.CheckParts(t.cfg.RunDir, t.manifest.Starts[n-2].Parts, last.Parts, t.cfg)
	}
	return errors.Join(changed, provenance.Write(t.record.Dir, &t.manifest, nil))
}
