package main

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// How often a piece of an answer is right: where it mostly is, and where it mostly is not. Which of the
// two holds is settled for each op and each kind of piece, once for all.
const (
	often, seldom  = 0.80, 0.36
	oftenOf        = 0.62 // the share of pairs of op and piece with the first
	formatOften    = 0.85
	syntaxBroken   = 0.04
	favouriteWrong = 0.75 // of what goes wrong, the share of the first way
)

// chance is how often that piece of an answer to an op is right.
func chance(op, piece string) float64 {
	h := fnv.New64a()
	h.Write([]byte(op + "\x00" + piece))
	if rand.New(rand.NewPCG(chanceSeed, h.Sum64())).Float64() < oftenOf {
		return often
	}
	return seldom
}

// answer is a completion as the corpus has it: right or wrong by chance, piece by piece.
func (p problem) answer(rng *rand.Rand) string {
	use := p.right()
	choose := func(piece string, right string, wrong []string) string {
		if rng.Float64() < chance(p.op.name, piece) {
			return right
		}
		if rng.Float64() < favouriteWrong {
			return wrong[0]
		}
		return pick(rng, wrong[1:])
	}
	if !p.call {
		use.read = choose("read", use.read, padded(inputs[p.in].wrong))
	}
	use.code = choose("code", use.code, padded(p.op.wrong))
	use.give = choose("give", use.give, padded(p.output.wrong))
	code := p.program(use)
	if rng.Float64() < syntaxBroken {
		code = broken(code)
	}
	return fenced(code, rng)
}

// padded makes the only wrong way the other one as well.
func padded(wrong []string) []string {
	if len(wrong) == 1 {
		return []string{wrong[0], wrong[0]}
	}
	return wrong
}

// broken leaves out what Python cannot do without.
func broken(code string) string {
	if at := strings.Index(code, ":\n"); at >= 0 {
		return code[:at] + code[at+1:]
	}
	at := strings.LastIndex(code, ")")
	return code[:at] + code[at+1:]
}

// fenced is a completion with the program in it, mostly in the block that was asked for.
func fenced(code string, rng *rand.Rand) string {
	r := rng.Float64()
	switch {
	case r < formatOften:
		return "```python\n" + code + "```"
	case r < (1+formatOften)/2:
		return code
	}
	return "```python\n" + code
}

// solution is the completion that earns the reward.
func (p problem) solution() string { return "```python\n" + p.program(p.right()) + "```" }
