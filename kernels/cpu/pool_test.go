package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Many small operations one after the other, with and without pauses in which the workers fall asleep, on
// more workers than there are processors: every task is done exactly once.
func TestEveryTaskIsDoneOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, threads := range []int{1, 2, 3, 8} {
		b := open(t, Options{Threads: threads})
		const most = 40 * 256
		sums, ones := upload(t, b, make([]float32, most)), make([]float32, most)
		for i := range ones {
			ones[i] = 1
		}
		dy := upload(t, b, ones)
		want := make([]float32, most)
		for range 3000 {
			n := 1 + r.IntN(most)
			b.BiasGrad(sums, kernels.Whole(dy, n), 1)
			for i := range n {
				want[i]++
			}
			if r.IntN(50) == 0 {
				time.Sleep(3 * spinTime)
			}
		}
		same(t, fmt.Sprint(threads, " threads"), download(t, b, sums), want)
	}
}

func TestBadOptions(t *testing.T) {
	for _, o := range []Options{{Threads: -1}, {Threads: math.MaxInt}, {Variant: "avx1024"}} {
		if b, err := New(o); err == nil {
			b.Close()
			t.Errorf("%+v was accepted", o)
		}
	}
	t.Setenv("GRPO_CPU", "portable")
	if b := open(t, Options{Threads: 1}); b.Name() != "cpu: portable, 1 thread" {
		t.Errorf("found %q", b.Name())
	}
	if b := open(t, Options{Threads: 3}); b.Name() != "cpu: portable, 3 threads" {
		t.Errorf("with GRPO_CPU=portable: %s", b.Name())
	}
}

// An operation of another goroutine is refused while one runs: it would write the arguments that the kernel reads.
func TestOneGoroutineAtATime(t *testing.T) {
	b, err := newBackend(Options{Threads: 1})
	require.NoError(t, err)
	defer b.Close()
	k := kernels.Checked(b)
	x := upload(t, k, make([]float32, 4))
	b.busy.Store(true)
	require.PanicsWithValue(t, together, func() { k.Scale(x, x, 2, 4) })
	require.PanicsWithValue(t, together, func() { b.run(nil, 1, 1) })
	b.busy.Store(false)
	k.Scale(x, x, 2, 4)
}
