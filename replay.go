package grpo

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Replayed is the policy as it was after a recorded step.
type Replayed struct {
	policy *policy
}

// Save writes what was trained to dir: an adapter, or a model.
func (r *Replayed) Save(dir string) error { return r.policy.Save(dir, r.policy.base) }

// Replay takes a recorded step of a run again: from the last checkpoint before it, with the completions
// that were recorded, through every step between. It ends with an error where a policy does not come
// out as the one that was recorded, to the last bit. Done is told of each step. The backend is the
// caller's. A run that was trained with an own loss needs it here too.
func Replay(ctx context.Context, run string, step int, b kernels.Backend, done func(Metrics), options ...Option) (*Replayed, error) {
	cfg, err := readConfig(run)
	if err != nil {
		return nil, err
	}
	metrics, err := jsonl.OfKind[Metrics](filepath.Join(run, metricsFile), "")
	if err != nil {
		return nil, err
	}
	recorded, last := map[int]Metrics{}, 0
	for _, m := range metrics {
		recorded[m.Step], last = m, max(last, m.Step)
	}
	if recorded[step].Step != step || step < 1 {
		return nil, badinput.Errorf("run %s: step %d is not recorded; its metrics end with step %d", run, step, last)
	}
	var m manifest
	if err := rundir.ReadJSON(filepath.Join(run, manifestFile), &m); err != nil {
		return nil, err
	}
	own := collect(options)
	if slices.Contains(m.Own, "loss") && own.loss == nil {
		return nil, badinput.Errorf("run %s was trained with a loss of the program that trained it: replay it there, with WithLoss", run)
	}
	p, err := openPolicy(ctx, cfg, b)
	if err != nil {
		return nil, err
	}
	l, err := openLearner(cfg, b, p, own.loss)
	if err != nil {
		return nil, err
	}
	from, err := goBefore(run, step, m.Origin, p, l)
	if err != nil {
		return nil, err
	}
	groups, err := readGroups(run, from+1, step)
	if err != nil {
		return nil, err
	}
	for n := from + 1; n <= step; n++ {
		again, err := l.repeat(ctx, groups[n], recorded[n])
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		done(again)
	}
	return &Replayed{p}, nil
}

// goBefore restores the last checkpoint of a run that was made before a step, the one that a fork began
// at, or else stays at the beginning. It gives the step of the policy.
func goBefore(run string, step int, origin string, p *policy, l *learner) (int, error) {
	all, err := rundir.List(run)
	if err != nil {
		return 0, err
	}
	if origin != "" {
		all = append(all, origin)
	}
	for _, dir := range all {
		if st, err := readState(dir); err == nil && st.Step < step {
			return st.Step, restore(dir, p, l.adam)
		}
	}
	if origin != "" {
		return 0, badinput.Errorf("run %s is a fork of %s, which is not there any more", run, origin)
	}
	return 0, nil
}

// repeat takes a step with recorded completions and compares policies.
func (l *learner) repeat(ctx context.Context, groups []Group, recorded Metrics) (m Metrics, err error) {
	m = Metrics{Step: recorded.Step, Provenance: recorded.Provenance}
	compare := func(when, want string) error {
		got, err := l.policy.Hash()
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
	datums := datums(groups)
	if m.Datums = len(datums); m.Datums != recorded.Datums {
		return m, badinput.Errorf("%s has %d completions to learn from, the metrics say %d", rolloutsFile, len(datums), recorded.Datums)
	}
	m.Update, err = l.update(ctx, datums, recorded.Iterations, recorded.LearningRate, m.Staleness > 0)
	if err != nil {
		return m, err
	}
	return m, compare("after", recorded.Trained)
}

// readGroups reads the completions of steps from to to.
func readGroups(run string, from, to int) (map[int][]Group, error) {
	groups := map[int][]Group{}
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
			all = append(all, Group{Prompt: Prompt{Index: r.Group, Tokens: r.Prompt}})
			groups[r.Step] = all
		}
		if r.Group != len(all)-1 || r.Sample != len(all[r.Group].Rollouts) {
			return badinput.Errorf("sample %d of group %d of step %d is not in its place", r.Sample, r.Group, r.Step)
		}
		g := &all[r.Group]
		rollout := Rollout{Group: r.Group, Sample: r.Sample, Tokens: r.Tokens, LogProbs: r.LogProbs, Finish: r.Finish, Text: r.Text}
		g.Rollouts, g.Advantages = append(g.Rollouts, Scored{rollout, r.Score}), append(g.Advantages, r.Advantage)
		return nil
	})
	return groups, err
}
