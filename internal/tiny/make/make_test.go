package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
)
func TestChances(t *testing.T) {
	rng := rand.New(rand.NewPCG(problemSeed, 0))
	train, held := split(rng)
	for _, fs := range [][]family{train, held} {
		greedy, sampled := 0.0, 0.0
		for _, f := range fs {
			p, ok := formatOften*(1-syntaxBroken), true
			for _, piece := range []string{"read", "code", "give"} {
				if piece == "read" && f.call {
					continue
				}
				c := chance(f.op.name, piece)
				p *= c
				ok = ok && c > 0.5
			}
			sampled += p
			if ok {
				greedy++
			}
		}
		fmt.Println(greedy/float64(len(fs)), sampled/float64(len(fs)))
	}
}
