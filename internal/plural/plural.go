// Package plural formats numbers of things: 1 step, 2 steps.
package plural

import "fmt"

// Of formats a number of things whose plural ends in s.
func Of(n int, what string) string { return fmt.Sprintf("%d %s", n, Pick(n, what, what+"s")) }

// Pick chooses singular or plural.
func Pick(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
