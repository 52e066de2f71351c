package body

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A temperature that would be rounded to 0 for the sampler is refused; 0 itself is not.
func TestTemperature(t *testing.T) {
	for sent, want := range map[string]float32{"": 1, "null": 1, "0": 0, "0.00": 0, "0e5": 0, "0.7": 0.7, "1e-6": 1e-6, "100": 100} {
		got, err := Temperature([]byte(sent))
		require.NoError(t, err, sent)
		require.Equal(t, want, got, sent)
	}
	for sent, want := range map[string]string{
		"1e-46": "found 1e-46, expected 0, which takes the most likely token, or 0.000001 to 100", "1e-400": "found 1e-400, expected 0, which",
		"1e-7": "found 1e-7, expected 0, which", "-1": "found -1, expected 0 to 100", "101": "found 101, expected 0 to 100",
		"1e999": "found 1e999, expected a number", `"hot"`: `found "hot", expected a number`, "[1]": "found [1], expected a number",
	} {
		_, err := Temperature([]byte(sent))
		require.ErrorContains(t, err, "temperature: "+want, sent)
	}
}
