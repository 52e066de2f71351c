package report

import (
	"encoding/json"
	"errors"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// How numbers are formatted.
var (
	number, rate, fine, seconds      = display.Number, display.Rate, display.Fine, display.Seconds
	percent, signed, exact, duration = display.Percent, display.Signed, display.Exact, display.Duration
	grouped, count, every, earned    = display.Grouped, display.Count, display.Every, display.Reward
)

// understand decodes JSON leniently: a value of the wrong type leaves its field unchanged.
func understand(text []byte, v any) bool {
	err := json.Unmarshal(text, v)
	var kind *json.UnmarshalTypeError
	return err == nil || errors.As(err, &kind)
}

// settle makes values unknown if no problem was judged, and widens an interval of one point: no number of problems is proof.
func (e evaluation) settle() evaluation {
	if e.Problems > 0 && e.LeftOut >= e.Problems {
		e.PassAtK = nan
	}
	switch {
	case stats.Unjudged(e.Greedy, e.CI):
		unknown := unknownEvaluation(e.Step)
		e.Greedy, e.CI, e.Format = unknown.Greedy, unknown.CI, unknown.Format
		if e.PassAt1 == 0 && e.PassAtK != e.PassAtK {
			e.PassAt1 = nan
		}
	case e.CI[0] == e.CI[1] && e.Problems > 0 && e.Greedy >= 0 && e.Greedy <= 1:
		e.CI = stats.Wilson(e.Greedy, e.Problems)
	}
	return e
}

func (e evaluation) hasInterval() bool { return e.CI[0] <= e.CI[1] } // false for NaN
