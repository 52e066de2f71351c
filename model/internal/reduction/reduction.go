// Package reduction says how a loss adds up over the tokens of a step.
package reduction

import "github.com/seed-7879b91d/grpo/internal/badinput"

// Reduction is how a loss adds up over the tokens of a step. "" is Sum.
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

// Check refuses what is none of them.
func (r Reduction) Check() error {
	if r == "" {
		return nil
	}
	_, err := Parse(string(r))
	return err
}

// Weight is that of a row of a sequence that teaches so many rows, in a step of so many sequences that teach so many tokens.
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
