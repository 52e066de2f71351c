package sampler

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// randomRequests are up to 30 requests, numbered from first on.
func randomRequests(rng *rand.Rand, vocab, first int) []Request {
	batch := make([]Request, 1+rng.IntN(30))
	for i := range batch {
		prompt := make([]int32, 1+rng.IntN(60))
		for k := range prompt {
			prompt[k] = int32(rng.IntN(vocab))
		}
		batch[i] = Request{Prompt: prompt, N: 1 + rng.IntN(4), Key: Key{Problem: first + i},
			Params: Params{Temperature: rng.Float32() * 2, TopK: rng.IntN(3) * 10, MaxTokens: 1 + rng.IntN(36),
				StopTokens: []int32{int32(rng.IntN(vocab)), int32(rng.IntN(vocab))}}}
	}
	return batch
}

// often is the usual number of repetitions, scaled by GRPO_SOAK relative to the default number of requests of TestSoak.
func often(t *testing.T, usual int) int {
	s := os.Getenv("GRPO_SOAK")
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return max(1, usual*n/soakRequests)
}

const soakRequests = 1000

// Many requests with random lengths, stops and cancellations leave every block free, and memory steady. GRPO_SOAK sets their number.
func TestSoak(t *testing.T) {
	n := often(t, soakRequests)
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	p := open(t, b, "qwen3-tied", "adapter")
	e := engine(t, p, Options{MaxLength: 96, MaxSequences: 12, TokenBudget: 64, CacheBytes: int64(p.BlockBytes()) * 20})
	rng := rand.New(rand.NewPCG(3, 4))
	finished, cancelled := 0, 0
	var early, late runtime.MemStats
	for done := 0; done < n; {
		batch := randomRequests(rng, p.Vocab, done)
		ctx, cancel := context.WithCancel(t.Context())
		left := -1
		if rng.IntN(4) == 0 {
			left = rng.IntN(200)
		}
		_, err := e.Sample(ctx, batch, Events{
			Token: func(int, int, int32) {
				if left--; left == 0 {
					cancel()
				}
			},
			Done: func(Rollout) { finished++ },
		})
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			cancelled++
		}
		require.Equal(t, e.Blocks, e.FreeBlocks())
		done += len(batch)
		if early.Mallocs == 0 && done > n/4 {
			runtime.GC()
			runtime.ReadMemStats(&early)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&late)
	t.Logf("%d completions, %d cancelled calls, %d preemptions; heap %d kB, at a quarter %d kB",
		finished, cancelled, e.Preempted, late.HeapAlloc>>10, early.HeapAlloc>>10)
	require.Positive(t, cancelled)
	require.Positive(t, e.Preempted)
	require.Less(t, float64(late.HeapAlloc), 1.2*float64(early.HeapAlloc)+1<<20)
}
