// Package configs has the settings of a run: a flat struct, its presets, and how files and key=value words change it.
// Every mistake is an input error that says where it is, what was found there and what to type.
//
// The package does not check settings against the outside world: whether files exist, a model has the layers, or memory
// suffices.
package configs
