package reward

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// custom calls the user's compute_reward(completion, ground_truth, **columns) -> float, which its runner keeps
// loaded. A failure gives no reward, and is counted and reported: only the author of the file can tell whether
// the file or the completion is at fault.
type custom struct {
	runner Runner
	limits sandbox.Limits
	file   string // for messages
	takes  columns

	mu     sync.Mutex
	calls  int64
	wall   time.Duration // of all calls
	failed int64
	last   string   // the last failure
	heard  []string // the first different lines that the file wrote to standard error
	told   int      // how many of them warnings has returned
	recent failures
}

// mostHeard bounds the lines of standard error that are passed on.
const mostHeard = 5

func (c *custom) score(ctx context.Context, group, completion string, p *data.Problem) (reward float64, note string, err error) {
	truth, err := groundTruth(ctx, p)
	if err != nil {
		return 0, "", err
	}
	function, args := "compute_reward", []any{completion, truth}
	if c.takes.some() {
		columns, err := c.takes.of(ctx, p)
		if err != nil {
			return 0, "", err
		}
		function, args = rewardWithColumns, append(args, columns)
	}
	a, err := call(ctx, c.runner, group, sandbox.Program{Call: function}, c.limits, args...)
	if err != nil {
		return 0, "", err
	}
	a.note = c.takes.file.Note(a.note, "compute_reward", a.Result, c.limits)
	n, ok := asNumber(a.value)
	if a.note == "" && (!ok || math.IsInf(n.nearest(), 0)) {
		a.note = fmt.Sprintf("compute_reward returned %.60s, expected a finite number", a.Value)
	}
	c.note(a)
	if a.note != "" {
		return 0, "reward file: " + a.note, nil
	}
	return n.nearest(), "", nil
}

// note counts a call.
func (c *custom) note(a reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.wall += a.Wall
	if a.note == "" {
		for line := range strings.Lines(a.Stderr) {
			if line = strings.TrimSpace(line); line != "" && len(c.heard) < mostHeard && !slices.Contains(c.heard, line) {
				c.heard = append(c.heard, line)
			}
		}
		return
	}
	c.failed++
	c.recent.add(a.note)
	c.last = "reward file: " + a.note
}

// fillStats fills the counts of the reward file into Stats.
func (c *custom) fillStats(s *Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.CustomErrors, s.LastCustomError = c.failed, c.last; c.calls > 0 {
		s.CustomSeconds = c.wall.Seconds() / float64(c.calls)
	}
}

// Warnings report failures of checkers, reward file and judge model since the last call, and what the reward file wrote to
// standard error.
func (j *Judge) Warnings() []string {
	w := j.checker.warnings()
	if j.custom != nil {
		w = append(w, j.custom.warnings()...)
	}
	if j.referee != nil {
		w = append(w, j.referee.warnings()...)
	}
	return w
}

func (c *custom) warnings() (w []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, first := c.recent.take(); n > 0 {
		w = append(w, fmt.Sprintf("reward_file=%s failed on %s; the first time: %s", c.file, plural.Of(int(n), "completion"), first))
	}
	for _, line := range c.heard[c.told:] {
		w = append(w, fmt.Sprintf("reward_file=%s writes to standard error: %.200s", c.file, line))
	}
	c.told = len(c.heard)
	return w
}

// smallCompletion is the completion that Try uses.
const smallCompletion = "```python\nprint(42)\n```\n"

// Try calls the reward file and the judge model, if there are any, on a small completion of the problem, so that mistakes in them are
// found before training.
func (j *Judge) Try(ctx context.Context, p *data.Problem) error {
	if j.referee != nil {
		if err := j.referee.try(ctx, p); err != nil {
			return err
		}
	}
	if j.custom == nil {
		return nil
	}
	_, note, err := j.custom.scoreOf(ctx, Completion{Problem: p, Group: p.ID, Text: smallCompletion})
	if err != nil {
		return fmt.Errorf("reward_file=%s: %w", j.custom.file, err)
	}
	if note != "" {
		return badinput.Errorf("reward_file=%s fails on a trial completion of problem %s: %s", j.custom.file, p.ID,
			strings.TrimPrefix(note, "reward file: "))
	}
	return nil
}
