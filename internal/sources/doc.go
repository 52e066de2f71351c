// Package sources opens what a configuration names: a model's directory, the problems for training and evaluation, and
// prompt templates. Each is embedded, a file, or on the Hub. It does not know what they are used for.
package sources
