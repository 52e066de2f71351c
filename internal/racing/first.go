package racing

// First is all forms of what a test does, or the first alone under the race detector: the others are the same code to it.
func First[T any](forms ...T) []T {
	if Detected {
		return forms[:1]
	}
	return forms
}
