package main

import (
	"cmp"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// How the authors of the corpus answer. The rules are the same for every problem, and drawn for each completion. An answer
// that is not one of the first two kinds is a program for the problem as its author understood it.
const (
	talks         = 0.08 // text without a program
	answersOther  = 0.04 // answers an unrelated problem
	meanSlips     = 0.15 // mean number of slips; it varies by author
	leavesNoFence = 0.05
	leavesItOpen  = 0.03
	triesAgain    = 0.25 // if wrong: is told so, and answers again
	sees          = 0.50 // then knows which parts were wrong, and rereads only those; others reread everything
	isShownATest  = 0.80 // of those who wrote a program
)

// guessing is how often authors guess the op, or the output: the right one or one with similar wording.
type guessing struct{ op, give float64 }

// The model is trained on the former first, and on the latter last.
var fair, poor = guessing{0.45, 0.40}, guessing{0.95, 0.92}

// wordedAlike is how many similar ops, or outputs, a guess is drawn from besides the right one.
const wordedAlike = 2

// said is an answer, and what its author understood.
type said struct {
	text       string
	understood problem
	code       string // "" where there is no program
}

// answer draws a completion for the corpus.
func (c *corpus) answer(p problem, g guessing, rng *rand.Rand) said {
	switch r := rng.Float64(); {
	case r < talks:
		return said{text: p.talk(rng), understood: p}
	case r < talks+answersOther:
		return written(pick(rng, c.families).instance(rng), rng)
	}
	return written(c.guess(p, nil, g, rng), rng)
}

// written is a program for a problem, with slips.
func written(p problem, rng *rand.Rand) said {
	code := p.program()
	for range poisson(rng, rng.ExpFloat64()*meanSlips) {
		code = slip(code, rng)
	}
	return said{fenced(code, rng), p, code}
}

// again is the second answer of an author whose first was wrong. It is never the same program.
func (c *corpus) again(p problem, first said, g guessing, rng *rand.Rand) said {
	for {
		var but *problem
		if first.code != "" && rng.Float64() < sees {
			but = &first.understood
		}
		if a := written(c.guess(p, but, g, rng), rng); a.code != first.code {
			return a
		}
	}
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

// guess is the problem as its author understood it; it never needs something that the statement lacks. It may be of a held-back family,
// and then the program is wrong. After a wrong answer, the author keeps the parts that were right, and does not repeat the wrong guess
// for the rest.
func (c *corpus) guess(p problem, wrong *problem, g guessing, rng *rand.Rand) problem {
	op, give := true, true
	if wrong != nil {
		op, give = wrong.op.name != p.op.name, wrong.output.name != p.output.name
	}
	for range 20 {
		u := p
		if op && rng.Float64() < g.op {
			u.op = pick(rng, append(c.opsAlike[p.op.name], p.op))
		}
		if give && rng.Float64() < g.give {
			u.output = pick(rng, append(c.outputsAlike[p.output.name], p.output))
		}
		before := wrong != nil && (op && u.op.name == wrong.op.name || give && u.output.name == wrong.output.name)
		if !before {
			return u
		}
	}
	return p
}

// opsLike are the ops that an op may be mistaken for: of those with the same input that need nothing it lacks, the most
// similarly worded.
func opsLike(o op) []op {
	return mostLike(o, ops, func(x op) []string { return x.says }, func(x op) bool {
		return x.name != o.name && x.in == o.in && within(x.code, o.code)
	})
}

// outputsLike are the outputs that an output may be mistaken for.
func outputsLike(o output) []output {
	return mostLike(o, outputs, func(x output) []string { return []string{x.says} }, func(x output) bool {
		return x.name != o.name && x.call == o.call && within(x.code, o.code)
	})
}

func mostLike[T any](it T, all []T, says func(T) []string, may func(T) bool) []T {
	alike := keep(all, may)
	slices.SortStableFunc(alike, func(a, b T) int { return cmp.Compare(likeness(says(b), says(it)), likeness(says(a), says(it))) })
	return slices.Clip(alike[:min(wordedAlike, len(alike))])
}

var slots = regexp.MustCompile(`\{[a-z]+\}`)

// within reports whether all placeholders of a pattern also occur in the other, or are the input's, which every statement has.
func within(pattern, other string) bool {
	for _, s := range slots.FindAllString(pattern, -1) {
		if s != "{v}" && !strings.Contains(other, s) {
			return false
		}
	}
	return true
}

// likeness is the share of common words.
func likeness(a, b []string) float64 {
	x, y := wordsOf(a), wordsOf(b)
	both := 0
	for w := range x {
		if y[w] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

func wordsOf(says []string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(strings.Join(says, " ")) {
		set[strings.Trim(w, ",")] = true
	}
	return set
}

// fenced is a completion with a program: mostly in a code block as requested, else without a fence or in an unclosed
// block.
func fenced(code string, rng *rand.Rand) string {
	switch r := rng.Float64(); {
	case r < leavesNoFence:
		return code
	case r < leavesNoFence+leavesItOpen:
		return "```python\n" + code
	}
	return "```python\n" + code + "```"
}

// poisson draws from a Poisson distribution.
func poisson(rng *rand.Rand, mean float64) (n int) {
	for left := rng.ExpFloat64(); left < mean; left += rng.ExpFloat64() {
		n++
	}
	return n
}

// solution is a right completion.
func (p problem) solution() string { return "```python\n" + p.program() + "```" }
