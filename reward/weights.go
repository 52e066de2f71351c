package reward

import (
	"math"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// FormatCoef is the usual weight of the format: a completion without a program earns −0.1.
const FormatCoef = 0.1

// namedWeights are the named rewards.
var namedWeights = map[string]Weights{
	"correct":  {Format: FormatCoef, Correct: 1},
	"fraction": {Format: FormatCoef, Fraction: 1},
	"custom":   {Custom: 1},
}

// ModeWeights returns the weights of a named reward: "correct" rewards passing all tests and "fraction" the share of tests passed, both
// with FormatCoef for the format, and "custom" is the reward file's alone.
func ModeWeights(name string) (Weights, error) {
	w, ok := namedWeights[name]
	if !ok {
		return w, badinput.Errorf("reward=%s: expected correct, fraction, custom or weights", name)
	}
	return w, nil
}

// ParseWeights parses "correct=1,format=0.1,length=-0.05". Components that are not named have weight 0.
func ParseWeights(text string) (Weights, error) {
	var w Weights
	fields := map[string]*float64{}
	for _, c := range (*Components)(&w).named() {
		fields[c.name] = c.value
	}
	for _, item := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		field, ok := fields[name]
		if !ok {
			return w, badinput.Errorf(
				"reward_weights: component %q: expected format, compile, fraction, correct, length, custom or judge, each once", name)
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return w, badinput.Errorf("reward_weights: %q: expected a number, as in correct=1,format=0.1", strings.TrimSpace(item))
		}
		*field = v
		delete(fields, name)
	}
	return w, nil
}
