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
// so it cannot be drawn again.
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
	Scores   []reward.Score    `json:"scores"`
}

// saveAhead writes the draft of the next step, where there is one, once its scores are there.
func (t *Trainer) saveAhead(path string) error {
	if t.ahead == nil {
		return nil
	}
	var timing Timing
	if err := t.await(context.Background(), t.ahead.scores, &timing); err != nil {
		return err
	}
	s := savedDraft{Policy: t.ahead.policy, Updates: t.ahead.updates, Refilled: t.ahead.refilled, Epoch: t.ahead.epoch}
	for _, g := range t.ahead.groups {
		s.Groups = append(s.Groups, savedGroup{g.Problem.ID, g.Prompt, g.Rollouts, g.Scores})
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, text)
}

// restoreAhead reads what saveAhead wrote.
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
	d := &draft{policy: s.Policy, updates: s.Updates, refilled: s.Refilled, epoch: s.Epoch, scores: allThere()}
	for _, saved := range s.Groups {
		problem, known := t.Problems.Problem(saved.Problem)
		if !known {
			return badinput.Errorf("%s: problem %s is not among those to train on; give the data that the run began with", path, saved.Problem)
		}
		g := &Group{Problem: problem, Prompt: saved.Prompt, Rollouts: saved.Rollouts, Scores: saved.Scores}
		for _, r := range g.Rollouts {
			g.Texts = append(g.Texts, t.Tokenizer.Text(r.Tokens))
		}
		d.groups = append(d.groups, g)
	}
	t.ahead = d
	return nil
}
