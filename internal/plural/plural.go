// Package plural counts things in words: 1 step, 2 steps.
package plural

import "fmt"

// Of is so many of something whose plural ends in s.
func Of(n int, what string) string { return fmt.Sprintf("%d %s", n, Pick(n, what, what+"s")) }

// Pick is the form of a word that goes with a number of things.
func Pick(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
