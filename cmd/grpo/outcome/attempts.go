package outcome

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Line is a completion in the file of --out.
type Line struct {
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

// WriteLines writes a line for each completion: for each problem the greedy one, then the samples.
func WriteLines(w io.Writer, e grpo.Evaluation, temperature float64) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i, g := range e.GreedyTry.Groups {
		if err := enc.Encode(newLine(g, g.Rollouts[0], 0)); err != nil {
			return err
		}
		if e.Sampled == nil {
			continue
		}
		for _, r := range e.SampledTry.Groups[i].Rollouts {
			if err := enc.Encode(newLine(g, r, temperature)); err != nil {
				return err
			}
		}
	}
	return nil
}

func newLine(g grpo.Group, r grpo.Scored, temperature float64) Line {
	line := Line{
		Problem: g.Problem.ID, Sample: r.Sample, Temperature: temperature, Text: r.Text, Tokens: r.Conversation.Drawn(len(r.Tokens)),
		Truncated: r.Finish == sampler.Length, Verdict: r.Score.Verdict, Score: &r.Score.Reward, Passed: r.Score.Passed, Total: r.Score.Total,
	}
	if r.Score.Excluded != "" {
		line.Score = nil
	}
	return line
}

// Attempts are statistics of completions.
type Attempts struct {
	FormatRate   float64        `json:"format_rate"`
	Truncated    float64        `json:"truncated_rate"`
	Verdicts     map[string]int `json:"verdicts"`
	NotScored    int            `json:"not_scored"` // the machine failed, or on_truncated=mask
	Tokens       int            `json:"tokens"`
	TokensPerSec float64        `json:"tokens_per_s"`

	Conversations *grpo.ConversationStats `json:"conversations,omitempty"`
}

// NotRun is the verdict of a completion without a program.
const NotRun = "not run"

func NewAttempts(try grpo.Attempt) Attempts {
	r, n, judged := Attempts{Verdicts: map[string]int{}, Conversations: try.Conversations}, 0, 0
	for _, g := range try.Groups {
		for _, a := range g.Rollouts {
			s := a.Score
			n++
			if s.Excluded != reward.ExcludedInfra { // as recorded evaluations count
				judged++
				if s.Excluded != reward.ExcludedTruncated && s.Components.Format == 0 {
					r.FormatRate++
				}
			}
			if a.Finish == sampler.Length {
				r.Truncated++
			}
			if s.Excluded != "" {
				r.NotScored++
			}
			r.Verdicts[cmp.Or(string(s.Verdict), NotRun)]++
			r.Tokens += a.Conversation.Drawn(len(a.Tokens))
		}
	}
	r.FormatRate, r.Truncated = r.FormatRate/float64(max(judged, 1)), r.Truncated/float64(max(n, 1))
	if try.Seconds > 0 {
		r.TokensPerSec = float64(r.Tokens) / try.Seconds
	}
	return r
}

// rows are the lines of the table about completions.
func (r *Attempts) rows() [][]string {
	var counts []string
	for _, v := range []reward.Verdict{reward.AC, reward.WA, reward.TLE, reward.MLE, reward.OLE, reward.RTE, reward.CE, reward.INFRA, NotRun} {
		if n := r.Verdicts[string(v)]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, v))
		}
	}
	var rows [][]string
	if c := r.Conversations; c != nil {
		turns := make([]string, len(c.SolvedByTurn))
		for t, share := range c.SolvedByTurn {
			turns[t] = fmt.Sprintf("%.3f", share)
		}
		rows = append(rows, []string{"solved by turn", strings.Join(turns, " ")})
	}
	return append(rows, [][]string{
		{"has a program", fmt.Sprintf("%.3f", r.FormatRate)},
		{"cut off", fmt.Sprintf("%.3f", r.Truncated)},
		{"verdicts", strings.Join(counts, ", ")},
		{"not scored", fmt.Sprint(r.NotScored)},
		{"tokens", fmt.Sprint(r.Tokens)},
		{"tokens/s", fmt.Sprintf("%.0f", r.TokensPerSec)},
	}...)
}
