package grpo

import (
	"context"
	"encoding/json"
	"os"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// savedDraft is a draft in a checkpoint. The policy that it was drawn with is gone when the run resumes,
// so it cannot be drawn again. It can be scored again, so nobody who saves or interrupts waits for scores.
type savedDraft struct {
	Policy   string       `json:"policy_sha256"`
	Updates  int          `json:"updates"`
	Refilled int          `json:"groups_refilled"`
	Epoch    int          `json:"epoch"`
	Groups   []savedGroup `json:"groups"`
}

type savedGroup struct {
	Problem  string            `json:"problem"`
	Prompt   []int32           `json:"prompt"`
	Rollouts []sampler.Rollout `json:"rollouts"`
}

// saveAhead writes the draft of the next step, where there is one.
func (t *Trainer) saveAhead(path string) error {
	if t.ahead == nil {
		return nil
	}
	s := savedDraft{Policy: t.ahead.policy, Updates: t.ahead.updates, Refilled: t.ahead.refilled, Epoch: t.ahead.epoch}
	for _, g := range t.ahead.groups {
		s.Groups = append(s.Groups, savedGroup{g.Problem.ID, g.Prompt, g.Rollouts})
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, text)
}

// restoreAhead reads what saveAhead wrote, and has it scored.
func (t *Trainer) restoreAhead(path string) error {
	t.ahead = nil
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var s savedDraft
	if err := json.Unmarshal(text, &s); err != nil {
		return badinput.Errorf("%s: %w", path, err)
	}
	d := &draft{policy: s.Policy, updates: s.Updates, refilled: s.Refilled, epoch: s.Epoch}
	for _, saved := range s.Groups {
		problem, known := t.Problems.Problem(saved.Problem)
		if !known {
			return badinput.Errorf("%s: problem %s is not among those to train on; give the data that the run began with", path, saved.Problem)
		}
		d.groups = append(d.groups, &Group{Problem: problem, Prompt: saved.Prompt, Rollouts: saved.Rollouts})
	}
	d.scores = t.rescore(d.groups)
	t.ahead = d
	return nil
}

// rescore begins to score groups that have their completions.
func (t *Trainer) rescore(groups []*Group) *scores {
	total := 0
	for _, g := range groups {
		n := len(g.Rollouts)
		g.Texts, g.Scores = make([]string, n), make([]reward.Score, n)
		total += n
	}
	s := newScores(context.Background(), groups, total, func(error) {})
	for i, g := range groups {
		for _, r := range g.Rollouts {
			r.Request = i // among all groups of the step, refills and all
			s.add(r, t.completed(g, r, t.Sampling.MaxTokens))
		}
	}
	close(s.finished)
	go s.run(t.Grader)
	return s
}
