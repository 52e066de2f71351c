// Package match compares answers that are not programs with what is expected: the same words, a pattern, a schema, or the same
// mathematical value. Text besides the answer, such as thoughts, is ignored as each of these says.
package match
