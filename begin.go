package grpo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// origin is where a run begins: at a checkpoint of its own, at one of another run, or anew.
type origin struct {
	checkpoint string // "": none
	state      state
	fork       bool // the checkpoint is another run's
}

// settle decides on the run directory, as far as the configuration leaves it open.
func (s *Session) settle() error {
	cfg := s.Config
	if named := cfg.Resume; named != "auto" && named != "never" {
		run := runOf(named)
		if whole, err := filepath.Abs(filepath.Join(named, "..")); run != filepath.Clean(named) && (err != nil || filepath.Base(whole) != checkpointsDir) {
			return badinput.Errorf("resume=%s is a checkpoint outside of a run; type init_from=%s to go on from it in a run of its own", named, named)
		}
		if cfg.RunDir != "" && filepath.Clean(cfg.RunDir) != run {
			return badinput.Errorf("resume=%s goes on in %s, and run_dir is %s; leave run_dir out, or type init_from=%s to go on in another directory",
				named, run, cfg.RunDir, named)
		}
		cfg.RunDir = run
	}
	if cfg.RunDir == "" {
		cfg.RunDir = filepath.Join("runs", time.Now().Format("2006_01_02-15_04_05"))
	}
	return nil
}

// runOf is the run directory that dir is, or that it is a checkpoint of.
func runOf(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, stateFile)); err == nil {
		return filepath.Join(dir, "..", "..")
	}
	return filepath.Clean(dir)
}

// named reads the checkpoint that a setting names, itself or by its run.
func (t *Trainer) named(key, dir string) (origin, error) {
	if run := runOf(dir); run != filepath.Clean(dir) {
		st, err := readState(dir)
		return origin{checkpoint: dir, state: st}, err
	}
	newest, st, damaged, err := newestCheckpoint(dir)
	if err != nil {
		return origin{}, err
	}
	if newest == "" {
		return origin{}, badinput.Errorf("%s=%s: %w", key, dir, errors.Join(append(damaged, fmt.Errorf("no checkpoint to go on from; %s", elsewhere(key)))...))
	}
	t.warnOfDamage(damaged)
	return origin{checkpoint: newest, state: st}, nil
}

// elsewhere is what to type where a setting names nothing that a run could go on from.
func elsewhere(key string) string {
	if key == "run_dir" {
		return "choose another run_dir to begin anew"
	}
	return fmt.Sprintf("expected %s=DIR of a run, or of one of its %s", key, checkpointsDir)
}

// findOrigin finds where the run begins.
func (s *Session) findOrigin() (o origin, err error) {
	cfg := s.Config
	if cfg.Resume != "auto" && cfg.Resume != "never" {
		return s.named("resume", cfg.Resume)
	}
	all, err := Checkpoints(cfg.RunDir)
	if err != nil {
		return o, badinput.Errorf("run_dir: %w; choose another one", err)
	}
	switch {
	case len(all) > 0 && cfg.Resume == "never":
		return o, badinput.Errorf("run_dir %s has %d checkpoints and resume=never; choose another run_dir, or resume=auto to go on", cfg.RunDir, len(all))
	case len(all) > 0:
		return s.named("run_dir", cfg.RunDir)
	case cfg.InitFrom != "":
		o, err = s.named("init_from", cfg.InitFrom)
		o.fork = true
	}
	return o, err
}

// begin starts recording in dir at the origin: everything that was written after it is forgotten, and
// checkpoints of later steps are set aside.
func (t *Trainer) begin(dir string, o origin) (err error) {
	if o.checkpoint != "" {
		if err := t.restore(o.checkpoint, o.state); err != nil {
			return err
		}
	}
	if err := errors.Join(atomicfile.Sweep(dir), setAside(dir, t.step)); err != nil {
		return err
	}
	var recorded map[string]int64
	if o.checkpoint != "" && !o.fork {
		recorded = o.state.Logs
		if err := t.restoreAhead(filepath.Join(o.checkpoint, aheadFile)); err != nil {
			return err
		}
	} else { // a fork draws with its own settings: a draft of the other run, and its problems, are passed over
		t.start, t.evaluated = t.step, t.step
	}
	if t.record, err = OpenRecord(dir, recorded); err != nil {
		return err
	}
	t.first, err = t.record.firstEvaluation()
	return err
}

// setAside moves the checkpoints of steps after step out of the way of those that the run will write, and
// removes what is left of unfinished ones.
func setAside(run string, step int) error {
	entries, err := os.ReadDir(filepath.Join(run, checkpointsDir))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), partialSuffix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(run, checkpointsDir, e.Name())); err != nil {
			return err
		}
	}
	all, err := Checkpoints(run)
	if err != nil {
		return err
	}
	aside := ""
	for _, dir := range all {
		if stepOf(dir) <= step {
			continue
		}
		if aside == "" {
			parent := filepath.Join(run, checkpointsDir, asideDir)
			if err := os.MkdirAll(parent, 0o755); err != nil {
				return err
			}
			if aside, err = os.MkdirTemp(parent, time.Now().Format("2006_01_02-15_04_05")+"-"); err != nil {
				return err
			}
		}
		if err := os.Rename(dir, filepath.Join(aside, filepath.Base(dir))); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trainer) warnOfDamage(damaged []error) {
	for _, d := range damaged {
		t.Watcher.Warn(fmt.Sprintf("%v; an older one is used", d))
	}
}

// Begin starts recording the run in its directory: anew, or from the checkpoint that the configuration
// names or that is there.
func (s *Session) Begin(ctx context.Context) error {
	if s.Config.Deterministic && s.Judge.Backend().Kind == "fusion" {
		return badinput.Errorf("deterministic: a sandbox on another machine may judge differently; set sandbox=local, or deterministic=false")
	}
	o, err := s.findOrigin()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Config.RunDir, 0o755); err != nil {
		return badinput.Errorf("run_dir: %w; choose another one", err)
	}
	log, err := openLog(s.Config.RunDir, s.Watcher)
	if err != nil {
		return badinput.Errorf("run_dir: %w; choose another one", err)
	}
	s.Watcher, s.closers = log, append(s.closers, log)
	s.began = s.describe(o)
	log.say("%s", s.began)
	if err := s.begin(s.Config.RunDir, o); err != nil {
		return err
	}
	s.closers = append(s.closers, s.record)
	return errors.Join(s.copySets(ctx), s.writeManifest(o))
}

// Began says how the run began, once it did.
func (s *Session) Began() string { return s.began }

// describe says how the run begins.
func (s *Session) describe(o origin) string {
	switch {
	case o.checkpoint != "" && s.MaxSteps >= 0 && o.state.Step >= s.MaxSteps:
		return fmt.Sprintf("%s has all of its %d steps; type max_steps=N for more", o.checkpoint, s.MaxSteps)
	case o.checkpoint == "":
		return "a new run in " + s.Config.RunDir
	case o.fork:
		return fmt.Sprintf("a new run in %s from %s, after step %d", s.Config.RunDir, o.checkpoint, o.state.Step)
	}
	return fmt.Sprintf("goes on from %s, after step %d", o.checkpoint, o.state.Step)
}
