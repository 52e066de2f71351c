// Package sources opens what a configuration names: the directory of a model, the problems to train and evaluate
// on, and their wording. Each is part of the program, a file, or on the Hub. It does not know what they are for.
package sources
