package conversation

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Record is what is recorded of a conversation besides its tokens and its score.
type Record struct {
	Turns    []sampler.Turn      `json:"turns"`    // ranges of the tokens after the prompt
	Messages []chat.Message      `json:"messages"` // those after the prompt: turns of the model, raw, and answers
	Ending   episode.Ending      `json:"ending"`
	Judged   []episode.TurnGrade `json:"judged"` // the turns that were graded
	Calls    int                 `json:"calls,omitempty"`
	Wrong    int                 `json:"wrong_calls,omitempty"` // calls that were malformed or failed
	Most     int                 `json:"max_turns"`

	Score   reward.Score `json:"-"`
	Seconds float64      `json:"-"` // that the environment took for its answers
}

func (r *Sampler) record(p episode.Played) *Record {
	return &Record{Turns: p.Turns, Messages: p.Messages, Ending: p.Ending, Judged: p.Judged, Calls: p.Calls, Wrong: p.Wrong,
		Most: r.player.Turns, Seconds: p.Took.Seconds()}
}

// Spans returns the ranges of the model's turns in a sequence of prompt and after tokens. Without a record, all after the prompt is one.
func (r *Record) Spans(prompt, after int) [][2]int {
	if r == nil {
		return episode.Spans(prompt, after, nil)
	}
	return episode.Spans(prompt, after, r.Turns)
}

// Within reports whether the turns are in order, and within that many tokens.
func (r *Record) Within(tokens int) bool {
	at := 0
	for _, t := range r.Turns {
		if t.Start < at || t.End <= t.Start {
			return false
		}
		at = t.End
	}
	return at > 0 && at <= tokens && len(r.Turns) <= r.Most
}

// Drawn is the number of tokens that the model sampled, of after tokens.
func (r *Record) Drawn(after int) (n int) {
	for _, s := range r.Spans(0, after) {
		n += s[1] - s[0]
	}
	return n
}

// Stats are statistics of conversations. They have nothing that depends on time, apart from Seconds.
type Stats struct {
	// SolvedByTurn is the share of conversations that were right by turn i+1.
	SolvedByTurn []float64 `json:"solved_by_turn"`
	// Healed is the share of right last turns among the conversations whose first turn was wrong.
	Healed  float64                `json:"healed"`
	Turns   float64                `json:"turns_mean"`
	Endings map[episode.Ending]int `json:"endings"`
	Calls   int                    `json:"tool_calls"`
	Wrong   int                    `json:"tool_errors"`

	n, sick int
	Seconds float64 `json:"-"` // that environments took for their answers
}

// Add counts a conversation that was judged; correct is its result.
func (s *Stats) Add(r *Record, correct bool) {
	if s.Endings == nil {
		s.Endings, s.SolvedByTurn = map[episode.Ending]int{}, make([]float64, r.Most)
	}
	s.n++
	s.Endings[r.Ending]++
	s.Turns += float64(len(r.Turns))
	s.Calls, s.Wrong, s.Seconds = s.Calls+r.Calls, s.Wrong+r.Wrong, s.Seconds+r.Seconds
	first := len(r.Turns) - 1 // the turn that counts as the right one if none was graded
	if len(r.Judged) > 0 {
		first = r.Judged[len(r.Judged)-1].Turn
	}
	if correct {
		for t := first; t < len(s.SolvedByTurn); t++ {
			s.SolvedByTurn[t]++
		}
	}
	if first > 0 || !correct {
		s.sick++
		if correct {
			s.Healed++
		}
	}
}

// String is a summary for the user.
func (s *Stats) String() string {
	words := make([]string, len(s.SolvedByTurn))
	for t, share := range s.SolvedByTurn {
		words[t] = fmt.Sprintf("%.3f", share)
	}
	return "solved by turn " + strings.Join(words, " ")
}

// Whole turns the sums into means; nil if there are no conversations.
func (s *Stats) Whole() *Stats {
	if s.n == 0 {
		return nil
	}
	for t := range s.SolvedByTurn {
		s.SolvedByTurn[t] /= float64(s.n)
	}
	s.Turns /= float64(s.n)
	s.Healed /= float64(max(s.sick, 1))
	return s
}
