package sampler

import "github.com/seed-7879b91d/grpo/internal/splitmix"

// uniform is the random number in [0, 1) that a token is drawn with. It is a function of key, sample and
// position alone (a counter-based generator), so that draws can be repeated in any order and on any machine.
func uniform(k Key, sample, position int) float64 {
	h := splitmix.At(k.Seed^0x67_72_70_6f, 0) // "grpo": other uses of the seed get other numbers
	for _, v := range [...]int{k.Step, k.Problem, sample, position} {
		h = splitmix.At(h+uint64(v), 0)
	}
	return float64(h>>11) / (1 << 53)
}
