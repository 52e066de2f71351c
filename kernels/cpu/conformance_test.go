package cpu

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/deferred"
)

var _ kernels.Backend = (*backend)(nil)

// Operands are large and short-lived: letting the heap grow is cheaper than a garbage collection for each of them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// inTiles are the tolerances in the order of tiles: attention over keys and values in bf16 rounds what they are multiplied with, and
// the head both factors of a gradient.
var inTiles = func() kerneltest.Tolerance {
	o := kerneltest.Chains
	o.Attention, o.HeadGradW = 1e-2, 0x1p-6
	return o
}()

// The suite demands the same bits for every number of threads. Here each number has another variant, so
// it demands them across vector widths too; the portable variant of an x86, which has no fused
// multiply-add, stands for itself, and usually with one number of threads and with two.
func TestConformance(t *testing.T) {
	all := Variants()
	sets := [][]string{all}
	if runtime.GOARCH == "amd64" && len(all) > 1 {
		sets = [][]string{all[:len(all)-1], all[len(all)-1:]}
	}
	for i, same := range sets {
		open := func(order kernels.Order) func(threads int) kernels.Backend {
			return func(threads int) kernels.Backend {
				b, err := New(Options{Threads: threads, Variant: same[(threads-1)%len(same)], Order: order})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
		}
		if i > 0 && !testvariants.Exhaustive {
			threads := 0
			t.Run(same[0], func(t *testing.T) {
				kerneltest.RunDevice(t, kerneltest.Chains, 4, func() kernels.Backend { threads++; return open(kernels.Serial)(threads) })
			})
			continue
		}
		t.Run(same[0], func(t *testing.T) { kerneltest.Run(t, open(kernels.Serial)) })
		if i > 0 {
			continue // it computes the same tiles as the others: TestTheSameTiles
		}
		t.Run(same[0]+" in tiles", func(t *testing.T) { kerneltest.RunProducts(t, inTiles, open(kernels.Tiles)) })
	}
}

// One number of threads is enough here: the others are above.
func TestConformanceDeferred(t *testing.T) {
	if !testvariants.Exhaustive {
		t.Skip("the backend below the queue has passed: GRPO_FORMS=all")
	}
	kerneltest.RunDevice(t, kerneltest.Chains, 1, func() kernels.Backend {
		b, err := New(Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		return deferred.New(b)
	})
}
