// Command make makes what package tiny embeds: several hundred small programming problems, a tokenizer,
// and a language model of 1.7 million parameters that can solve some of them. `make tiny-model` runs
// it. Everything follows from the seeds in main.go, so a second run gives the same files.
//
// # Problems
//
// A problem is put together from three pieces: what is read (input), what is computed (op) and how
// the result is given back (output). Every op goes with every output. An op in a certain output is a family; its
// instances differ in numbers, letters, names and wording. Expected results are computed here in Go, not by running
// the Python that solves the problem: the tests hold the two against each other.
//
// The held-out set, which results are reported on, has new instances of families that are trained on,
// and whole families that never are: each joins an op and an output that occur in training only apart. As many of
// each op and of each output are held back, or one more.
// A validation set of the same kind, with families of its own, is there to choose settings by; `-validation
// FILE` writes it.
//
// # The corpus
//
// The model is taught on answers to instances of the training families, by authors who make mistakes
// (answer.go, slip.go). They talk and write no program, answer another problem, take what is asked for
// something that is worded alike, forget the fence, or slip: another operator, a number one off, a missing
// bracket, print for return. Mistakes are drawn for each completion by itself, by the same rules for every
// problem, so none is a habit of an input, an op or an output that could be unlearned at once. An author whose
// answer is not right is told so now and then, as env=heal words it, and answers again, rightly or not.
//
// No problem of a family that is held back is ever posed, neither here nor in a run. But an author may take a problem
// for one of such a family, and then the program is wrong where it stands. Authors who never did so would teach the
// model to avoid just the programs of those families.
//
// No statement of a held-out problem is in the corpus, and no completion has a program in it, word for word
// and whatever its white space, that solves one: such completions are drawn again. A test counts them over
// all that the model and its tokenizer see. Nor does a program that solves a held-out problem solve one to
// train on.
//
// # The model
//
// The training is supervised, on all weights: cross entropy over the tokens of the answers, AdamW, in two lessons
// (train.go). In the first the right reading is the usual one, and the rate is constant. The authors of the second mostly
// guess, and its rate falls to nothing. So the model writes programs that are well made, and has the right one among its
// likely ones more often than as its likeliest. It takes a few minutes on two cores.
//
// # The report
//
// `-report FILE…` prints pass@k over held-out problems, those of families that are trained on and those of
// families that never are apart, from completions that `grpo eval --out FILE` wrote. `make demo` makes them.
package main
