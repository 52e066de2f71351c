package provenance

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// Resolve is configs.Load, except that without a preset or a file the words may name a run, whose settings they then
// change: the run that resume or run_dir resumes, or that init_from forks. Otherwise they change the default preset.
func Resolve(s configs.Source) (*configs.Config, error) {
	if s.Preset == "" && s.File == "" && s.Base == nil {
		var err error
		if s.Base, err = namedRun(s.Overrides); err != nil {
			return nil, err
		}
		if s.Base == nil {
			s.Preset = configs.DefaultPreset
		} else {
			s.Overrides = dropInitFrom(s.Base, s.Overrides)
		}
	}
	s.GoesOn = resumes
	cfg, err := configs.Load(s)
	if err != nil {
		return nil, err
	}
	return cfg, takeWeights(cfg)
}

// dropInitFrom drops init_from from words if the run began with just these weights: its settings already name them.
func dropInitFrom(run *configs.Config, words []string) []string {
	trained := filepath.Dir(cmp.Or(run.Adapter, run.Model))
	from := filepath.Clean(configs.Word(words, "init_from"))
	if !isCheckpoint(trained) || from != trained && from != rundir.RunOf(trained) {
		return words
	}
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.HasPrefix(w, "init_from=") })
}

// resumes reports whether settings resume an existing run.
func resumes(cfg *configs.Config) bool {
	switch {
	case cfg.Resume == "never" || cfg.Resume == "auto" && cfg.RunDir == "":
		return false
	case cfg.Resume != "auto":
		return true
	}
	r, err := Read(cfg.RunDir)
	return err != nil || r.Known() // if it cannot be read, Open reports that
}

// namedRun returns the settings of the run that words name, nil if they name none.
func namedRun(words []string) (*configs.Config, error) {
	resume, dir := configs.Word(words, "resume"), configs.Word(words, "run_dir")
	if resume != "" && resume != "auto" && resume != "never" {
		cfg, err := settingsOf("resume", resume)
		if cfg != nil {
			cfg.InitFrom = ""
		}
		return cfg, err
	}
	if dir != "" {
		if cfg, err := settingsOf("run_dir", dir); cfg != nil || err != nil {
			return cfg, err
		}
	}
	if from := configs.Word(words, "init_from"); from != "" {
		cfg, err := settingsOf("init_from", from)
		if cfg == nil || err != nil {
			return cfg, err
		}
		cfg.InitFrom, cfg.Adapter = "", "" // replaced by the checkpoint
		return modelSettings(cfg, words)
	}
	return nil, nil
}

// settingsOf reads the settings of the run that a setting names; for a checkpoint, those that it was made with.
func settingsOf(key, dir string) (*configs.Config, error) {
	if err := CheckExists(dir); err != nil && key != "run_dir" {
		return nil, badinput.Errorf("%s=%w", key, err)
	}
	r, err := Read(rundir.RunOf(dir))
	if err != nil {
		return nil, badinput.Errorf("%s=%s: %w", key, dir, err)
	}
	if !r.Known() {
		saved, err := rundir.List(r.Dir)
		if err == nil && (isCheckpoint(dir) || len(saved) > 0) {
			return nil, badinput.Errorf("%s=%s has no %s with its settings; give them by --preset or --config-file",
				key, dir, ConfigFile)
		}
		return nil, nil // Open reports what is wrong, if anything
	}
	cfg, err := r.settingsOf(dir)
	if err == nil {
		cfg.RunDir, cfg.Resume, cfg.AllowChange, cfg.Serve, cfg.ServeKeys, cfg.Watch = "", "auto", []string{}, "", "", ""
	}
	return cfg, err
}

// SettingsOf returns the last settings of a run; for a checkpoint, those that it was made with.
func SettingsOf(dir string) (*configs.Config, error) {
	if err := CheckExists(dir); err != nil {
		return nil, err
	}
	r, err := Read(rundir.RunOf(dir))
	if err != nil {
		return nil, err
	}
	return r.settingsOf(dir)
}

func (r *Run) settingsOf(dir string) (cfg *configs.Config, err error) {
	if isCheckpoint(dir) {
		var made struct{ Step int }
		if rundir.ReadState(dir, &made, oldestState, newestState) != nil { // reading it later reports the error
			made.Step = rundir.StepOf(dir)
		}
		cfg, _, err = r.At(made.Step)
	} else {
		cfg, _, err = r.Last()
	}
	return cfg, err
}

func isCheckpoint(dir string) bool { return rundir.RunOf(dir) != filepath.Clean(dir) }

// ChooseRunDir chooses the run directory if the settings leave it open.
func ChooseRunDir(cfg *configs.Config) error {
	if named := cfg.Resume; named != "auto" && named != "never" {
		run := rundir.RunOf(named)
		whole, err := filepath.Abs(filepath.Join(atomicfile.ResolveLink(named), ".."))
		if run != filepath.Clean(named) && (err != nil || filepath.Base(whole) != rundir.Checkpoints) {
			return badinput.Errorf("resume=%s is a checkpoint outside a run; type init_from=%s to start a new run from it",
				named, display.ShellQuote(named))
		}
		if cfg.RunDir != "" && filepath.Clean(cfg.RunDir) != run {
			return badinput.Errorf("resume=%s continues in %s, but run_dir is %s; leave run_dir out, "+
				"or type init_from=%s to continue in another directory", named, run, cfg.RunDir, display.ShellQuote(named))
		}
		cfg.RunDir = run
	}
	if cfg.RunDir == "" {
		cfg.RunDir = filepath.Join("runs", time.Now().Format("2006_01_02-15_04_05"))
	}
	return nil
}

// CheckSettings refuses to resume a run with settings that would change it.
func CheckSettings(run string, before, now *configs.Config) error {
	var said, keys []string
	for _, c := range Changes(before, now) {
		if c.Guarded && !now.Allowed(c.Key) {
			said, keys = append(said, c.String()), append(keys, c.Key)
		}
	}
	if from := now.InitFrom; from != "" && from != before.InitFrom {
		return badinput.Errorf("init_from=%s: run_dir %s already has a run, which began elsewhere; choose another run_dir", from, run)
	}
	if len(said) == 0 {
		return nil
	}
	return badinput.Errorf("run %s cannot be resumed with a change of %s; leave it out, "+
		"type init_from=%s run_dir=DIR for a new run, or allow_change=%s to change this one",
		run, strings.Join(said, ", "), display.ShellQuote(run), strings.Join(keys, ","))
}

// CheckParts refuses to resume a run with changed files, and returns the changes that the settings allow.
func CheckParts(run string, before, now Parts, cfg *configs.Config) (allowed []string, err error) {
	var said, keys []string
	all := now.Differences(before)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if cfg.Allowed(key) {
			allowed = append(allowed, all[key])
		} else {
			said, keys = append(said, all[key]), append(keys, key)
		}
	}
	if len(said) == 0 {
		return allowed, nil
	}
	return nil, badinput.Errorf("run %s cannot be resumed with a change of %s; restore it, "+
		"type init_from=%s run_dir=DIR for a new run, or allow_change=%s to accept the change",
		run, strings.Join(said, ", "), display.ShellQuote(run), strings.Join(keys, ","))
}
