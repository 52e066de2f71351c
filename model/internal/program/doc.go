// Package program runs a differentiated graph as a flat list of backend calls. It knows how operations
// depend on one another and how long a value must live; it knows no transformer, no weights and no batch.
//
//	Graph     nodes of gorgonia, each an Op, over leaves that are already in memory
//	Schedule  the order: forward, then backward, with recomputation of values that were not kept
//	Place     the memory: liveness decides which values may share a piece of an arena
//	Program   the operations with their operands bound, ready to run as often as needed
//
// Every value is a matrix with the rows of a batch, so that a program compiled for many rows serves every
// smaller batch. Values that depend on the rows are written, gradients of parameters are added up.
package program
