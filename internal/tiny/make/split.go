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
	instancesPerFamily  = 5   // for training
	instancesPerHeldOut = 3   // of a held-back family
	instancesHeldOut    = 120 // new instances of trained families
	instancesValidation = 70  // the same, for the validation set
	heldOutFamilies     = 30
	validationFamilies  = 26

	testsTrain, testsHeldOut = 3, 6 // per problem; a test takes time in a run
)

// familySplit says which families are trained on, and which are held back.
type familySplit struct{ train, heldOut, validation []family }

// newFamilySplit holds back families for the two sets, with the same number of each op and each output, or one more.
func newFamilySplit() (w familySplit) {
	rng := rand.New(rand.NewPCG(problemSeed, 0))
	grid, back := byOp(), map[string]int{} // by output: how many are held back
	rng.Shuffle(len(grid), func(i, j int) { grid[i], grid[j] = grid[j], grid[i] })
	for i := range heldOutFamilies + validationFamilies {
		of := grid[i%len(grid)]
		rng.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		slices.SortStableFunc(of, func(a, b family) int { return cmp.Compare(back[a.output.name], back[b.output.name]) })
		f := of[0]
		grid[i%len(grid)] = of[1:]
		back[f.output.name]++
		if i < heldOutFamilies {
			w.heldOut = append(w.heldOut, f)
		} else {
			w.validation = append(w.validation, f)
		}
	}
	for _, of := range grid {
		w.train = append(w.train, of...)
	}
	return w
}

// sets are the problems for training, for results, and for choosing settings.
type sets struct {
	train, heldOut, validation []problem
	taken                      map[string]bool // statements, in any set
	solutions                  solutions       // of the last two sets
}

// problems draws the sets. All statements differ, and no solution of a held-out problem solves a training problem.
func (w familySplit) problems() *sets {
	s := &sets{taken: map[string]bool{}}
	s.heldOut = s.held(w.train, w.heldOut, instancesHeldOut, rand.New(rand.NewPCG(heldOutSeed, 0)))
	s.validation = s.held(w.train, w.validation, instancesValidation, rand.New(rand.NewPCG(validationSeed, 0)))
	rng := rand.New(rand.NewPCG(problemSeed, 1))
	for _, f := range w.train {
		for range instancesPerFamily {
			s.train = append(s.train, s.fresh(f, rng)...)
		}
	}
	return s
}

// held draws problems of held-back families, and new ones of trained families.
func (s *sets) held(train, never []family, known int, rng *rand.Rand) (set []problem) {
	for _, f := range never {
		for range instancesPerHeldOut {
			set = append(set, s.fresh(f, rng)...)
		}
	}
	for _, i := range rng.Perm(len(train))[:known] {
		set = append(set, s.fresh(train[i], rng)...)
	}
	for _, p := range set {
		s.solutions = append(s.solutions, withoutSpace(p.program()))
	}
	// The first problems should be a mix, for evaluations on only some.
	rng.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
	return set
}

// fresh draws a new instance of a family, or none, as some families have few.
func (s *sets) fresh(f family, rng *rand.Rand) []problem {
	for range 100 {
		p := f.instance(rng)
		if !s.taken[p.statement()] && !s.solutions.in(p.program()) {
			s.taken[p.statement()] = true
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

// in reports whether a text contains one of them, apart from white space.
func (s solutions) in(text string) bool {
	text = withoutSpace(text)
	return slices.ContainsFunc(s, func(program string) bool { return strings.Contains(text, program) })
}

func withoutSpace(text string) string { return strings.Join(strings.Fields(text), "") }
