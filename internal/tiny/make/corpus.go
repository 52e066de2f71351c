package main

import (
	"iter"
	"math/rand/v2"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

// corpus is an endless sequence of problems with answers. None of its problems is in a data set, and no answer contains a
// program that solves a held-out problem.
type corpus struct {
	families     []family
	opsAlike     map[string][]op
	outputsAlike map[string][]output
	statements   map[string]bool
	solutions    solutions
}

func newCorpus(w familySplit, s *sets) *corpus {
	c := &corpus{
		families: w.train, opsAlike: map[string][]op{}, outputsAlike: map[string][]output{}, statements: s.statements, solutions: s.solutions,
	}
	for _, o := range ops {
		c.opsAlike[o.name] = opsLike(o)
	}
	for _, o := range outputs {
		c.outputsAlike[o.name] = outputsLike(o)
	}
	return c
}

// dialogue is one author's work on a problem: an answer, and perhaps a second one if the first was wrong.
type dialogue struct {
	first  completion
	shown  *data.Test // the test that the feedback shows as failed; nil if none
	second string     // "" if there is none
}

// example is example i of the corpus: a problem with several authors' answers.
func (c *corpus) example(i int) (problem, []dialogue) {
	rng := rand.New(rand.NewPCG(corpusSeed, uint64(i)))
	g := mostlyRight
	if i >= firstLessonSteps*batch {
		g = mostlyGuessed
	}
	for {
		p := pick(rng, c.families).instance(rng)
		if c.statements[p.statement()] || c.solutions.in(p.program()) {
			continue
		}
		var dialogues []dialogue
		for len(dialogues) < authors {
			if d := c.dialogue(p, g, rng); !c.solutions.in(d.first.text) && !c.solutions.in(d.second) {
				dialogues = append(dialogues, d)
			}
		}
		return p, dialogues
	}
}

func (c *corpus) dialogue(p problem, g guessRates, rng *rand.Rand) dialogue {
	d := dialogue{first: c.answer(p, g, rng)}
	if strings.Contains(d.first.text, p.solution()) || rng.Float64() >= secondAnswer {
		return d
	}
	if d.first.code != "" && rng.Float64() < shownTest {
		d.shown = &p.tests(1, rng)[0]
	}
	d.second = c.secondAnswerTo(p, d.first, g, rng).text
	return d
}

// examples are all examples for the tokenizer, which have negative numbers, and then those for the given number of training steps.
func (c *corpus) examples(steps int) iter.Seq2[problem, []dialogue] {
	return func(yield func(problem, []dialogue) bool) {
		for i := -tokenizerTexts; i < steps*batch; i++ {
			if !yield(c.example(i)) {
				return
			}
		}
	}
}
