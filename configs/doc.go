// Package configs is the one place where a run is told what to do: a flat struct of settings, its
// presets, and how files and key=value words change them. Every mistake is an input error that says
// where it stands, what was found there and what to type.
//
// The package does not know what a setting means to those who obey it: whether a file exists, a model
// has the layers, or memory suffices, they find out.
package configs
