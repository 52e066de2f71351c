// Package model turns a Hugging Face directory into numbers that can be trained: it reads the
// architecture, lays its weights out for a backend, writes the forward pass as a gorgonia graph of
// fused operations, lets gorgonia derive the backward pass, and runs both as one flat program. It
// knows neither text nor rewards nor optimizers.
//
// # How a batch becomes gradients
//
//	Datum    one sequence: tokens, targets, and what a loss needs per token
//	Batch    several datums packed into rows (Pack)
//	Graph    the architecture over symbolic rows (graph_qwen3.go), differentiated by gorgonia.Grad
//	Program  the graph compiled for up to so many rows: backend calls over one arena (compile.go)
//	Policy   weights, adapter and gradients, and the programs that use them
//
// # Shapes
//
// T is the number of rows of a batch, H the hidden size, V the vocabulary, r the adapter's rank.
// Every value of the graph is a matrix of T rows, so that a program compiled for many rows serves
// every smaller batch.
package model
