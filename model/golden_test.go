package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
	"github.com/seed-7879b91d/grpo/lora"
)

// The golden cases are small models with float64 references; testdata/golden/README.md says how they were made.
var (
	plainCases  = []string{"qwen3-tied", "qwen3-untied-sharded"}
	familyCases = slices.Concat(plainCases, []string{"llama-rope-scaled", "qwen2-bias", "gemma2-softcap", "mistral-yarn"})
	goldenCases = slices.Concat(familyCases, []string{"nf4-double", "nf4-single"}) // also with 4-bit weights
)

// goldenOn are the cases to train on a backend: on the reference, which is slow, two of them.
func goldenOn(b kernels.Backend) []string {
	if b.Order() == kerneltest.NewReference().Order() {
		return plainCases
	}
	return goldenCases
}

func goldenDir(name ...string) string {
	return filepath.Join(append([]string{"testdata", "golden"}, name...)...)
}

func readJSON(t testing.TB, v any, path ...string) {
	t.Helper()
	text, err := os.ReadFile(goldenDir(path...))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, v))
}

// roundings are the precisions of a policy, except f32.
var roundings = map[string]Options{
	"bf16": {Precision: BF16}, "bf16 cache": {Cache: BF16}, "bf16 and bf16 cache": {Precision: BF16, Cache: BF16},
	"bf16 everywhere": {Precision: BF16, Cache: BF16, AdapterPrecision: BF16},
}

// inEveryPrecision is backendtest.OnEach for properties that hold in every precision, and in tile order.
func inEveryPrecision(t *testing.T, test func(t *testing.T, b kernels.Backend, o Options)) {
	backendtest.OnEach(t, func(t *testing.T, b kernels.Backend) { test(t, b, Options{}) })
	for name, o := range roundings {
		t.Run("cpu "+name, func(t *testing.T) {
			backendtest.On(t, backendtest.CPU(t, cpu.Options{}), func(t *testing.T, b kernels.Backend) { test(t, b, o) })
		})
	}
	for name, o := range map[string]Options{"f32": {}, "bf16 everywhere": roundings["bf16 everywhere"]} {
		t.Run("cpu in tiles "+name, func(t *testing.T) {
			b := backendtest.CPU(t, cpu.Options{Order: kernels.Tiles})
			backendtest.On(t, b, func(t *testing.T, b kernels.Backend) { test(t, b, o) })
		})
	}
}

func openGolden(t testing.TB, b kernels.Backend, name, adapter string, o Options) *Policy {
	t.Helper()
	p, err := Open(b, goldenDir(name), false, o)
	require.NoError(t, err)
	if adapter != "" {
		a, err := lora.Load(goldenDir(name, adapter), p.LoRADims())
		require.NoError(t, err)
		require.NoError(t, p.Attach(a))
	}
	return p
}

type goldenScore struct {
	Tokens  []int32   `json:"tokens"`
	Base    []float64 `json:"logprobs_base"`
	Adapter []float64 `json:"logprobs_adapter"`
}

func TestScoresMatchTheFloat64Reference(t *testing.T) {
	race.SkipSerial(t)
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		for _, name := range goldenCases {
			var want []goldenScore
			readJSON(t, &want, name, "score.json")
			var seqs [][]int32
			for _, w := range want {
				seqs = append(seqs, w.Tokens)
			}
			for _, adapter := range []string{"", "adapter"} {
				got, err := openGolden(t, b, name, adapter, Options{}).Score(t.Context(), seqs, 1)
				require.NoError(t, err)
				worst := 0.0
				for i, w := range want {
					ref := w.Base
					if adapter != "" {
						ref = w.Adapter
					}
					require.Len(t, got[i], len(ref))
					for k := range ref {
						worst = max(worst, math.Abs(ref[k]-float64(got[i][k])))
					}
				}
				t.Logf("%s %s: worst difference %.2g", name, adapter, worst)
				require.Less(t, worst, 1e-5, "%s %s", name, adapter)
			}
		}
	})
}
