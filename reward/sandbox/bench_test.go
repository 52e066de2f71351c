package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"
)

func BenchmarkTrivial(b *testing.B) {
	p, err := Open(context.Background(), Options{})
	if err != nil {
		b.Skip(err)
	}
	defer p.Close()
	slots := p.Isolation().Slots
	b.ResetTimer()
	var wg sync.WaitGroup
	for s := range slots {
		wg.Go(func() {
			n := b.N / slots
			inputs := make([]Input, n)
			for i := range inputs {
				inputs[i].Stdin = []byte("1 2\n")
			}
			err := p.Run(context.Background(), fmt.Sprint(s), Program{Code: "print(sum(map(int, input().split())))"}, inputs, Limits{}, func(i int, r Result) bool {
				if string(r.Stdout) != "3\n" {
					b.Errorf("%+v", r)
				}
				return true
			})
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	_ = runtime.NumCPU
	_ = exec.Command
	_ = time.Now
}
