package conversation

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Record is what is kept of a conversation beside its tokens and its score.
type Record struct {
	Turns    []sampler.Turn   `json:"turns"`    // in the tokens after the prompt
	Messages []chat.Message   `json:"messages"` // after the prompt, as they were drawn and answered
	Ending   episode.Ending   `json:"ending"`
	Judged   []episode.Judged `json:"judged"` // the turns that a grader scored
	Calls    int              `json:"calls,omitempty"`
	Wrong    int              `json:"wrong_calls,omitempty"` // that could not be read or done
	Most     int              `json:"max_turns"`

	Score   reward.Score `json:"-"`
	Seconds float64      `json:"-"` // that the environment took
}

func (r *Room) record(p episode.Played) *Record {
	return &Record{Turns: p.Turns, Messages: p.Messages, Ending: p.Ending, Judged: p.Judged, Calls: p.Calls, Wrong: p.Wrong,
		Most: r.talk.Turns, Seconds: p.Took.Seconds()}
}

// Spans are the turns in the sequence of a prompt of so many tokens and so many after it; without a record, all of these.
func (r *Record) Spans(prompt, after int) [][2]int {
	if r == nil {
		return episode.Spans(prompt, after, nil)
	}
	return episode.Spans(prompt, after, r.Turns)
}

// Within tells whether there are turns, in order, within so many tokens.
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

// Drawn is how many of so many tokens the model drew.
func (r *Record) Drawn(after int) (n int) {
	for _, s := range r.Spans(0, after) {
		n += s[1] - s[0]
	}
	return n
}

// Stats are conversations together. What a clock says is not among them.
type Stats struct {
	// SolvedByTurn is the share that had been right after so many turns.
	SolvedByTurn []float64 `json:"solved_by_turn"`
	// Healed is the share of those wrong at their first turn that were right at their last.
	Healed  float64                `json:"healed"`
	Turns   float64                `json:"turns_mean"`
	Endings map[episode.Ending]int `json:"endings"`
	Calls   int                    `json:"tool_calls"`
	Wrong   int                    `json:"tool_errors"`

	n, sick int
	Seconds float64 `json:"-"` // that environments took
}

// Add counts a conversation that was judged. Correct says what it came to.
func (s *Stats) Add(r *Record, correct bool) {
	if s.Endings == nil {
		s.Endings, s.SolvedByTurn = map[episode.Ending]int{}, make([]float64, r.Most)
	}
	s.n++
	s.Endings[r.Ending]++
	s.Turns += float64(len(r.Turns))
	s.Calls, s.Wrong, s.Seconds = s.Calls+r.Calls, s.Wrong+r.Wrong, s.Seconds+r.Seconds
	first := len(r.Turns) - 1 // where a conversation without a grader was right
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

// String says it for people.
func (s *Stats) String() string {
	words := make([]string, len(s.SolvedByTurn))
	for t, share := range s.SolvedByTurn {
		words[t] = fmt.Sprintf("%.3f", share)
	}
	return "solved by turn " + strings.Join(words, " ")
}

// Whole gives the means, nil of no conversations.
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
