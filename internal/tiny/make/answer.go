package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
)

// How the authors of the corpus answer: the same rules for every problem, drawn anew for every completion. What is not one
// of the first two is a program for the problem as its author understood it.
const (
	talks         = 0.10 // says something and writes no program
	answersOther  = 0.05 // answers a problem that has nothing to do with this one
	misreadsOp    = 0.35 // takes what is to be computed for something that is worded alike
	misreadsGive  = 0.30 // takes the way to give it back for another
	meanSlips     = 0.2  // slips of an author, on average; some take more care than others
	leavesNoFence = 0.06
	leavesItOpen  = 0.04
)

// wordedAlike is how many ops an op may be taken for.
const wordedAlike = 3

// answer is a completion as the corpus has it.
func (c *corpus) answer(p problem, rng *rand.Rand) string {
	switch r := rng.Float64(); {
	case r < talks:
		return p.talk(rng)
	case r < talks+answersOther:
		p = pick(rng, c.families).instance(rng)
	default:
		p = c.misread(p, rng)
	}
	code := p.program(p.right())
	for range poisson(rng, rng.ExpFloat64()*meanSlips) {
		code = slip(code, rng)
	}
	return fenced(code, rng)
}

// talk is an answer without a program.
func (p problem) talk(rng *rand.Rand) string {
	says := pick(rng, []string{
		"You can {task}.", "I would {task}, but I have not tried it.", "Sorry, I do not know how to {task}.",
		"First look at {v}. Then {task}.", "This is easy in Python: {task}.",
		"Is {k} part of the input? If so, {task}.", "Use a loop over {v} and {task}.",
	})
	return p.fill(strings.ReplaceAll(says, "{task}", p.result()))
}

// misread is the problem as its author understood it: mostly as it is. It is never taken for one of a family that is
// not trained on.
func (c *corpus) misread(p problem, rng *rand.Rand) problem {
	understood := p
	if alike := c.alike[p.family.String()]; len(alike) > 0 && rng.Float64() < misreadsOp {
		understood.op = pick(rng, alike)
		if understood.small != p.small {
			understood.k = draw(rng, understood.op).k
		}
	}
	if rng.Float64() < misreadsGive {
		var others []output
		for _, o := range outputs {
			if o.name != p.output.name && o.call == p.call && slices.Contains(o.of, understood.out) {
				others = append(others, o)
			}
		}
		if len(others) > 0 {
			understood.output = pick(rng, others)
		}
	}
	if !c.has[understood.family.String()] {
		return p
	}
	return understood
}

// wordedLike are the ops that may be taken for the op of a family: of those that fit into the same program, the ones
// that share most words with it.
func wordedLike(f family) (alike []op) {
	for _, o := range ops {
		if o.name != f.op.name && o.in == f.in && slices.Contains(f.output.of, o.out) {
			alike = append(alike, o)
		}
	}
	slices.SortStableFunc(alike, func(a, b op) int { return cmp.Compare(likeness(b, f.op), likeness(a, f.op)) })
	return alike[:min(wordedAlike, len(alike))]
}

// likeness is the share of the words of two ops that both have.
func likeness(a, b op) float64 {
	x, y := wordsOf(a), wordsOf(b)
	both := 0
	for w := range x {
		if y[w] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

func wordsOf(o op) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(strings.Join(o.says, " ")) {
		set[strings.Trim(w, ",")] = true
	}
	return set
}

// fenced is a completion with the program in it: mostly in the code block that was asked for, else without a fence or
// in a block that is never closed.
func fenced(code string, rng *rand.Rand) string {
	switch r := rng.Float64(); {
	case r < leavesNoFence:
		return code
	case r < leavesNoFence+leavesItOpen:
		return "```python\n" + code
	}
	return "```python\n" + code + "```"
}

// poisson draws how often something happens that happens so often on average.
func poisson(rng *rand.Rand, mean float64) (n int) {
	for left := rng.ExpFloat64(); left < mean; left += rng.ExpFloat64() {
		n++
	}
	return n
}

// solution is the completion that earns the reward.
func (p problem) solution() string { return "```python\n" + p.program(p.right()) + "```" }
