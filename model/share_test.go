package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// sharedPrefixDatums are datums with many kinds of shared prefixes: the same few first tokens, groups with the same prompt,
// completions that diverge early or late, ends that others continue, and some duplicates. The trained tokens differ even where
// tokens do not; a few targets are not the next token.
func sharedPrefixDatums(random *rand.Rand, vocab int) (datums []Datum) {
	some := func(n int) []int32 {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(random.IntN(vocab))
		}
		return tokens
	}
	start := some(1 + random.IntN(9))
	for range 2 + random.IntN(2) {
		prompt := append(slices.Clone(start), some(random.IntN(50))...)
		group := len(datums)
		for range 5 {
			tokens := append(slices.Clone(prompt), some(2+random.IntN(40))...)
			if other := group + random.IntN(5); other < len(datums) { // continues another one from somewhere, or none
				whole := append(slices.Clone(datums[other].Tokens), datums[other].Targets[datums[other].Rows()-1])
				tokens = append(whole[:len(prompt)+random.IntN(len(whole)-len(prompt))+1], some(random.IntN(20))...)
			}
			n := len(tokens) - 1
			d := NewDatum(tokens, min(len(prompt), n), make([]float32, n), float32(random.NormFloat64()))
			d.Targets = slices.Clone(d.Targets)
			for i := range n {
				d.OldLogProbs[i] = -6 + float32(random.NormFloat64())/4
				if random.IntN(9) == 0 {
					d.Mask[i] = !d.Mask[i]
				}
				if random.IntN(30) == 0 {
					d.Targets[i] = some(1)[0]
				}
			}
			datums = append(datums, d)
		}
	}
	random.Shuffle(len(datums), func(i, k int) { datums[i], datums[k] = datums[k], datums[i] })
	return datums
}

// tokensOf are the tokens that the last row of a span reads, including its own.
func (b *Batch) tokensOf(t *testing.T, row int32) []int32 {
	span := 0
	for b.Starts[span+1] <= row {
		span++
	}
	var tokens []int32
	for end := row + 1; ; {
		tokens = append(slices.Clone(b.Tokens[b.Starts[span]:end]), tokens...)
		if len(b.Parents) == 0 || b.Parents[span] < 0 {
			break
		}
		require.Less(t, int(b.Parents[span]), span)
		span = int(b.Parents[span])
		end = b.Starts[span+1]
	}
	require.Equal(t, len(tokens)-1, int(b.Positions[row]))
	return tokens
}

// Each trained token of a datum is in the batches once, at a row that reads what the datum's does; no batch exceeds its limits; no batch
// has a row twice.
func TestATrieHasEverySequence(t *testing.T) {
	race.SkipSerial(t)
	all, alone := 0, 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		datums := sharedPrefixDatums(random, 2+random.IntN(30))
		maxRows := 20 + random.IntN(400)
		times := make([]int, len(datums))
		for _, b := range new(packer).pack(datums, maxRows, SequenceMean, true) {
			require.True(t, b.Rows()+len(b.Again) <= maxRows || len(b.Sequences) == 1 && len(b.Again) == 0)
			all += b.Rows()
			read := make([][]int32, len(b.Tokens)) // by row
			for row := range b.Tokens {
				read[row] = b.tokensOf(t, int32(row))
				if end := b.Starts[1:]; slices.Contains(end, int32(row+1)) {
					alike := slices.IndexFunc(read[:row], func(other []int32) bool { return slices.Equal(other, read[row]) })
					require.Equal(t, -1, alike, "row %d reads what row %d does", row, alike)
				}
			}
			taken := map[int32]bool{}
			for k, i := range b.Sequences {
				times[i]++
				d := &datums[i]
				for p, place := range b.Places[b.Offsets[k]:b.Offsets[k+1]] {
					if !d.Mask[p] {
						require.Equal(t, int32(-1), place)
						continue
					}
					require.False(t, taken[place])
					taken[place] = true
					require.Equal(t, []float32{d.OldLogProbs[p], d.Advantages[p], SequenceMean.Weight(d.Trainable(), len(datums), 0)},
						[]float32{b.OldLogProbs[place], b.Advantages[place], b.Weights[place]})
					row := place
					for int(row) >= b.Rows() { // a further target has a pair, whose row is found there
						if int(row) < len(b.Targets) {
							require.Equal(t, d.Targets[p], b.Targets[row])
						}
						row = b.Again[int(row)-b.Rows()]
					}
					if int(place) < b.Rows() {
						require.Equal(t, d.Targets[p], b.Targets[place])
					}
					require.Equal(t, d.Tokens[:p+1], read[row])
				}
			}
			for place, w := range b.Weights {
				require.Equal(t, taken[int32(place)], w != 0)
			}
		}
		require.Equal(t, slices.Repeat([]int{1}, len(datums)), times)
		for _, d := range datums {
			alone += d.Rows()
		}
	}
	require.Less(t, all, alone)
}

// Sequences without common prefixes are packed as without sharing.
func TestStrangersShareNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	var datums []Datum
	for i := range 40 {
		tokens := []int32{int32(i)}
		for range 1 + random.IntN(30) {
			tokens = append(tokens, int32(random.IntN(3)))
		}
		datums = append(datums, NewDatum(tokens, 1, make([]float32, len(tokens)-1), 1))
	}
	for _, rows := range []int{5, 40, 100, 10000} {
		got, want := new(packer).pack(datums, rows, TokenMean, true), Pack(datums, rows, TokenMean)
		require.Equal(t, want, got)
		for _, b := range got {
			require.Zero(t, b.Shared())
		}
	}
	alone := new(packer).pack(datums[:1], 5, Sum, true)[0]
	twice := new(packer).pack([]Datum{datums[0], datums[0]}, 1000, Sum, true)[0]
	require.Equal(t, alone.Tokens, twice.Tokens)
	require.Empty(t, twice.Parents)
}

// sharedGradients are the gradients and statistics of datums, with or without shared prefixes.
func sharedGradients(t *testing.T, p *Policy, b kernels.Backend, datums []Datum, share bool, o Objective) ([]float32, Stats) {
	t.Helper()
	p.SharePrefixes = share
	_, grads, _ := p.Slabs()
	b.Zero(grads)
	stats, err := p.Accumulate(t.Context(), datums, o)
	require.NoError(t, err)
	values := make([]float32, grads.Len())
	require.NoError(t, b.Download(values, grads))
	return values, stats
}

// With shared prefixes the loss is the same, and gradients are the same but for rounding, for every loss, every kind of training, and
// every kind of recomputation: by default each loss with one of the three kinds.
func TestSharedPrefixesHaveTheGradientsOfTheirSequences(t *testing.T) {
	race.SkipSerial(t)
	objectives := []Objective{{Custom: ownSequenceRatio, Reduction: SequenceMean}, {Custom: ownCrossEntropy, Reduction: Sum}}
	for _, name := range []string{"importance_sampling", "ppo", "cispo", "cross_entropy"} {
		loss, err := kernels.ParseLoss(name)
		require.NoError(t, err)
		for _, r := range []Reduction{Sum, TokenMean, SequenceMean} {
			objectives = append(objectives, Objective{Loss: loss, Reduction: r})
		}
	}
	for _, full := range []bool{false, true} {
		for turn, recompute := range []Recompute{RecomputeNone, RecomputeCheap, RecomputeBlocks} {
			for word, o := range precisions() {
				within := 1e-5
				if o.Precision == BF16 {
					within = 1e-2 // gradients are rounded, too
				}
				t.Run(fmt.Sprintf("full=%v, recompute=%v, %s", full, recompute, word), func(t *testing.T) {
					b := backendtest.CPU(t, cpu.Options{})
					defer b.Close()
					o.Recompute = recompute
					some := objectives
					if o.Precision != F32 || o.Cache != F32 {
						some = objectives[:4]
					}
					for i, objective := range some {
						if i%3 != turn && !testvariants.Exhaustive {
							continue
						}
						random := rand.New(rand.NewPCG(uint64(i), 3))
						o.MaxRows = []int{64, 200, 1000}[(i+i/3)%3]
						p := openFor(t, b, full, o)
						datums := sharedPrefixDatums(random, p.Vocab)
						objective.Temperature = 0.9
						want, wantStats := sharedGradients(t, p, b, datums, false, objective)
						got, stats := sharedGradients(t, p, b, datums, true, objective)
						require.Less(t, distance(got, want), within, "%v %v", objective.Loss.Kind, objective.Reduction)
						require.Positive(t, stats.Shared)
						require.Zero(t, wantStats.Shared)
						require.InEpsilon(t, wantStats.Loss, stats.Loss, 1e-9)
						require.InEpsilon(t, wantStats.Entropy, stats.Entropy, 1e-12)
						require.Equal(t, []any{wantStats.Rows, wantStats.RatioMin, wantStats.RatioMax, wantStats.MaxDiff, wantStats.Clipped},
							[]any{stats.Rows, stats.RatioMin, stats.RatioMax, stats.MaxDiff, stats.Clipped})
					}
				})
			}
		}
	}
}

// precisions are all precisions, f32 included.
func precisions() map[string]Options {
	all := maps.Clone(roundings)
	all["f32"] = Options{}
	return all
}

func openFor(t *testing.T, b kernels.Backend, full bool, o Options) *Policy {
	t.Helper()
	if !full {
		return openGolden(t, b, "qwen3-tied", "train_init", o)
	}
	p, err := Open(b, goldenDir("qwen3-untied-sharded"), true, o)
	require.NoError(t, err)
	return p
}

// Scores have the same bits whatever is shared, and on every backend; so do a custom loss's log-probabilities.
func TestSharedPrefixesHaveTheScoresOfTheirSequences(t *testing.T) {
	race.SkipSerial(t)
	inEveryPrecision(t, func(t *testing.T, b kernels.Backend, o Options) {
		random := rand.New(rand.NewPCG(9, 9))
		for _, rows := range []int{40, 150, 1000} {
			o.MaxRows, o.SharePrefixes = rows, false
			p := openGolden(t, b, "qwen3-tied", "adapter", o)
			datums := sharedPrefixDatums(random, p.Vocab)
			var sequences [][]int32
			for _, d := range datums {
				sequences = append(sequences, append(slices.Clone(d.Tokens), d.Targets[d.Rows()-1]))
			}
			want, err := p.Score(t.Context(), sequences, 0.8)
			require.NoError(t, err)
			p.SharePrefixes = true
			got, err := p.Score(t.Context(), sequences, 0.8)
			require.NoError(t, err)
			require.Equal(t, want, got)

			seen := 0
			for i := range datums {
				copy(datums[i].Targets, sequences[i][1:])
			}
			_, err = p.Accumulate(t.Context(), datums, Objective{Reduction: Sum, Temperature: 0.8, Custom: func(s *LossSequence) float64 {
				k := 0
				for i, counts := range datums[s.Index].Mask {
					if counts {
						require.Equal(t, want[s.Index][i], s.LogP[k])
						k++
					}
				}
				require.Len(t, s.LogP, k)
				seen++
				return 0
			}})
			require.NoError(t, err)
			require.Equal(t, len(datums), seen)
		}
	})
}

// Gradients do not depend on threads, on recomputation, or on what was computed before.
func TestSharedGradientsAreTheSameBits(t *testing.T) {
	for word, o := range precisions() {
		var want []float32
		for i, threads := range []int{1, 2, 3, 8} {
			b := backendtest.CPU(t, cpu.Options{Threads: threads})
			o.MaxRows, o.Recompute = 200, []Recompute{RecomputeCheap, RecomputeBlocks, RecomputeNone}[i%3]
			p := openGolden(t, b, "qwen3-tied", "train_init", o)
			got, _ := sharedGradients(t, p, b, sharedPrefixDatums(rand.New(rand.NewPCG(4, 4)), p.Vocab), true, importanceSampling)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got, "%s, %d threads", word, threads)
			require.NoError(t, b.Close())
		}
	}
}

// Sharing prefixes does not change a program's memory.
func TestSharedPrefixesTakeNoMoreMemory(t *testing.T) {
	var bytes [2]int
	for i, share := range []bool{false, true} {
		b := backendtest.CPU(t, cpu.Options{Threads: 2})
		p := openGolden(t, b, "qwen3-tied", "train_init", Options{MaxRows: 200, SharePrefixes: share})
		_, err := p.Accumulate(t.Context(), sharedPrefixDatums(rand.New(rand.NewPCG(4, 4)), p.Vocab), importanceSampling)
		require.NoError(t, err)
		bytes[i] = p.trainer.Bytes()
		require.NoError(t, b.Close())
	}
	require.Equal(t, bytes[0], bytes[1])
}
