// Package match holds answers that are no programs to what they should be: the same words, a pattern, a schema, or the
// same value in mathematics. What a model wrote beside its answer, thoughts among it, is looked past as each of them says.
package match
