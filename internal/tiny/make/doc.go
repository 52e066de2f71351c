// Command make makes the files that package tiny embeds: several hundred small programming problems, a
// tokenizer, and a language model of 1.7 million parameters that can solve some of them. `make tiny-model`
// runs it. Everything follows from the seeds in main.go, so a second run gives the same files.
//
// # Problems
//
// A problem consists of three pieces: what the program reads (input), what it computes (op) and how it returns the
// result (output). An op with an output is a family, and every combination is one. The instances of a family differ in
// numbers, letters, names and wording. Expected results are computed here in Go, not by running the Python program that
// solves the problem; a test compares the two.
//
// The held-out set, for which results are reported, has new instances of trained families, and instances of families
// that are never trained: training has their op and their output, but not together. These families are spread evenly:
// their numbers for any two ops, and for any two outputs, differ by one at most.
// A validation set of the same kind, with held-back families of its own, serves to choose settings; `-validation
// FILE` writes it.
//
// # The corpus
//
// The model is trained on answers to instances of the trained families, by simulated authors who make mistakes
// (answer.go, slip.go): they write text without a program, solve another problem, confuse an op or output with one of
// similar wording, omit the fence, or make a slip, such as another operator, a number that is one off, a missing
// bracket, print for return. Mistakes are drawn independently for each completion, with the same probabilities for every
// problem. So no mistake is tied to an input, op or output, where a run could unlearn it all at once. Some authors whose
// answer is wrong get feedback, in the words of env=heal, and answer again, rightly or not.
//
// No problem of a held-back family is ever posed, neither here nor in a run. But an author may mistake a problem
// for one of such a family, and then the program is wrong for the problem. If authors never did so, the model would learn
// to avoid the programs of just those families.
//
// The corpus has no statement of a held-out problem, and no completion that contains, whatever the white space, the
// program that solves one: such completions are drawn again. A test checks this for everything that the model and its
// tokenizer see. Nor does the program that solves a held-out problem solve a training problem.
//
// # The model
//
// The training is supervised, of all weights: cross entropy over the tokens of the answers, AdamW, in two lessons
// (train.go). In the first, authors usually understand the problem, and the learning rate is constant. In the second they
// mostly guess, and the rate falls to 0. So the model learns to write well-formed programs, among which the right one is
// often likely, but less often the likeliest: GRPO has something to improve. It takes a few minutes on two cores.
//
// # The report
//
// `-report FILE…` prints pass@k on the held-out problems, and separately on those of trained families and on the
// others, from completions that `grpo eval --out FILE` wrote. `make demo` makes them.
package main
