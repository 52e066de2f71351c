// Package arch knows the families of models: the keys of config.json that describe their shapes, the names of their tensors,
// how a new model is initialised, and what it computes. It computes nothing itself: a forward pass is written in terms of
// Blocks, of which package model makes a graph.
//
//	config.json ──Read──▶ Config ──Slots──▶ the weights, by name and shape
//	                         └────Forward(Blocks)──▶ what is computed with them
//
// A family is a file with a value of type architecture, and a line in the table of arch.go.
package arch
