//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// TestStableVerdicts: a program that needs four fifths of its time limit is OK however many run at once, even
// many more than there are processors. Its wall limit equals its CPU limit, so time spent waiting for a
// processor must not count.
func TestStableVerdicts(t *testing.T) {
	const code = `
import time
limit = float(input())
while time.process_time() < 0.8 * limit:
    sum(range(1000))
print("done")
`
	limit := 100 * time.Millisecond
	if full > 0 {
		limit *= 2
	}
	n := size(8, 20)
	for _, slots := range testvariants.EveryNth(2, 1, runtime.NumCPU(), 4*runtime.NumCPU()) {
		t.Run(fmt.Sprintf("slots=%d", slots), func(t *testing.T) {
			p := openPool(t, 0, slots)
			var good atomic.Int64
			errs := make(chan error)
			for g := range slots {
				inputs := make([]Input, (n+slots-1)/slots)
				for i := range inputs {
					inputs[i].Stdin = fmt.Append(nil, limit.Seconds())
				}
				go func() {
					errs <- p.Run(t.Context(), strconv.Itoa(g), Program{Code: code}, inputs, Limits{CPU: limit, Wall: limit},
						func(_ int, r Result) bool {
							if r.Status != OK || string(r.Stdout) != "done\n" {
								t.Errorf("ended with %v after %v of processor time and %v: %s", r.Status, r.CPU, r.Wall, r.Stderr)
							} else {
								good.Add(1)
							}
							return true
						})
				}()
			}
			for range slots {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			t.Logf("%d runs agree", good.Load())
		})
	}
}
