package stats

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// Share is a number that may be unknown: NaN, null in JSON.
type Share float64

// MarshalJSON writes a number, or null.
func (s Share) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(s)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// UnmarshalJSON reads a number, or null.
func (s *Share) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*s = Share(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(s))
}

// MeanShare is the mean; unknown if there are no numbers.
func MeanShare(x []float64) Share {
	if len(x) == 0 {
		return Share(math.NaN())
	}
	return Share(Mean(x))
}

// Sampled are unbiased estimates of pass@1 and pass@k from sampled completions, and the mean of the best reward of the
// first k judged ones. A problem with fewer than k judged completions only counts for pass@1.
type Sampled struct {
	K       int     `json:"k"`
	PassAt1 float64 `json:"pass@1"`
	PassAtK Share   `json:"pass@k"` // unknown if all problems are left out
	BestOfK Share   `json:"best_of_k"`
	LeftOut int     `json:"k_left_out,omitempty"` // problems not counted in pass@k and best of k
}

// AtK is pass@k, with a note about problems that are left out.
func (s *Sampled) AtK(problems int) string { return s.known(fmt.Sprintf("%.3f", s.PassAtK), problems) }

// Best is best of k, with the same note.
func (s *Sampled) Best(problems int) string {
	return s.known(display.Reward(float64(s.BestOfK)), problems)
}

func (s *Sampled) known(value string, problems int) string {
	switch {
	case s.LeftOut == 0:
		return value
	case s.LeftOut >= problems:
		return "unknown"
	}
	return fmt.Sprintf("%s (without %d of %d problems)", value, s.LeftOut, problems)
}
