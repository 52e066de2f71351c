package main

import (
	"cmp"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// How the authors of the corpus answer: probabilities that are the same for every problem, drawn anew for each completion.
const (
	noProgram           = 0.08 // the answer is text without a program
	otherProblem        = 0.04 // it solves an unrelated problem; any other answer is a program for the problem as the author understood it
	meanSlipsPerProgram = 0.15 // mean over programs; each program has an expected number of its own
	noFence             = 0.05
	openFence           = 0.03
	secondAnswer        = 0.25 // after a wrong answer, the author gets feedback and answers again
	knowsMistake        = 0.50 // then the author guesses again only what was wrong (op or output), otherwise both
	shownTest           = 0.80 // the feedback shows a test as failed, if the answer was a program
)

// guessRates are the probabilities with which an author guesses the op, and the output, instead of reading it: a guess is the right one or
// one with similar wording.
type guessRates struct{ op, output float64 }

// The rates of the first and of the second lesson.
var mostlyRight, mostlyGuessed = guessRates{0.45, 0.40}, guessRates{0.95, 0.92}

// alikeChoices is the number of similar ops, or outputs, from which a guess is drawn, besides the right one.
const alikeChoices = 2

// completion is an answer, with the problem as its author understood it.
type completion struct {
	text    string
	reading problem
	code    string // "" where there is no program
}

// answer draws a completion for the corpus.
func (c *corpus) answer(p problem, g guessRates, rng *rand.Rand) completion {
	switch r := rng.Float64(); {
	case r < noProgram:
		return completion{text: p.talk(rng), reading: p}
	case r < noProgram+otherProblem:
		return writeProgram(pick(rng, c.families).instance(rng), rng)
	}
	return writeProgram(c.guess(p, nil, g, rng), rng)
}

// writeProgram answers with a program for a problem, with slips.
func writeProgram(p problem, rng *rand.Rand) completion {
	code := p.program()
	for range poisson(rng, rng.ExpFloat64()*meanSlipsPerProgram) {
		code = slip(code, rng)
	}
	return completion{fenced(code, rng), p, code}
}

// secondAnswerTo draws the second answer of an author whose first was wrong. It is never the same program.
func (c *corpus) secondAnswerTo(p problem, first completion, g guessRates, rng *rand.Rand) completion {
	for {
		var wrong *problem
		if first.code != "" && rng.Float64() < knowsMistake {
			wrong = &first.reading
		}
		if a := writeProgram(c.guess(p, wrong, g, rng), rng); a.code != first.code {
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

// guess draws how an author understands a problem. The op and output that the author takes it for need no number or label that the
// statement lacks. They may form a held-back family, and then the program is wrong for the problem. wrong is how the author understood it
// before, if that is to be corrected: what was right then is kept, and the rest is guessed again, differently.
func (c *corpus) guess(p problem, wrong *problem, g guessRates, rng *rand.Rand) problem {
	guessOp, guessOutput := true, true
	if wrong != nil {
		guessOp, guessOutput = wrong.op.name != p.op.name, wrong.output.name != p.output.name
	}
	for range 20 {
		u := p
		if guessOp && rng.Float64() < g.op {
			u.op = pick(rng, append(c.opsAlike[p.op.name], p.op))
		}
		if guessOutput && rng.Float64() < g.output {
			u.output = pick(rng, append(c.outputsAlike[p.output.name], p.output))
		}
		repeated := wrong != nil && (guessOp && u.op.name == wrong.op.name || guessOutput && u.output.name == wrong.output.name)
		if !repeated {
			return u
		}
	}
	return p
}

// opsLike are the ops that an op may be mistaken for: the most similarly worded of those that have the same input and need no
// placeholder that it lacks.
func opsLike(o op) []op {
	return mostAlike(o, ops, func(x op) []string { return x.says }, func(x op) bool {
		return x.name != o.name && x.in == o.in && placeholdersWithin(x.code, o.code)
	})
}

// outputsLike are the outputs that an output may be mistaken for, chosen in the same way.
func outputsLike(o output) []output {
	return mostAlike(o, outputs, func(x output) []string { return []string{x.says} }, func(x output) bool {
		return x.name != o.name && x.call == o.call && placeholdersWithin(x.code, o.code)
	})
}

func mostAlike[T any](it T, all []T, says func(T) []string, may func(T) bool) []T {
	alike := keep(all, may)
	slices.SortStableFunc(alike, func(a, b T) int { return cmp.Compare(likeness(says(b), says(it)), likeness(says(a), says(it))) })
	return slices.Clip(alike[:min(alikeChoices, len(alike))])
}

var placeholders = regexp.MustCompile(`\{[a-z]+\}`)

// placeholdersWithin reports whether all placeholders of a pattern also occur in the other, except for {v}, which every statement has.
func placeholdersWithin(pattern, other string) bool {
	for _, s := range placeholders.FindAllString(pattern, -1) {
		if s != "{v}" && !strings.Contains(other, s) {
			return false
		}
	}
	return true
}

// likeness is the Jaccard similarity of the sets of words: the number of common ones divided by the number of all.
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

// fenced puts a program into a code block, as the prompt requests; rarely it omits the fence, or does not close it.
func fenced(code string, rng *rand.Rand) string {
	switch r := rng.Float64(); {
	case r < noFence:
		return code
	case r < noFence+openFence:
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
