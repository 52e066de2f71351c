package race

// FirstOnly returns all variants of a test, or under the race detector only the first, as the others run the same code.
func FirstOnly[T any](forms ...T) []T {
	if Enabled {
		return forms[:1]
	}
	return forms
}
