package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/precondition"
)

// Datum is one sequence to train on. Row i has the input Tokens[i] and the target Targets[i]; all five
// slices are equally long. A row with Mask false (of a prompt, or a tool's output) is context only.
type Datum struct {
	Tokens      []int32
	Targets     []int32
	OldLogProbs []float32 // of the targets, as the sampler recorded them
	Advantages  []float32
	Mask        []bool
}

// Rows is the number of rows of the datum, before prefixes are shared.
func (d Datum) Rows() int { return len(d.Tokens) }

// Trainable counts the rows in the mask.
func (d Datum) Trainable() int {
	n := 0
	for _, m := range d.Mask {
		if m {
			n++
		}
	}
	return n
}

// Check validates the datum for a model.
func (d Datum) Check(c Config) error {
	n := len(d.Tokens)
	for _, f := range []struct {
		name string
		n    int
	}{{"targets", len(d.Targets)}, {"log-probabilities", len(d.OldLogProbs)}, {"advantages", len(d.Advantages)}, {"mask", len(d.Mask)}} {
		if f.n != n {
			return badinput.Errorf("%d %s for %d tokens", f.n, f.name, n)
		}
	}
	if n == 0 {
		return badinput.Errorf("empty sequence; at least two tokens are needed to predict one")
	}
	if err := c.CheckTokens(d.Tokens); err != nil {
		return err
	}
	for i, m := range d.Mask {
		if !m {
			continue
		}
		if t := d.Targets[i]; t < 0 || int(t) >= c.Vocab {
			return badinput.Errorf("target %d at position %d, expected 0 to %d", t, i, c.Vocab-1)
		}
		if !finite(d.OldLogProbs[i]) || !finite(d.Advantages[i]) {
			return badinput.Errorf("log-probability %v and advantage %v at position %d, expected finite numbers",
				d.OldLogProbs[i], d.Advantages[i], i)
		}
	}
	return nil
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

// datumJSON is a datum in a file. logprobs[i] belongs to tokens[i+1]. The first ob_len tokens were observed, all others were sampled,
// or with spans [from, to) those in a span.
type datumJSON struct {
	Tokens    jsonl.List[int32]           `json:"tokens"`
	ObLen     int                         `json:"ob_len"`
	Spans     jsonl.List[jsonl.List[int]] `json:"spans"`
	LogProbs  jsonl.List[float32]         `json:"logprobs"`
	Advantage *float32                    `json:"advantage"`
}

// UnmarshalJSON reads {"tokens":[…], "ob_len":P, "logprobs":[…], "advantage":A}, for a conversation "spans":[[P,…],…] too, and no more.
func (d *Datum) UnmarshalJSON(text []byte) error {
	var j datumJSON
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&j); err != nil {
		return fmt.Errorf("datum: %w", err)
	}
	n := len(j.Tokens) - 1
	switch {
	case n < 1:
		return badinput.Errorf("tokens: found %d, expected at least 2", len(j.Tokens))
	case len(j.LogProbs) != n:
		return badinput.Errorf("logprobs: found %d for %d tokens, expected %d", len(j.LogProbs), len(j.Tokens), n)
	case j.ObLen < 1 || j.ObLen > n:
		return badinput.Errorf("ob_len: found %d, expected 1 to %d", j.ObLen, n)
	case j.Advantage == nil:
		return badinput.Errorf("advantage: found none, expected a number")
	}
	spans, err := j.spans()
	if err != nil {
		return err
	}
	*d = NewConversation(j.Tokens, spans, j.LogProbs, *j.Advantage)
	return nil
}

// spans are the spans of sampled tokens.
func (j *datumJSON) spans() (spans [][2]int, err error) {
	if j.Spans == nil {
		return [][2]int{{j.ObLen, len(j.Tokens)}}, nil
	}
	end := 0
	for i, s := range j.Spans {
		if len(s) != 2 || s[0] < max(end, 1) || s[0] >= s[1] || s[1] > len(j.Tokens) {
			return nil, badinput.Errorf("spans: found %v in place %d, expected [from, to] after the span before, up to the %d tokens",
				s, i, len(j.Tokens))
		}
		spans, end = append(spans, [2]int{s[0], s[1]}), s[1]
	}
	if len(spans) == 0 || spans[0][0] != j.ObLen {
		return nil, badinput.Errorf("spans: found %v, expected the first to begin at ob_len, %d", spans, j.ObLen)
	}
	return spans, nil
}

// NewDatum makes a datum of a prompt of obLen tokens, at least 1, and its completion. logprobs[i] belongs to tokens[i+1], so
// there is one less of them, and every token of the completion has the same advantage. The slices are kept, not copied.
func NewDatum(tokens []int32, obLen int, logprobs []float32, advantage float32) Datum {
	precondition.InRange("model.NewDatum", "obLen", obLen, 1, len(tokens))
	return NewConversation(tokens, [][2]int{{obLen, len(tokens)}}, logprobs, advantage)
}

// NewConversation makes a datum of a conversation. The policy sampled the tokens in spans [from, to), which get the advantage; the
// rest is masked. No span begins at 0: nothing predicts the first token. logprobs[i] belongs to tokens[i+1], and is ignored where
// that is masked. The slices are kept, not copied.
func NewConversation(tokens []int32, spans [][2]int, logprobs []float32, advantage float32) Datum {
	n := max(len(tokens)-1, 0)
	d := Datum{
		Tokens: tokens[:n], Targets: tokens[min(1, len(tokens)):], OldLogProbs: logprobs,
		Advantages: make([]float32, n), Mask: make([]bool, n),
	}
	for _, s := range spans {
		precondition.InRange("model.NewConversation", "the end of a span", s[1], max(s[0], 1), len(tokens))
		precondition.InRange("model.NewConversation", "the beginning of a span", s[0], 1, s[1])
		for i := s[0] - 1; i < s[1]-1; i++ {
			d.Advantages[i], d.Mask[i] = advantage, true
		}
	}
	return d
}
