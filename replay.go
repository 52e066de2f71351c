package grpo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Replay takes a recorded step of a run again: from the last checkpoint before it, with the completions
// that were recorded, through every step between. It ends with an error where a policy does not come
// out as the one that was recorded, to the last bit. Done is told of each step. The backend is the
// caller's. The session that it gives has the policy as it was after the step.
func Replay(ctx context.Context, run string, step int, b kernels.Backend, done func(Metrics)) (*Session, error) {
	cfg, err := readConfig(run)
	if err != nil {
		return nil, err
	}
	recorded, err := readSteps(run)
	if err != nil {
		return nil, err
	}
	if recorded[step].Step != step || step < 1 {
		return nil, badinput.Errorf("run %s: step %d is not recorded; its metrics end with step %d", run, step, last(recorded))
	}
	s := &Session{Config: cfg, backend: b, Trainer: &Trainer{}}
	s.Watcher = nobody{}
	for _, open := range []func(context.Context) error{s.openModel, s.openText, s.setRules} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.goBefore(run, step); err != nil {
		return nil, err
	}
	groups, err := readGroups(run, s.step+1, step)
	if err != nil {
		return nil, err
	}
	for s.step < step {
		m, err := s.repeat(ctx, groups[s.step+1], recorded[s.step+1])
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", s.step+1, err)
		}
		s.step++
		done(m)
	}
	return s, nil
}

// readConfig reads the settings that a run had last.
func readConfig(run string) (*configs.Config, error) {
	cfg := &configs.Config{}
	if err := readJSON(filepath.Join(run, configFile), cfg); err != nil {
		return nil, err
	}
	if cfg.Version == 0 {
		return nil, badinput.Errorf("%s is not the directory of a run: it has no %s", run, configFile)
	}
	return cfg, nil
}

// OpenRun opens a session with the settings of a run, as far as change leaves them, and the policy of its
// last checkpoint, or of the one that dir names. Nothing of the run is written.
func OpenRun(ctx context.Context, dir string, b kernels.Backend, w Watcher, change func(*configs.Config) error) (*Session, error) {
	cfg, err := readConfig(runOf(dir))
	if err != nil {
		return nil, err
	}
	cfg.Resume, cfg.InitFrom = "never", ""
	if err := change(cfg); err != nil {
		return nil, err
	}
	s, err := Init(ctx, cfg, b, w)
	if err != nil {
		return nil, err
	}
	o, err := s.named("run", dir)
	if err == nil {
		err = s.Policy.Restore(filepath.Join(o.checkpoint, s.trainedDir()))
	}
	if err != nil {
		return nil, errors.Join(err, s.Finish())
	}
	s.step = o.state.Step
	return s, nil
}

// last is the number of the last recorded step.
func last(recorded map[int]Metrics) (step int) {
	for n := range recorded {
		step = max(step, n)
	}
	return step
}

// goBefore restores the last checkpoint of a run that was made before a step, the one that a fork began
// at, or else stays at the beginning.
func (s *Session) goBefore(run string, step int) error {
	all, err := Checkpoints(run)
	if err != nil {
		return err
	}
	var m manifest
	if err := readJSON(filepath.Join(run, manifestFile), &m); err != nil {
		return err
	}
	if m.Origin != "" {
		all = append(all, m.Origin)
	}
	for _, dir := range all {
		st, err := readState(dir)
		if err != nil || st.Step >= step {
			continue
		}
		s.step = st.Step
		return errors.Join(s.Policy.Restore(filepath.Join(dir, s.trainedDir())), s.Adam.LoadState(filepath.Join(dir, momentsFile)))
	}
	if m.Origin != "" {
		return badinput.Errorf("run %s is a fork of %s, which is not there any more", run, m.Origin)
	}
	return nil
}

// repeat takes a step with recorded completions and compares policies.
func (s *Session) repeat(ctx context.Context, groups []*Group, recorded Metrics) (m Metrics, err error) {
	m = Metrics{Step: recorded.Step, Iterations: recorded.Iterations, LearningRate: recorded.LearningRate, Staleness: recorded.Staleness}
	compare := func(when, want string) error {
		got, err := s.Policy.Hash()
		if err == nil && got != want {
			err = fmt.Errorf("the policy %s has SHA-256 %s, recorded was %s: settings, model or program are not those of the run", when, got, want)
		}
		return err
	}
	if m.Staleness == 0 {
		if err := compare("before", recorded.Policy); err != nil {
			return m, err
		}
	}
	var datums []model.Datum
	for _, g := range groups {
		if !g.Degenerate() {
			datums = append(datums, g.Datums()...)
		}
	}
	if len(datums) != recorded.Datums {
		return m, badinput.Errorf("%s has %d completions to learn from, the metrics say %d", rolloutsFile, len(datums), recorded.Datums)
	}
	if m.Datums = len(datums); m.Datums > 0 {
		if err := s.update(ctx, datums, recorded.Iterations, &m); err != nil {
			return m, err
		}
	}
	m.Policy, m.Trained = recorded.Policy, recorded.Trained
	return m, compare("after", recorded.Trained)
}

// readSteps reads the metrics of every step of a run.
func readSteps(run string) (map[int]Metrics, error) {
	steps := map[int]Metrics{}
	err := jsonl.Whole(filepath.Join(run, metricsFile), func(line []byte) error {
		var l struct {
			Kind string `json:"kind"`
			Metrics
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if l.Kind == "" {
			steps[l.Step] = l.Metrics
		}
		return nil
	})
	return steps, err
}

// readGroups reads the completions of steps from to to.
func readGroups(run string, from, to int) (map[int][]*Group, error) {
	groups := map[int][]*Group{}
	err := jsonl.Whole(filepath.Join(run, rolloutsFile), func(line []byte) error {
		var at struct{ Step int }
		if err := json.Unmarshal(line, &at); err != nil || at.Step < from || at.Step > to {
			return err
		}
		var r rolloutLine
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		all := groups[r.Step]
		if r.Group == len(all) {
			all = append(all, &Group{Prompt: r.Prompt})
			groups[r.Step] = all
		}
		if r.Group != len(all)-1 || r.Sample != len(all[r.Group].Rollouts) {
			return badinput.Errorf("sample %d of group %d of step %d is not in its place", r.Sample, r.Group, r.Step)
		}
		g := all[r.Group]
		g.Rollouts = append(g.Rollouts, sampler.Rollout{Request: r.Group, Sample: r.Sample, Tokens: r.Tokens, LogProbs: r.LogProbs, Finish: r.Finish})
		g.Scores, g.Advantages = append(g.Scores, r.Score), append(g.Advantages, r.Advantage)
		return nil
	})
	return groups, err
}
