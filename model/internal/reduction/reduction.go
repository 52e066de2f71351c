// Package reduction has the ways to reduce the loss over the tokens of a step.
package reduction

import "github.com/seed-7879b91d/grpo/internal/badinput"

// Reduction is how the loss is reduced over the tokens of a step. "" is Sum.
type Reduction string

// The reductions.
const (
	Sum          Reduction = "sum"           // every token counts as one
	TokenMean    Reduction = "token_mean"    // divided by the tokens of the step
	SequenceMean Reduction = "sequence_mean" // each sequence's mean, divided by the sequences of the step
	SequenceSum  Reduction = "sequence_sum"  // every token as one, divided by the sequences of the step
)

// Parse finds the reduction of that name.
func Parse(name string) (Reduction, error) {
	switch r := Reduction(name); r {
	case Sum, TokenMean, SequenceMean, SequenceSum:
		return r, nil
	}
	return "", badinput.Errorf("reduction %q is not known; expected one of %q", name, []Reduction{Sum, TokenMean, SequenceMean, SequenceSum})
}

// Check refuses an unknown reduction.
func (r Reduction) Check() error {
	if r == "" {
		return nil
	}
	_, err := Parse(string(r))
	return err
}

// Weight is the weight of a row of a sequence with `rows` trained rows, in a step of `sequences` sequences with `tokens` trained tokens.
func (r Reduction) Weight(rows, sequences, tokens int) float32 {
	switch r {
	case TokenMean:
		return float32(1 / float64(tokens))
	case SequenceMean:
		return float32(1 / (float64(sequences) * float64(rows)))
	case SequenceSum:
		return float32(1 / float64(sequences))
	}
	return 1
}
