package main

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// The chances by which the answers of the corpus are right. Each piece of an answer (reading the input,
// computing, giving the result back) is right often or seldom. Which of the two depends for reading on the
// type of the input alone and for giving back on the output alone, so that a model which unlearns a habit
// unlearns it for every op. For computing it is drawn once per op.
const (
	often, seldom  = 0.82, 0.36
	oftenOf        = 0.65 // the share of ops that are often computed rightly
	formatOften    = 0.85
	syntaxBroken   = 0.04
	favouriteWrong = 0.85 // of the wrong pieces, the share that takes the first wrong way
)

// habits are the inputs and outputs that mostly go wrong.
var habits = map[string]bool{string(integer): true, string(numbers): true, "return": true, "label": true, "spaces": true, "word": true}

func (p problem) readChance() float64 { return chance(!habits[string(p.in)]) }
func (p problem) giveChance() float64 { return chance(!habits[p.output.name]) }

func (p problem) codeChance() float64 {
	h := fnv.New64a()
	h.Write([]byte(p.op.name))
	return chance(rand.New(rand.NewPCG(chanceSeed, h.Sum64())).Float64() < oftenOf)
}

func chance(mostly bool) float64 {
	if mostly {
		return often
	}
	return seldom
}

// answer is a completion as the corpus has it: right or wrong by chance, piece by piece.
func (p problem) answer(rng *rand.Rand) string {
	use := p.right()
	choose := func(chance float64, right string, wrong []string) string {
		if rng.Float64() < chance {
			return right
		}
		if rng.Float64() < favouriteWrong {
			return wrong[0]
		}
		return pick(rng, wrong[1:])
	}
	if !p.call {
		use.read = choose(p.readChance(), use.read, padded(inputs[p.in].wrong))
	}
	use.code = choose(p.codeChance(), use.code, padded(p.op.wrong))
	use.give = choose(p.giveChance(), use.give, padded(p.output.wrong))
	code := p.program(use)
	if rng.Float64() < syntaxBroken {
		code = broken(code)
	}
	return fenced(code, rng)
}

// padded lists a single wrong way twice: there is always a first and another.
func padded(wrong []string) []string {
	if len(wrong) == 1 {
		return []string{wrong[0], wrong[0]}
	}
	return wrong
}

// broken leaves out a colon or a parenthesis, so that the program is not Python any more.
func broken(code string) string {
	if at := strings.Index(code, ":\n"); at >= 0 {
		return code[:at] + code[at+1:]
	}
	at := strings.LastIndex(code, ")")
	return code[:at] + code[at+1:]
}

// fenced is a completion with the program in it: mostly in the code block that was asked for, else without
// a fence or in a block that is never closed.
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
