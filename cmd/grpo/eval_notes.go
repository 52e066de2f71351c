package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward"
)

// evalNotes stands between a session and its grader while it evaluates, and notes what passes. The
// greedy completions come first, then the samples.
type evalNotes struct {
	*screen
	grader      reward.Grader
	temperature float64 // of the samples

	mu              sync.Mutex
	greedy, sampled attempts
	current         *attempts // whose completions are under way
	sampling        bool      // is what goes on
}

// attempts are completions that were drawn in one go.
type attempts struct {
	all        []attempt
	begun, end time.Time // of sampling
}

// attempt is one completion with what came of it.
type attempt struct {
	reward.Completion
	score reward.Score
}

// Phase begins the next attempts, if it is about sampling.
func (n *evalNotes) Phase(name string, units int) {
	n.mu.Lock()
	if n.sampling = name == "sample"; n.sampling {
		if n.current == nil {
			n.current = &n.greedy
		} else {
			n.current = &n.sampled
		}
		n.current.begun = time.Now()
	}
	n.mu.Unlock()
	n.screen.Phase(name, units)
}

// Advance is told at the end of every completion: the last is the end of sampling.
func (n *evalNotes) Advance(units, tokens int) {
	n.mu.Lock()
	if n.sampling {
		n.current.end = time.Now()
	}
	n.mu.Unlock()
	n.screen.Advance(units, tokens)
}

// Grade passes a completion on and notes its score.
func (n *evalNotes) Grade(ctx context.Context, c reward.Completion) (reward.Score, error) {
	s, err := n.grader.Grade(ctx, c)
	if err == nil {
		n.mu.Lock()
		n.current.all = append(n.current.all, attempt{c, s})
		n.mu.Unlock()
	}
	return s, err
}

// sort puts the attempts in the order of the problems, and those of a problem in that of their texts: they
// were scored in no particular order.
func (n *evalNotes) sort(problems []data.Problem) {
	place := make(map[string]int, len(problems))
	for i := range problems {
		place[problems[i].ID] = i
	}
	for _, a := range []*attempts{&n.greedy, &n.sampled} {
		slices.SortFunc(a.all, func(x, y attempt) int {
			return cmp.Or(place[x.Problem.ID]-place[y.Problem.ID], strings.Compare(x.Text, y.Text), x.Tokens-y.Tokens)
		})
	}
}

// attemptLine is a completion as --out has it.
type attemptLine struct {
	Problem     string         `json:"problem"`
	Sample      int            `json:"sample"`
	Temperature float64        `json:"temperature"`
	Text        string         `json:"text"`
	Tokens      int            `json:"tokens"`
	Truncated   bool           `json:"truncated"`
	Verdict     reward.Verdict `json:"verdict"`
	Score       *float64       `json:"score"`
	Passed      int            `json:"passed"`
	Total       int            `json:"total"`
}

// write writes a line for each completion: for each problem the greedy one, then the samples.
func (n *evalNotes) write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	each := len(n.sampled.all) / max(len(n.greedy.all), 1)
	for i, a := range n.greedy.all {
		if err := enc.Encode(newAttemptLine(a, 0, 0)); err != nil {
			return err
		}
		for k, s := range n.sampled.all[i*each : (i+1)*each] {
			if err := enc.Encode(newAttemptLine(s, k, n.temperature)); err != nil {
				return err
			}
		}
	}
	return nil
}

func newAttemptLine(a attempt, sample int, temperature float64) attemptLine {
	line := attemptLine{
		Problem: a.Problem.ID, Sample: sample, Temperature: temperature, Text: a.Text, Tokens: a.Tokens, Truncated: a.Truncated,
		Verdict: a.score.Verdict, Score: &a.score.Reward, Passed: a.score.Passed, Total: a.score.Total,
	}
	if a.score.Excluded != "" {
		line.Score = nil
	}
	return line
}

// attemptReport is what can be counted about attempts.
type attemptReport struct {
	FormatRate   float64        `json:"format_rate"`
	Truncated    float64        `json:"truncated_rate"`
	Verdicts     map[string]int `json:"verdicts"`
	NotScored    int            `json:"not_scored"` // the machine failed, or on_truncated=mask
	Tokens       int            `json:"tokens"`
	TokensPerSec float64        `json:"tokens_per_s"`
}

// notRun is the verdict of a completion without a program.
const notRun = "not run"

func (a *attempts) report() attemptReport {
	r := attemptReport{Verdicts: map[string]int{}}
	for _, x := range a.all {
		if x.score.Components.Format == 0 {
			r.FormatRate++
		}
		if x.Truncated {
			r.Truncated++
		}
		if x.score.Excluded != "" {
			r.NotScored++
		}
		r.Verdicts[cmp.Or(string(x.score.Verdict), notRun)]++
		r.Tokens += x.Tokens
	}
	n := float64(max(len(a.all), 1))
	r.FormatRate, r.Truncated = r.FormatRate/n, r.Truncated/n
	if took := a.end.Sub(a.begun).Seconds(); took > 0 {
		r.TokensPerSec = float64(r.Tokens) / took
	}
	return r
}

// rows are the lines of a table about the attempts.
func (r *attemptReport) rows() [][]string {
	var counts []string
	for _, v := range []reward.Verdict{reward.AC, reward.WA, reward.TLE, reward.MLE, reward.OLE, reward.RTE, reward.CE, reward.INFRA, notRun} {
		if n := r.Verdicts[string(v)]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return [][]string{
		{"has a program", fmt.Sprintf("%.3f", r.FormatRate)},
		{"cut off", fmt.Sprintf("%.3f", r.Truncated)},
		{"verdicts", strings.Join(counts, ", ")},
		{"not scored", fmt.Sprint(r.NotScored)},
		{"tokens", fmt.Sprint(r.Tokens)},
		{"tokens/s", fmt.Sprintf("%.0f", r.TokensPerSec)},
	}
}
