// Package sandbox runs Python programs that nobody trusts, many and fast, and says how each run
// ended. It knows neither what a right answer is nor what a reward is: expected outputs never come
// here, so there is nothing in a cell that a program could read to look better than it is.
package sandbox
