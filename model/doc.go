// Package model loads a Hugging Face directory to score, sample and train: it reads the architecture, lays its weights out for a
// backend, writes the forward pass as a gorgonia graph of fused operations, lets gorgonia derive the backward pass, and compiles both
// to one flat program. It knows neither text nor rewards nor optimizers.
//
// # How a batch becomes gradients
//
//	Datum    one sequence: tokens, targets, old log-probabilities, advantages and a mask
//	Batch    several datums packed into rows (Pack); shared prefixes have their rows once (internal/trie)
//	graph    the forward pass (internal/arch) over symbolic rows, differentiated by gorgonia.Grad
//	program  the graph compiled for a maximum number of rows: backend calls over one arena (internal/program)
//	Policy   base weights, trained parameters (an adapter, or all weights), and the programs that use them
//
// A Decoder is another program of the same architecture, whose attention reads a paged KV cache; prefill and decoding are the
// same to it. It can serve several adapters over the base weights at once, one for each sequence (Served).
// Twins are policies that share frozen weights.
//
// # Shapes
//
// T is the number of rows of a batch, one for each token, H the hidden size, V the vocabulary, r the adapter's rank.
// Every value of the graph is a matrix of T rows, so that a program compiled for many rows also runs smaller batches.
//
// # Another architecture
//
// A model family is a file in internal/arch and a line in its table. A new operation is a function in internal/ops, a method of
// arch.Blocks, and the builder's implementation of it in graph_blocks.go.
package model
