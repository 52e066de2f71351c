// Command make makes what package tiny embeds: several hundred small programming problems, a tokenizer,
// and a language model of 1.7 million parameters that can solve some of them. `make tiny-model` runs
// it. Everything follows from the seeds below, so a second run gives the same files.
//
// # Problems
//
// A problem is put together from three pieces: what is read (input), what is computed (op) and how
// the result is given back (output). An op in a certain output is a family; its instances differ in
// numbers, letters, names and wording. Expected results are computed here in Go, not by running the
// Python that solves the problem: the tests hold the two against each other.
//
// The held-out set has new instances of families that are trained on, and whole families that are not:
// each joins an op and an output that occur in training only apart.
//
// # The model
//
// It is trained on answers to instances of the training families, right and wrong, none of which is in
// either set. A piece of an answer goes wrong by itself: a number is not converted, an operator is
// another, a list is printed as Python shows it, a function prints instead of returning, a colon is
// missing, or the fence around the code. Some inputs and outputs are mostly got wrong whatever is
// computed, and some ops whatever their output (answer.go). So the model begins with the right answer
// to nearly every problem among its likely ones, to a third of them as the likeliest, and reinforcement
// has bad habits to mend that it can only see by running programs.
//
// The training is supervised, on all weights: cross entropy over the tokens of the answers, AdamW, a
// warm-up and half a cosine (train.go). It takes a few minutes on two cores.
package main
