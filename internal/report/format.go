package report

import (
	"encoding/json"
	"errors"

	"github.com/seed-7879b91d/grpo/internal/look"
)

// How numbers are written.
var (
	number, rate, fine, seconds      = look.Number, look.Rate, look.Fine, look.Seconds
	percent, signed, exact, duration = look.Percent, look.Signed, look.Exact, look.Duration
	grouped, count, every, earned    = look.Grouped, look.Count, look.Every, look.Reward
)

// understand decodes what it can: a value of another type than expected leaves its field as it was.
func understand(text []byte, v any) bool {
	err := json.Unmarshal(text, v)
	var kind *json.UnmarshalTypeError
	return err == nil || errors.As(err, &kind)
}
