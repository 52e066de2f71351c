package sandbox

import (
	"context"
	"os/exec"
	"strconv"
	"sync"
	"testing"
)

// runMany runs several programs concurrently, each on several tests, and checks every result.
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

// BenchmarkRuns runs the programs of a training step: 128 programs with 20 trivial tests each. For comparison
// it measures the start of an interpreter, which other graders pay for every test.
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

// BenchmarkOpen opens a pool and closes it. Only the first one of a process is attacked.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		openPool(b, 0, 1).Close()
	}
}
