package sampler

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
	"github.com/seed-7879b91d/grpo/model"
)

// families are the golden models of architectures other than Qwen3.
var families = []string{"llama-rope-scaled", "qwen2-bias", "gemma2-softcap", "mistral-yarn"}

func TestGreedyMatchesTheFloat64Reference(t *testing.T) {
	race.SkipSerial(t)
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		names := []string{"qwen3-tied", "qwen3-untied-sharded"}
		if b.Order() != kerneltest.NewReference().Order() { // which is slow
			names = append(names, families...)
		}
		for _, name := range names {
			var want []struct {
				With       string
				Prompt     []int32
				Completion []int32
				LogProbs   []float64
				Margins    []float64
			}
			text, err := os.ReadFile(golden(name, "greedy.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &want))
			for _, w := range want {
				adapter := ""
				if w.With != "base" {
					adapter = "adapter"
				}
				e := engine(t, open(t, b, name, adapter), Options{MaxLength: 128, MaxSequences: 4})
				got := sampleAll(t, e, []Request{{Prompt: w.Prompt, N: 1, Params: Params{MaxTokens: len(w.Completion)}}})[0]
				require.Equal(t, Length, got.Finish)
				for i := range w.Completion {
					if w.Margins[i] <= 1e-3 {
						break // a tie: the tokens after it depend on how it is broken
					}
					require.Equal(t, w.Completion[i], got.Tokens[i], "%s with %s, token %d", name, w.With, i)
					require.InDelta(t, w.LogProbs[i], got.LogProbs[i], 2e-4)
				}
			}
		}
	})
}

// Recorded log-probabilities are those of the trainer's kernels, bit for bit.
func TestSamplerAndScorerAgreeToTheBit(t *testing.T) {
	inEveryPrecision(t, func(t *testing.T, b kernels.Backend, rounding model.Options) {
		for _, name := range []string{"qwen3-tied", "qwen3-untied-sharded"} {
			p := openWith(t, b, name, "adapter", rounding)
			e := engine(t, p, Options{MaxLength: 256, MaxSequences: 8, TokenBudget: 48})
			for _, temperature := range []float32{0.7, 1, 1.3} {
				asked := requests(p.Vocab, temperature, 9)
				for _, r := range sampleAll(t, e, asked) {
					prompt := asked[r.Request].Prompt
					whole := append(append([]int32(nil), prompt...), r.Tokens...)
					scores, err := p.Score(t.Context(), [][]int32{whole}, temperature)
					require.NoError(t, err)
					require.Equal(t, scores[0][len(prompt)-1:], r.LogProbs, "%s at %v, request %d", name, temperature, r.Request)
				}
			}
		}
	})
}

// The same in full training, after an update of the weights.
func TestAWholeModelSamplesWhatItScores(t *testing.T) {
	for _, order := range []kernels.Order{kernels.Serial, kernels.Tiles} {
		b := backendtest.CPU(t, cpu.Options{Order: order})
		p, err := model.Open(b, golden("qwen3-tied"), true, model.Options{Precision: model.BF16, Cache: model.BF16})
		require.NoError(t, err)
		e := engine(t, p, Options{MaxLength: 256, MaxSequences: 8, TokenBudget: 48})
		params, _, _ := p.Slabs()
		values := make([]float32, params.Len())
		require.NoError(t, b.Download(values, params))
		for i := range values {
			values[i] *= 1 + 0.01*float32(i%7)
		}
		b.Upload(params, values)
		p.Publish()
		asked := requests(p.Vocab, 1, 9)
		for _, r := range sampleAll(t, e, asked) {
			prompt := asked[r.Request].Prompt
			scores, err := p.Score(t.Context(), [][]int32{slices.Concat(prompt, r.Tokens)}, 1)
			require.NoError(t, err)
			require.Equal(t, scores[0][len(prompt)-1:], r.LogProbs, "%v, request %d", order, r.Request)
		}
		require.NoError(t, b.Close())
	}
}

// The same for other families, whose window is shorter than most completions, beside others, in chunks, with shared blocks, and in a
// cache so small that sequences are preempted.
func TestOtherFamiliesSampleWhatTheyScore(t *testing.T) {
	for _, cache := range []model.Precision{model.F32, model.BF16} {
		b := backendtest.CPU(t, cpu.Options{Threads: 2})
		for _, name := range families {
			p := openWith(t, b, name, "adapter", model.Options{Cache: cache, SharePrefixes: true})
			asked := requests(p.Vocab, 0.8, 9)
			tight := int64(p.BlockBytes()) * int64(128/p.CacheBlock()+2)
			e := engine(t, p, Options{MaxLength: 128, MaxSequences: 16, TokenBudget: 33, CacheBytes: tight})
			var sequences [][]int32
			got := sampleAll(t, e, asked)
			for _, r := range got {
				sequences = append(sequences, append(append([]int32(nil), asked[r.Request].Prompt...), r.Tokens...))
			}
			scores, err := p.Score(t.Context(), sequences, 0.8)
			require.NoError(t, err)
			for i, r := range got {
				require.Equal(t, scores[i][len(asked[r.Request].Prompt)-1:], r.LogProbs, "%s, request %d", name, r.Request)
			}
			require.Positive(t, e.Preempted)
		}
		require.NoError(t, b.Close())
	}
}

// If every layer has a window, sequences much longer than it need few blocks, and log-probabilities are the scorer's. If some layers have
// none, all blocks are needed.
func TestBlocksBehindAWindowAreFree(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 2})
	defer b.Close()
	for _, name := range []string{"mistral-yarn", "gemma2-softcap"} {
		p := open(t, b, name, "adapter")
		rng := rand.New(rand.NewPCG(8, 8))
		asked := []Request{
			{Prompt: randomTokens(rng, p.Vocab, 150), N: 3, Params: Params{Temperature: 1, MaxTokens: 200}},
			{Prompt: randomTokens(rng, p.Vocab, 9), N: 1, Key: Key{Problem: 1}, Params: Params{Temperature: 1, MaxTokens: 330}},
		}
		o := Options{MaxLength: 352, MaxSequences: 4, TokenBudget: 32, CacheBytes: int64(18 * p.BlockBytes())}
		plan, err := NewPlan(p, Options{MaxLength: 352, MaxSequences: 4, TokenBudget: 32, Free: 1 << 40})
		require.NoError(t, err)
		require.Equal(t, map[string]int{"mistral-yarn": 4 * (2 + kernels.BlocksAtOnce + 1), "gemma2-softcap": 4 * (11 + 1)}[name], plan.Blocks)
		e := engine(t, p, o)
		rollouts := sampleAll(t, e, asked)
		require.Equal(t, name != "mistral-yarn", e.Preempted > 0, "%s: %d times", name, e.Preempted)
		// Further prompts overwrite whole blocks as soon as they are free.
		for i := range 40 {
			asked = append(asked, Request{Prompt: randomTokens(rng, p.Vocab, 40), N: 1, Key: Key{Problem: 2 + i},
				Params: Params{Temperature: 1, MaxTokens: 9}})
		}
		o.MaxSequences, o.TokenBudget = 8, 96
		live, err := NewLive(p, o)
		require.NoError(t, err)
		for i, r := range asked {
			_, err := live.Submit(r, Listener{Done: func(r Rollout) { r.Request = i; rollouts = append(rollouts, r) }})
			require.NoError(t, err)
		}
		slid := false
		for step(t, live) {
			at := slices.IndexFunc(live.s.sequences, func(q *sequence) bool { return q.state == running && q.freed > 0 })
			if at >= 0 && !slid { // a sequence that freed blocks behind its window frees the rest, too, and is recomputed
				slid = true
				live.s.preempt(live.s.sequences[at])
			}
		}
		require.Equal(t, name == "mistral-yarn", slid)
		require.Equal(t, live.s.Blocks, live.s.FreeBlocks())
		for _, r := range rollouts {
			sequence := slices.Concat(asked[r.Request].Prompt, r.Tokens)
			scores, err := p.Score(t.Context(), [][]int32{sequence}, 1)
			require.NoError(t, err)
			require.Equal(t, scores[0][len(asked[r.Request].Prompt)-1:], r.LogProbs, "%s, request %d", name, r.Request)
		}
	}
}

// The same request alone, beside others, in any chunks, with a cache so small that it is preempted: the same tokens and bits.
func TestNothingAroundARequestChangesIt(t *testing.T) {
	t.Parallel()
	inEveryPrecision(t, func(t *testing.T, b kernels.Backend, rounding model.Options) {
		p := openWith(t, b, "qwen3-tied", "adapter", rounding)
		asked := requests(p.Vocab, 1, 16)
		alone := engine(t, p, Options{MaxLength: 128, MaxSequences: 1, TokenBudget: 7, NoDrafts: true})
		var want []Rollout
		for i, r := range asked {
			got := sampleAll(t, alone, []Request{r})
			for k := range got {
				got[k].Request = i
			}
			want = append(want, got...)
		}
		tight := int64(p.BlockBytes()) * int64(128/p.CacheBlock()+2)
		for _, o := range testvariants.EveryNth(2, []Options{
			{MaxLength: 128, MaxSequences: 64, CacheBytes: tight},
			{MaxLength: 128, MaxSequences: 64},
			{MaxLength: 128, MaxSequences: 3, TokenBudget: 33, CacheBytes: 4 * tight},
			{MaxLength: 128, MaxSequences: 5, TokenBudget: 16},
		}...) {
			e := engine(t, p, o)
			require.Equal(t, want, sampleAll(t, e, asked), "%+v", o)
			require.Equal(t, o.CacheBytes == tight, e.Preempted > 0, "%+v: %d times", o, e.Preempted)
		}
	})
}

// 1 thread or 8: the same tokens and bits.
func TestThreadsChangeNothing(t *testing.T) {
	var want []Rollout
	for _, threads := range []int{1, 8, 3} {
		b := backendtest.CPU(t, cpu.Options{Threads: threads})
		p := open(t, b, "qwen3-tied", "adapter")
		got := sampleAll(t, engine(t, p, Options{MaxLength: 128}), requests(p.Vocab, 1.3, 64))
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, "%d threads", threads)
		require.NoError(t, b.Close())
	}
}

func TestCancellationFreesEverything(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	p := open(t, b, "qwen3-tied", "")
	e := engine(t, p, Options{MaxLength: 128, MaxSequences: 6, TokenBudget: 32})
	asked := requests(p.Vocab, 1, 12)
	for after := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		_, err := e.Sample(ctx, asked, Events{Token: func(int, int, int32) {
			if seen++; seen > 5*after {
				cancel()
			}
		}})
		cancel()
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, e.Blocks, e.FreeBlocks())
	}
	sampleAll(t, e, asked)
}

func TestBadRequestsAreRefusedBeforeAnyWork(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	p := open(t, b, "qwen3-tied", "")
	e := engine(t, p, Options{MaxLength: 64})
	good := func() Request {
		return Request{Prompt: []int32{1, 2}, N: 1, Params: Params{MaxTokens: 4, Temperature: 1}}
	}
	for message, spoil := range map[string]func(*Request){
		"prompt: empty, expected at least one token":                         func(r *Request) { r.Prompt = nil },
		"n: found 0, expected 1 to 1048576":                                  func(r *Request) { r.N = 0 },
		"max_tokens: found 0, expected 1 or more":                            func(r *Request) { r.Params.MaxTokens = 0 },
		"max_tokens: found 9223372036854775807, expected at most 2147483647": func(r *Request) { r.Params.MaxTokens = math.MaxInt64 },
		"n: found 9223372036854775807, expected 1 to 1048576":                func(r *Request) { r.N = math.MaxInt64 },
		"temperature: found -1, expected 0 (greedy), or at least 1e-06":      func(r *Request) { r.Params.Temperature = -1 },
		"top_k: found -1, expected 0 (all) or more":                          func(r *Request) { r.Params.TopK = -1 },
		"top_p: found 1.5, expected 0 to 1":                                  func(r *Request) { r.Params.TopP = 1.5 },
		"min_p: found -0.5, expected 0 to 1":                                 func(r *Request) { r.Params.MinP = -0.5 },
		"prompt: token 384 at position 1, expected 0 to 383":                 func(r *Request) { r.Prompt[1] = 384 },
		"stop token 384 is not in the vocabulary, expected 0 to 383":         func(r *Request) { r.Params.StopTokens = []int32{384} },
		"n: found 1048577, expected 1 to 1048576":                            func(r *Request) { r.N = 1<<20 + 1 },
		"top_p: found -0.5, expected 0 to 1":                                 func(r *Request) { r.Params.TopP = -0.5 },
		"min_p: found 1.5, expected 0 to 1":                                  func(r *Request) { r.Params.MinP = 1.5 },

		"top log-probabilities: found -1 for the completion and 0 for the prompt, expected 0 to 128":  func(r *Request) { r.Top = -1 },
		"top log-probabilities: found 0 for the completion and -1 for the prompt, expected 0 to 128":  func(r *Request) { r.PromptTop = -1 },
		"top log-probabilities: found 129 for the completion and 0 for the prompt, expected 0 to 128": func(r *Request) { r.Top = 129 },
		"top log-probabilities: found 0 for the completion and 129 for the prompt, expected 0 to 128": func(r *Request) { r.PromptTop = 129 },

		"a prompt of 2 tokens and max_tokens 63 make 65, more than the maximum length of 64": func(r *Request) {
			r.Params.MaxTokens = 63
		},
	} {
		bad := good()
		spoil(&bad)
		_, err := e.Sample(t.Context(), []Request{good(), bad}, Events{Token: func(int, int, int32) { t.Error("a refused batch was drawn") }})
		require.EqualError(t, err, "request 1: "+message)
	}
	none, err := NewPlan(p, Options{MaxLength: 1 << 20})
	require.Equal(t, "KV: none", none.String(), "a plan can be printed even beside an error")
	require.ErrorContains(t, err, "the model has 40960 positions")
	_, err = NewPlan(p, Options{MaxLength: 64, CacheBytes: 1000})
	require.ErrorContains(t, err, "a sequence of 64 tokens needs 3")
	_, err = NewPlan(p, Options{MaxLength: 64, CacheBytes: 1 << 60})
	require.ErrorContains(t, err, "this process may take ")
	for _, o := range []Options{{MaxSequences: 1 << 40}, {MaxSequences: math.MaxInt}, {TokenBudget: 1 << 40}} {
		_, err = New(p, o) // before the cache is allocated, which takes a minute with half of a machine's memory
		require.ErrorContains(t, err, "besides the KV cache, but this process may take only ")
		require.True(t, badinput.Is(err))
	}
}

// A cache of unset size takes half of the free memory, if it can use that much; one of a set size may take all of it, and no more.
func TestACacheFitsWhatIsFree(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	size := int64(p.BlockBytes())
	plan, err := NewPlan(p, Options{MaxLength: 64, Free: 40 * size})
	require.NoError(t, err)
	require.Equal(t, 20, plan.Blocks)
	plan, err = NewPlan(p, Options{MaxLength: 64, Free: 40 * size, CacheBytes: 40 * size})
	require.NoError(t, err)
	require.Equal(t, 40, plan.Blocks)
	require.Equal(t, 40*size, plan.CacheBytes)
	_, err = NewPlan(p, Options{MaxLength: 64, Free: 40 * size, CacheBytes: 40*size + 1})
	require.ErrorContains(t, err, "this process may take ")
	plan, err = NewPlan(p, Options{MaxLength: 64, MaxSequences: 2, Free: 40 * size})
	require.NoError(t, err)
	require.Equal(t, 2*(plan.held()+1), plan.Blocks)
}
