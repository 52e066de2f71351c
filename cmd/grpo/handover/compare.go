package handover

import (
	"fmt"
	"math"
	"slices"
)

// limits are how much rounding weights to a type may change a log-probability on average. The weights themselves have been
// compared by then; this detects a model that computes something else.
var limits = map[string]float64{"bf16": 0.05, "f16": 0.05, "f32": 0.05, "q8_0": 0.2, "q4_0": 3}

// compare reports how far a written model is from the policy, and fails if it is too far.
func compare(want, got *probe, kind string) (lines []string, err error) {
	mean, most := differences(want.scores, got.scores)
	count := 0
	for _, s := range want.scores {
		count += len(s)
	}
	if !(mean <= limits[kind]) {
		return nil, fmt.Errorf("the written model is not the policy: log-probabilities differ by %.3g on average, expected at most %g for %s; "+
			"nothing was kept", mean, limits[kind], kind)
	}
	line := fmt.Sprintf("log-probabilities of %d tokens, read back: ", count)
	if most == 0 {
		line += "the policy's, to the bit"
	} else {
		line += fmt.Sprintf("%.2g from the policy's on average, %.2g at most: %s", mean, most, inWords(mean, kind))
	}
	lines = append(lines, line)
	if want.spoken > 0 {
		from := len(want.scores) - want.spoken
		spoken, _ := differences(want.scores[from:], got.scores[from:])
		lines = append(lines, sameAnswers(want, got)+fmt.Sprintf("; their log-probabilities differ by %.2g on average", spoken))
	}
	if want.moved > 0 {
		line := fmt.Sprintf("for comparison: the adapter moved log-probabilities by %.2g on average", want.moved)
		if mean > want.moved/2 {
			line += ", which this type does not keep apart from its rounding; " + typeAdvice(kind)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// typeAdvice is what to do if a type rounds away as much as the adapter changed. With 16 bits or more, it is the model's own
// type that does not preserve the change when weights are merged.
func typeAdvice(kind string) string {
	switch kind {
	case "q4_0":
		return "type --type q8_0 or bf16"
	case "q8_0":
		return "type --type bf16"
	}
	return "hand the adapter over as it is, with grpo package"
}

// inWords explains a difference of log-probabilities.
func inWords(mean float64, kind string) string {
	switch {
	case mean < 1e-4:
		return "the same but for the last digits"
	case mean < 0.02:
		return "as near as rounding to " + kind + " leaves them"
	case mean < 0.1:
		return fmt.Sprintf("a probability is off by %.0f %% of itself; sampled text will read the same", 100*(math.Exp(mean)-1))
	}
	return fmt.Sprintf("a probability is off by %.0f %% of itself; evaluate before you rely on it", 100*(math.Exp(mean)-1))
}

// sameAnswers says how many greedy answers are the same.
func sameAnswers(want, got *probe) string {
	same, where := 0, ""
	for i, a := range want.answers {
		b := got.answers[i]
		if slices.Equal(a, b) {
			same++
			continue
		}
		k := 0
		for k < min(len(a), len(b)) && a[k] == b[k] {
			k++
		}
		where = fmt.Sprintf(" (answer %d differs from token %d on)", i+1, k+1)
	}
	return fmt.Sprintf("greedy answers: %d of %d the same%s", same, len(want.answers), where)
}
