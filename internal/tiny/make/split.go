package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

// Sizes of the data sets.
const (
	instancesPerFamily  = 5   // of a trained family, in the training set
	instancesPerHeldOut = 3   // of a held-back family
	instancesHeldOut    = 120 // of trained families, one each, in the held-out set
	instancesValidation = 70  // the same, in the validation set
	heldOutFamilies     = 30
	validationFamilies  = 26

	testsTrain, testsHeldOut = 3, 6 // per problem; a test takes time in a run
)

// familySplit says which families are trained on, and which are held back.
type familySplit struct{ train, heldOut, validation []family }

// newFamilySplit holds back families for the two sets. It takes the ops in turn, and of each a family whose output is held back least, so
// that the held-back families are spread evenly over ops and outputs.
func newFamilySplit() (split familySplit) {
	rng := rand.New(rand.NewPCG(problemSeed, 0))
	grid, heldBack := familiesByOp(), map[string]int{} // by output: how many are held back
	rng.Shuffle(len(grid), func(i, j int) { grid[i], grid[j] = grid[j], grid[i] })
	for i := range heldOutFamilies + validationFamilies {
		families := grid[i%len(grid)]
		rng.Shuffle(len(families), func(i, j int) { families[i], families[j] = families[j], families[i] })
		slices.SortStableFunc(families, func(a, b family) int { return cmp.Compare(heldBack[a.output.name], heldBack[b.output.name]) })
		f := families[0]
		grid[i%len(grid)] = families[1:]
		heldBack[f.output.name]++
		if i < heldOutFamilies {
			split.heldOut = append(split.heldOut, f)
		} else {
			split.validation = append(split.validation, f)
		}
	}
	for _, families := range grid {
		split.train = append(split.train, families...)
	}
	return split
}

// sets are the problems for training, for results (heldOut), and for choosing settings (validation).
type sets struct {
	train, heldOut, validation []problem
	statements                 map[string]bool // of all sets
	solutions                  solutions       // of the last two sets
}

// problems draws the sets. All statements differ, and no solution of a held-out problem solves a training problem.
func (w familySplit) problems() *sets {
	s := &sets{statements: map[string]bool{}}
	s.heldOut = s.drawHeldOut(w.train, w.heldOut, instancesHeldOut, rand.New(rand.NewPCG(heldOutSeed, 0)))
	s.validation = s.drawHeldOut(w.train, w.validation, instancesValidation, rand.New(rand.NewPCG(validationSeed, 0)))
	rng := rand.New(rand.NewPCG(problemSeed, 1))
	for _, f := range w.train {
		for range instancesPerFamily {
			s.train = append(s.train, s.newInstance(f, rng)...)
		}
	}
	return s
}

// drawHeldOut draws a held-out set: problems of the families in never, and one each of `known` trained families.
func (s *sets) drawHeldOut(train, never []family, known int, rng *rand.Rand) (set []problem) {
	for _, f := range never {
		for range instancesPerHeldOut {
			set = append(set, s.newInstance(f, rng)...)
		}
	}
	for _, i := range rng.Perm(len(train))[:known] {
		set = append(set, s.newInstance(train[i], rng)...)
	}
	for _, p := range set {
		s.solutions = append(s.solutions, withoutSpace(p.program()))
	}
	// Evaluations on only the first problems should have a mix, too.
	rng.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
	return set
}

// newInstance draws an instance whose statement is new and whose program solves no held-out problem. It returns none if it finds none,
// because some families have few instances.
func (s *sets) newInstance(f family, rng *rand.Rand) []problem {
	for range 100 {
		p := f.instance(rng)
		if !s.statements[p.statement()] && !s.solutions.in(p.program()) {
			s.statements[p.statement()] = true
			return []problem{p}
		}
	}
	return nil
}

// records are problems with tests, as rows of a task file.
func records(set []problem, tests int, seed uint64) (lines []data.Record) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for i, p := range set {
		lines = append(lines, p.record(fmt.Sprintf("%s-%s-%03d", p.op.name, p.output.name, i+1), tests, rng))
	}
	return lines
}

// solutions are programs that solve held-out problems, without white space.
type solutions []string

// in reports whether a text contains one of them, whatever the white space.
func (s solutions) in(text string) bool {
	text = withoutSpace(text)
	return slices.ContainsFunc(s, func(program string) bool { return strings.Contains(text, program) })
}

func withoutSpace(text string) string { return strings.Join(strings.Fields(text), "") }
