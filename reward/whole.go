package reward

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Whole reports whether the reward file judges the completions of a problem together (compute_rewards): those that share Peers.
func (j *Judge) Whole() bool { return j.custom != nil && j.custom.takes.Whole }

// scoreOf calls the reward file on a completion, together with its peers if the file has compute_rewards.
func (c *custom) scoreOf(ctx context.Context, a Completion) (reward float64, note string, err error) {
	if !c.takes.Whole {
		return c.score(ctx, a.Group, a.Text, a.Problem)
	}
	peers, place := a.Peers, a.Place
	if peers == nil { // it is alone
		peers, place = NewPeers(1), 0
	}
	o, err := peers.judge(ctx, place, a.Text, func(texts []string) ([]opinion, error) { return c.scores(ctx, a.Group, texts, a.Problem) })
	return o.score, o.note, err
}

// scores calls compute_rewards on completions of a problem.
func (c *custom) scores(ctx context.Context, group string, texts []string, p *data.Problem) ([]opinion, error) {
	has, err := c.takes.of(ctx, p)
	if err != nil {
		return nil, err
	}
	if c.takes.takes("ground_truth") {
		if has["ground_truth"], err = groundTruth(ctx, p); err != nil {
			return nil, err
		}
	}
	limits := c.limits
	limits.CPU *= time.Duration(len(texts)) // as if each were asked about alone
	a, err := call(ctx, c.runner, group, sandbox.Program{Call: rewardsWithColumns}, limits, texts, has)
	if err != nil {
		return nil, err
	}
	a.note = c.takes.file.Note(a.note, "compute_rewards", a.Result, limits)
	list, ok := a.value.([]any)
	if a.note == "" && (!ok || len(list) != len(texts)) {
		a.note = fmt.Sprintf("compute_rewards returned %.60s, expected a list of %d numbers", a.Value, len(texts))
	}
	all := make([]opinion, len(texts))
	for i := range all {
		one := a
		if one.note == "" {
			n, ok := asNumber(list[i])
			if !ok || math.IsInf(n.nearest(), 0) {
				found := list[i]
				if found == nil {
					found = "None"
				}
				one.note = fmt.Sprintf("compute_rewards returned %.60v for completion %d, expected a finite number", found, i)
			}
			all[i].score = n.nearest()
		}
		if one.note != "" {
			all[i] = opinion{note: "reward file: " + one.note}
		}
		if i > 0 { // what was heard, and the time that it took, count once
			one.Wall, one.Stderr = 0, ""
		}
		c.note(one)
	}
	return all, nil
}
