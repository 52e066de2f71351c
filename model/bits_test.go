package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// A sequence has the same bits alone and packed with others, in any order, in any batch size.
func TestScoresDoNotDependOnThePacking(t *testing.T) {
	inEveryPrecision(t, func(t *testing.T, b kernels.Backend, o Options) {
		rng := rand.New(rand.NewPCG(1, 2))
		o.MaxRows = 16
		p := openGolden(t, b, "qwen3-tied", "adapter", o)
		var seqs [][]int32
		for _, n := range []int{2, 3, 33, 17, 64, 40, 5, 31, 32, 70} {
			s := make([]int32, n)
			for i := range s {
				s[i] = int32(rng.IntN(p.Vocab))
			}
			seqs = append(seqs, s)
		}
		want := make([][]float32, len(seqs))
		for i, s := range seqs {
			alone, err := p.Score(t.Context(), [][]int32{s}, 0.7)
			require.NoError(t, err)
			want[i] = alone[0]
		}
		for _, rows := range []int{64, 100, 400} {
			o.MaxRows = rows
			p := openGolden(t, b, "qwen3-tied", "adapter", o)
			order := rng.Perm(len(seqs))
			shuffled := make([][]int32, len(seqs))
			for i, k := range order {
				shuffled[i] = seqs[k]
			}
			got, err := p.Score(t.Context(), shuffled, 0.7)
			require.NoError(t, err)
			for i, k := range order {
				require.Equal(t, want[k], got[i], "sequence %d in batches of %d", k, rows)
			}
		}
	})
}

// Gradients have the same bits whatever is recomputed, and in a second run.
func TestGradientsDoNotDependOnWhatIsKept(t *testing.T) {
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		var train goldenTrain
		readJSON(t, &train, "qwen3-tied", "train.json")
		var want []float32
		bytes := map[Recompute]int{}
		for _, recompute := range []Recompute{RecomputeCheap, RecomputeBlocks, RecomputeCheap, RecomputeNone} {
			p := openGolden(t, b, "qwen3-tied", "train_init", Options{Recompute: recompute})
			_, err := p.Accumulate(t.Context(), train.Datums, importanceSampling)
			require.NoError(t, err)
			grads, err := p.Gradients()
			require.NoError(t, err)
			if want == nil {
				want = grads.Values
			}
			require.Equal(t, want, grads.Values)
			bytes[recompute] = p.trainer.Bytes()
		}
		require.Less(t, bytes[RecomputeBlocks], bytes[RecomputeCheap])
		require.Less(t, bytes[RecomputeCheap], bytes[RecomputeNone])
	})
}

// Gradients do not depend on what the policy computed before, such as the memory that a long sequence left.
func TestGradientsDoNotDependOnTheHistory(t *testing.T) {
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		var train goldenTrain
		readJSON(t, &train, "qwen3-tied", "train.json")
		gradients := func(p *Policy) []float32 {
			_, slab, _ := p.Slabs()
			b.Zero(slab)
			stats, err := p.Accumulate(t.Context(), train.Datums, importanceSampling)
			require.NoError(t, err)
			grads, err := p.Gradients()
			require.NoError(t, err)
			return append(grads.Values, float32(stats.Loss), float32(stats.KL2))
		}
		p := openGolden(t, b, "qwen3-tied", "train_init", Options{MaxRows: 64})
		want := gradients(p)
		_, err := p.Score(t.Context(), [][]int32{make([]int32, 300)}, 1)
		require.NoError(t, err)
		require.Greater(t, p.rows, 64)
		require.Equal(t, want, gradients(p))
	})
}

// Blocks of memory that a schedule shares between values never overlap while both are in use.
func TestArenaBlocksInUseDoNotOverlap(t *testing.T) {
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		p := openGolden(t, b, "qwen3-tied", "adapter", Options{})
		require.NoError(t, p.grow(64))
		g, err := p.builder(&p.inputs).training()
		require.NoError(t, err)
		for _, recompute := range []Recompute{RecomputeNone, RecomputeCheap, RecomputeBlocks} {
			s, err := program.NewSchedule(g, recompute)
			require.NoError(t, err)
			l := s.Place(64)
			require.Positive(t, l.InPlace)
			blocks := slices.Concat(l.Blocks, l.Planes)
			for i, x := range blocks {
				for _, y := range blocks[:i] {
					if x == nil || y == nil || x == y || x.Last < y.First || y.Last < x.First {
						continue
					}
					require.True(t, x.Offset+x.Numbers <= y.Offset || y.Offset+y.Numbers <= x.Offset, "%+v and %+v", x, y)
				}
			}
			for _, copied := range l.Copies {
				require.False(t, copied, "no step of this architecture should have to copy")
			}
		}
	})
}

// Scores and gradients with 1, 2, 3 and 8 threads: the same bits.
func TestResultsDoNotDependOnTheThreads(t *testing.T) {
	for _, name := range goldenCases {
		t.Run(name, func(t *testing.T) { testThreads(t, name, Options{}) })
		if slices.Contains(families, name) {
			continue
		}
		for word, o := range roundings {
			t.Run(name+" "+word, func(t *testing.T) { testThreads(t, name, o) })
		}
	}
}

func testThreads(t *testing.T, name string, o Options) {
	var train goldenTrain
	readJSON(t, &train, name, "train.json")
	var wantScores [][]float32
	var wantGrads []float32
	for _, threads := range []int{1, 2, 3, 8} {
		b := backendtest.CPU(t, cpu.Options{Threads: threads})
		p := openGolden(t, b, name, "train_init", o)
		scores, err := p.Score(t.Context(), train.sequences(), 1.3)
		require.NoError(t, err)
		_, err = p.Accumulate(t.Context(), train.Datums, importanceSampling)
		require.NoError(t, err)
		grads, err := p.Gradients()
		require.NoError(t, err)
		if wantScores == nil {
			wantScores, wantGrads = scores, grads.Values
		}
		require.Equal(t, wantScores, scores, "%d threads", threads)
		require.Equal(t, wantGrads, grads.Values, "%d threads", threads)
		require.NoError(t, b.Close())
	}
}

// The trainer's log-probabilities, used for importance ratios, equal the scorer's.
func TestTrainerAndScorerAgreeToTheBit(t *testing.T) {
	inEveryPrecision(t, func(t *testing.T, b kernels.Backend, o Options) {
		var train goldenTrain
		readJSON(t, &train, "qwen3-tied", "train.json")
		p := openGolden(t, b, "qwen3-tied", "adapter", o)
		for i, d := range train.Datums {
			scores, err := p.Score(t.Context(), [][]int32{append(append([]int32(nil), d.Tokens...), d.Targets[len(d.Targets)-1])}, 0.7)
			require.NoError(t, err)
			train.Datums[i].OldLogProbs = scores[0]
		}
		objective := importanceSampling
		objective.Temperature = 0.7
		stats, err := p.Accumulate(t.Context(), train.Datums, objective)
		require.NoError(t, err)
		require.Zero(t, stats.MaxDiff)
		require.Equal(t, 1.0, stats.RatioMin)
		require.Equal(t, 1.0, stats.RatioMax)
		require.Equal(t, 1.0, stats.ESS)
	})
}
