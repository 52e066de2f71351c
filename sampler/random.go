package sampler

// uniform is the number in [0, 1) that a token is drawn with: a function of where it stands and of
// nothing else, so that draws can be repeated in any order and on any machine.
func uniform(k Key, sample, position int) float64 {
	h := mix(k.Seed ^ 0x67_72_70_6f) // "grpo": other users of the same seed draw other numbers
	for _, v := range [...]int{k.Step, k.Problem, sample, position} {
		h = mix(h + uint64(v))
	}
	return float64(h>>11) / (1 << 53)
}

// mix is the finalizer of SplitMix64, after its increment.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
