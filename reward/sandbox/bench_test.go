package sandbox

import (
	"context"
	"os/exec"
	"strconv"
	"sync"
	"testing"
)

// runMany runs programs of tests each, all submitted at once, and expects every one to be right.
func runMany(b *testing.B, p *Pool, programs, tests int) {
	inputs := make([]Input, tests)
	for i := range inputs {
		inputs[i].Stdin = []byte("1 2\n")
	}
	var wg sync.WaitGroup
	for n := range programs {
		wg.Go(func() {
			prog := Program{Code: "print(sum(map(int, input().split())))  # " + strconv.Itoa(n)}
			err := p.Run(context.Background(), strconv.Itoa(n%8), prog, inputs, Limits{}, func(_ int, r Result) bool {
				if r.Status != OK || string(r.Stdout) != "3\n" {
					b.Errorf("%v, printed %q: %s", r.Status, r.Stdout, r.Stderr)
				}
				return true
			})
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// BenchmarkRuns is a step of training: 128 programs of 20 trivial tests each. Beside it is what other
// graders pay for every single one: the start of an interpreter.
func BenchmarkRuns(b *testing.B) {
	for _, rung := range []Rung{RungFull, RungNamespaces, RungUID, RungLandlock, RungUnsafe} {
		b.Run(rung.String(), func(b *testing.B) {
			p := openPool(b, rung, 0)
			programs := 128
			if rung == RungUnsafe {
				programs = 4
			}
			runMany(b, p, p.Isolation().Slots, 2) // warm
			for b.Loop() {
				runMany(b, p, programs, 20)
			}
			b.ReportMetric(float64(programs*20*b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
	b.Run("python3-c-pass", func(b *testing.B) {
		python := testPython(b)
		for b.Loop() {
			if err := exec.Command(python, "-c", "pass").Run(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	})
}

// BenchmarkOpen is a pool from nothing, with every attack on it.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		openPool(b, 0, 1).Close()
	}
}
