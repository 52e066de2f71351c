package footprint

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// room is a backend with a given amount of memory.
type room struct {
	kernels.Backend
	bytes int64
}

func (r room) Free() (memory.Room, bool) {
	return memory.Room{Bytes: r.bytes, Limit: "the test"}, r.bytes > 0
}

// Unset max_rows and recompute are chosen by the memory: cheap recomputation if the longest sequence fits with it, then as many rows of a
// group as fit, and at last no recomputation.
func TestThePlanSettlesWhatIsLeftOpen(t *testing.T) {
	open := []string{"max_rows=0", "max_tokens=1500", "max_sequences=8", "completions_per_prompt=12"}
	for _, c := range []struct {
		words     []string
		bytes     int64
		rows      int
		recompute model.Recompute
		why       string
	}{
		{nil, 40e9, 54 + 12*1500, model.RecomputeNone,
			"batches of 18054 tokens (max_rows=0: a whole group), sequences of up to 1554; recompute=none, which fits"},
		{nil, 46e7, 54 + 3*1500, model.RecomputeNone, "(max_rows=0: 3 of a group's 12 completions; more would not fit)"},
		{nil, 26e7, 1554, model.RecomputeCheap, "(max_rows=0: the longest sequence; more would not fit), " +
			"sequences of up to 1554; recompute=cheap, as none would take 89.5 MB for 1554 tokens"},
		{nil, 19e7, 1554, model.RecomputeBlocks, "recompute=blocks, as cheap would take 62.2 MB for 1554 tokens"},
		{[]string{"recompute=blocks"}, 40e9, 54 + 12*1500, model.RecomputeBlocks, "sequences of up to 1554; recompute=blocks"},
		{[]string{"recompute=cheap"}, 40e9, 54 + 12*1500, model.RecomputeCheap, "sequences of up to 1554; recompute=cheap"},
		{[]string{"recompute=none"}, 40e9, 54 + 12*1500, model.RecomputeNone, "sequences of up to 1554; recompute=none"},
		{[]string{"deterministic=true"}, 40e9, 1554, model.RecomputeNone,
			"(max_rows=0: with deterministic=true, what fits wherever the run does)"},
		{[]string{"share_prefixes=false"}, 40e9, 512, model.RecomputeNone, "batches of 512 tokens, sequences of up to 1554"},
		{[]string{"max_rows=700"}, 40e9, 700, model.RecomputeNone, "batches of 700 tokens, sequences of up to 1554"},
		{[]string{"share_prefixes=false"}, 22e7, 512, model.RecomputeCheap, "recompute=cheap, as none would take 89.5 MB for 1554 tokens"},
		{nil, 0, 1554, model.RecomputeCheap, "sequences of up to 1554; recompute=cheap"}, // the free memory is unknown
	} {
		r := run(t, append(slices.DeleteFunc(slices.Clone(open), func(word string) bool {
			key, _, _ := strings.Cut(word, "=")
			return slices.ContainsFunc(c.words, func(later string) bool { return strings.HasPrefix(later, key+"=") })
		}), c.words...)...)
		r.Deterministic = slices.Contains(c.words, "deterministic=true")
		r.Backend, r.LocalSandbox = room{r.Backend, c.bytes}, false
		p, err := Estimate(r)
		require.NoError(t, err)
		require.Equal(t, c.rows, p.Model.MaxRows, "%v of %d: %s", c.words, c.bytes, p.Why)
		require.Equal(t, c.recompute, p.Model.Recompute, p.Why)
		require.Contains(t, p.Why, c.why)

		// The chosen settings give the same plan.
		r.MaxRows, r.Recompute = p.Model.MaxRows, p.Model.Recompute.String()
		again, err := r.plan(p.rooms)
		require.NoError(t, err)
		require.Equal(t, p.String(), again.String())
		require.Equal(t, p.Items, again.Items)
	}
}

// Sharing a sketch does not change plans, in whatever order they are made.
func TestASharedSketchChangesNoPlan(t *testing.T) {
	for _, words := range [][]string{{}, {"train=full"}, {"precision=bf16", "kv_cache_dtype=bf16"}, {"quantize=nf4"}, {"serve=:0"}} {
		r := run(t, words...)
		shared := r
		shared.sketch = &sketch{}
		for _, rows := range []int{700, 100, 1500} {
			for _, recompute := range []string{"blocks", "none", "cheap"} {
				r.Recompute, shared.Recompute = "auto", "auto"
				want, err := r.settled(recompute, rows).plan(roomOf(40e9))
				require.NoError(t, err)
				got, err := shared.settled(recompute, rows).plan(roomOf(40e9))
				require.NoError(t, err)
				require.Equal(t, want, got, "%v, %d rows, recompute=%s", words, rows, recompute)
			}
		}
	}
}
