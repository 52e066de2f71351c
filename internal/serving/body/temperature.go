package body

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// leastTemperature is the lowest temperature above 0 that a sampler accepts.
const leastTemperature = 1e-6

// Temperature parses a temperature; none, or null, is 1. One above 0 that would round to 0 in the sampler is refused: 0 means greedy
// sampling.
func Temperature(raw json.RawMessage) (float32, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return 1, nil
	}
	brief := refusal.Truncate(string(raw), 40)
	var sent float64
	if json.Unmarshal(raw, &sent) != nil {
		return 0, refusal.Field("temperature", "found %s, expected a number", brief)
	}
	if !(sent >= 0 && sent <= 100) {
		return 0, refusal.Field("temperature", "found %v, expected 0 to 100", sent)
	}
	t := float32(sent)
	digits, _, _ := strings.Cut(strings.ToLower(string(raw)), "e")
	if t > 0 && t < leastTemperature || t == 0 && strings.ContainsAny(digits, "123456789") {
		return 0, refusal.Field("temperature", "found %s, expected 0, which takes the most likely token, or 0.000001 to 100", brief)
	}
	return t, nil
}
