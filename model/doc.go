// Package model turns a Hugging Face directory into numbers that can be trained: it reads the architecture, lays its weights out for a
// backend, writes the forward pass as a gorgonia graph of fused operations, lets gorgonia derive the backward pass, and runs both as one
// flat program. It knows neither text nor rewards nor optimizers.
//
// # How a batch becomes gradients
//
//	Datum    one sequence: tokens, targets, and what a loss needs per token
//	Batch    several datums packed into rows (Pack), those that they begin with once (internal/trie)
//	graph    the forward pass (internal/arch) over symbolic rows, differentiated by gorgonia.Grad
//	program  the graph compiled for up to so many rows: backend calls over one arena (internal/program)
//	Policy   weights, what of them is trained, and the programs that use both
//
// A Decoder is another program of the same architecture, whose attention reads a cache of keys and values:
// prefill and decoding are the same to it. One that serves has the bare base, and adapters that each row may have one of (Served).
// Twins are policies over the same frozen weights.
//
// # Shapes
//
// T is the number of rows of a batch, H the hidden size, V the vocabulary, r the adapter's rank.
// Every value of the graph is a matrix of T rows, so that a program compiled for many rows serves every smaller batch.
//
// # Another architecture
//
// A family of models is a file in internal/arch and a line in its table. What it computes that no other does is an operation in
// internal/ops, a method of arch.Blocks, and that method of the builder in graph_blocks.go.
package model
