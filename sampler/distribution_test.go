package sampler

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// Over many draws from a fixed model, tokens have the right frequencies, for each kind of truncation: by default a quarter of the draws.
func TestDrawsFollowTheDistribution(t *testing.T) {
	t.Parallel()
	draws := testvariants.Limit(20_000, 200_000)
	if race.Enabled {
		draws = 20_000
	}
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	p := open(t, b, "qwen3-tied", "adapter")
	prompt := []int32{3, 141, 59}
	var logits []float64
	for v := range p.Vocab {
		scores, err := p.Score(t.Context(), [][]int32{append(slices.Clone(prompt), int32(v))}, 1)
		require.NoError(t, err)
		logits = append(logits, float64(scores[0][len(prompt)-1]))
	}
	for name, params := range map[string]Params{
		"temperature 1":   {Temperature: 1},
		"temperature 0.7": {Temperature: 0.7},
		"top-k":           {Temperature: 1, TopK: 20},
		"top-p":           {Temperature: 1, TopP: 0.6},
		"min-p":           {Temperature: 1, MinP: 0.2},
		"all of them":     {Temperature: 1.3, TopK: 100, TopP: 0.8, MinP: 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			counts := drawMany(t, p, prompt, params, draws)
			expected := exact(logits, params)
			statistic, cells := chiSquare(counts, expected, draws)
			limit := chiSquareLimit(cells - 1)
			t.Logf("chi-square %.1f over %d cells, limit %.1f", statistic, cells, limit)
			require.Less(t, statistic, limit)
			require.Greater(t, cells, 3)
		})
	}
}

// drawMany counts the first tokens of many completions, as an engine draws them.
func drawMany(t *testing.T, p *model.Policy, prompt []int32, params Params, n int) []int {
	const rows = 1000
	d, err := p.NewDecoder(model.DecoderSize{Blocks: 1, Rows: rows, Sequences: 1, TableStride: 1})
	require.NoError(t, err)
	counts := make([]int, p.Vocab)
	s := scheduler{Engine: &Engine{decoder: d}}
	for from := 0; from < n; from += rows {
		s.rows.Reset()
		for i, token := range prompt {
			s.addRow(token, i)
		}
		g := &group{request: Request{Prompt: prompt, Key: Key{Seed: 77}, Params: params}}
		for i := range rows {
			s.addDraw(&sequence{group: g, sample: from + i}, 0)
		}
		s.endRun(g, []int32{0})
		drawn, err := d.Run(&s.rows)
		require.NoError(t, err)
		for _, v := range drawn.Tokens {
			counts[v]++
		}
	}
	return counts
}

// exact is the distribution that the parameters describe.
func exact(logp []float64, params Params) []float64 {
	order := make([]int, len(logp))
	weight := make([]float64, len(logp))
	for v := range order {
		order[v] = v
		weight[v] = math.Exp(logp[v] / float64(params.Temperature))
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if weight[a] > weight[b] {
			return -1
		} else if weight[a] < weight[b] {
			return 1
		}
		return 0
	})
	if params.TopK > 0 {
		order = order[:params.TopK]
	}
	total := func() (sum float64) {
		for _, v := range order {
			sum += weight[v]
		}
		return sum
	}
	if params.TopP > 0 {
		goal, sum := float64(params.TopP)*total(), 0.0
		for i, v := range order {
			if sum += weight[v]; sum >= goal {
				order = order[:i+1]
				break
			}
		}
	}
	kept := make([]float64, len(logp))
	top := weight[order[0]]
	order = slices.DeleteFunc(order, func(v int) bool { return weight[v] < float64(params.MinP)*top })
	sum := total()
	for _, v := range order {
		kept[v] = weight[v] / sum
	}
	return kept
}

// chiSquare compares counts with expected ones; small cells are merged.
func chiSquare(counts []int, expected []float64, n int) (statistic float64, cells int) {
	restCount, restExpected := 0, 0.0
	add := func(count int, e float64) {
		d := float64(count) - e
		statistic += d * d / e
		cells++
	}
	for v, p := range expected {
		e := p * float64(n)
		switch {
		case e == 0 && counts[v] > 0:
			return math.Inf(1), cells // drawn, but truncated
		case e >= 10:
			add(counts[v], e)
		default:
			restCount, restExpected = restCount+counts[v], restExpected+e
		}
	}
	if restExpected >= 10 {
		add(restCount, restExpected)
	}
	return statistic, cells
}

// chiSquareLimit is a bound that a correct sampler exceeds once in 10,000 times (Wilson and Hilferty).
func chiSquareLimit(freedom int) float64 {
	const z = 3.719
	k := float64(freedom)
	return k * math.Pow(1-2/(9*k)+z*math.Sqrt(2/(9*k)), 3)
}

func TestChiSquareSeesAWrongSampler(t *testing.T) {
	expected := []float64{0.5, 0.3, 0.2}
	for counts, right := range map[[3]int]bool{{5000, 3000, 2000}: true, {5300, 2900, 1800}: false} {
		statistic, cells := chiSquare(counts[:], expected, 10_000)
		require.Equal(t, right, statistic < chiSquareLimit(cells-1), fmt.Sprint(counts))
	}
}
