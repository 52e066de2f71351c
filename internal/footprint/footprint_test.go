package footprint

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/internal/tiny"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Many plans are made: letting the heap grow is cheaper than a garbage collection for each of them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// countingBackend is a backend that counts allocations.
type countingBackend struct {
	kernels.Backend
	kernels.Quantiser // only NewQuantised is called
	buffers           int
	matrices          []kernels.Matrix
}

func (c *countingBackend) Alloc(t kernels.DType, n int) (kernels.Buffer, error) {
	c.buffers += n * t.Size()
	return c.Backend.Alloc(t, n)
}

func (c *countingBackend) NewMatrix(t kernels.DType, rows, cols int) (kernels.Matrix, error) {
	m, err := c.Backend.NewMatrix(t, rows, cols)
	c.matrices = append(c.matrices, m)
	return m, err
}

func (c *countingBackend) NewQuantised(t kernels.DType, parts []kernels.Quantised) (kernels.Matrix, error) {
	m, err := kernels.NewQuantised(c.Backend, t, parts...)
	c.matrices = append(c.matrices, m)
	return m, err
}

func (c *countingBackend) NewCache(h kernels.Heads, t kernels.DType, layers, blocks int) (kernels.Cache, error) {
	k, err := c.Backend.NewCache(h, t, layers, blocks)
	c.buffers += k.Bytes()
	return k, err
}

// take returns the bytes allocated since the last call, and not freed.
func (c *countingBackend) take() int {
	n := c.buffers
	for _, m := range c.matrices {
		n += m.Bytes()
	}
	c.buffers, c.matrices = 0, nil
	return n
}

func run(t *testing.T, words ...string) Run {
	t.Helper()
	b, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	cfg, err := configs.Load(configs.Source{Preset: "tiny_smoke", Overrides: words})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, tiny.Extract(dir))
	return Run{Config: cfg, Backend: b, Dir: dir, MaxPrompt: 54, Trains: true, LocalSandbox: true}
}

// A run allocates what was planned.
func TestThePlanIsWhatIsAllocated(t *testing.T) {
	for _, words := range [][]string{
		nil, {"max_rows=2000", "lora_rank=4", "max_sequences=7"}, {"train=full", "recompute=blocks"},
		{"precision=bf16", "lora_targets=q_proj,down_proj"}, {"kv_cache_dtype=bf16", "quantize=nf4"}, {"share_prefixes=false"},
		{"recompute=cheap"}, {"train=full", "precision=bf16"}, {"serve=127.0.0.1:0"},
	} {
		t.Run(strings.Join(words, " "), func(t *testing.T) {
			r := run(t, words...)
			p, err := Estimate(r)
			require.NoError(t, err)
			c := &countingBackend{Backend: r.Backend}
			near := func(name string, got, planned int) {
				t.Helper()
				require.InEpsilon(t, got, planned, 0.02, name)
			}

			o, err := ModelOptions(r.Config)
			require.NoError(t, err)
			o.Recompute = p.Model.Recompute
			policy, err := model.Open(c, r.Dir, r.Train == "full", o)
			require.NoError(t, err)
			near("weights", c.take(), p.BytesOf("weights"))
			if r.Train == "lora" {
				layout, err := AdapterLayout(r.Config, policy.LoRADims())
				require.NoError(t, err)
				a := lora.New(layout)
				require.NoError(t, policy.Attach(a))
				near("adapter", c.take()+4*len(a.Values), p.BytesOf("adapter"))
			}
			params, grads, locate := policy.Slabs()
			_, err = optim.NewAdam(c, params, grads, optim.Defaults(), locate)
			require.NoError(t, err)
			near("moments", c.take(), p.BytesOf("moments"))
			if r.Serve != "" {
				checkServing(t, c, policy, p)
			}
			training, scoring, err := policy.Prepare(r.MaxPrompt + r.MaxTokens)
			require.NoError(t, err)
			require.Equal(t, []int{training, scoring}, []int{p.BytesOf("activations"), p.BytesOf("scorer")})
			require.LessOrEqual(t, c.take()-training-scoring, p.BytesOf("batches"))
			e, err := sampler.New(policy, p.Sampler)
			require.NoError(t, err)
			require.Equal(t, p.BytesOf("cache"), int(e.CacheBytes))
			near("sampler", c.take(), p.BytesOf("cache")+p.BytesOf("sampler"))
		})
	}
}

// checkServing compares the allocations for serving during training with the plan, which lists the parts of a matrix.
func checkServing(t *testing.T, c *countingBackend, policy *model.Policy, p *Plan) {
	t.Helper()
	twin, err := policy.Twin()
	require.NoError(t, err)
	o, err := SamplerBesideTraining(twin)
	require.NoError(t, err)
	live, err := sampler.NewLive(twin, o)
	require.NoError(t, err)
	a, err := policy.Adapter()
	require.NoError(t, err)
	for range o.Adapters {
		_, err = live.Serve(a)
		require.NoError(t, err)
	}
	got := c.take() + 2*4*len(a.Values) // being uploaded
	require.GreaterOrEqual(t, p.BytesOf("serve"), got)
	require.InEpsilon(t, got, p.BytesOf("serve"), 0.04)
}

// roomOf is the memory of a machine without a card.
func roomOf(bytes int64) (r rooms) {
	r[device].Room, r[device].known = memory.Room{Bytes: bytes, Limit: "the machine's memory"}, true
	return r
}

func TestWhatDoesNotFitIsRefusedByName(t *testing.T) {
	room := roomOf(2e9)
	for _, c := range []struct {
		words []string
		says  string
	}{
		{[]string{"max_rows=480000"}, "max_rows=480000: this run needs 23."},
		{[]string{"cache_memory=5GiB"}, "the largest that fits is cache_memory="},
		{[]string{"lora_rank=30000"}, "the largest that fits is lora_rank="},
		{[]string{"token_budget=3000000"}, "the largest that fits is token_budget="},
		{[]string{"max_rows=60000", "train=full"}, "the largest that fits is max_rows="},
		{[]string{"max_rows=480000", "lora_rank=30000"}, "lowering one setting is not enough"},
		{[]string{"sandbox_slots=500"}, "sandbox_slots=500: this run needs 33."},
		{[]string{"prompts_per_step=20000"}, "the largest that fits is prompts_per_step="},
		{[]string{"sandbox_slots=500", "max_rows=480000"}, "lower max_tokens, max_rows, lora_rank and sandbox_slots together"},
	} {
		r := run(t, c.words...)
		p, err := r.plan(room)
		require.NoError(t, err)
		require.False(t, p.enough(), p)
		before := cputime.Used()
		err = r.refuse(p, device)
		require.Less(t, cputime.Used()-before, 5*time.Second)
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, "this process has 2.00 GB of the machine's memory")
		require.NotContains(t, err.Error(), "\n")

		// The recommended value fits, and uses the available memory.
		_, word, ok := strings.Cut(err.Error(), "the largest that fits is ")
		if !ok {
			continue
		}
		fixed := run(t, append(c.words[1:], word)...)
		p, err = fixed.plan(room)
		require.NoError(t, err)
		require.True(t, p.enough(), word)
		require.Greater(t, float64(p.needs(device)), 0.9*2e9, word)
	}
}

// The memory is not linear in a setting: at any size, the recommended value is the largest that fits, to three digits.
func TestTheLargestThatFits(t *testing.T) {
	needs := func(rows int) int {
		r := run(t, "recompute=cheap", fmt.Sprintf("max_rows=%d", rows))
		p, err := r.plan(roomsOf(r.Backend))
		require.NoError(t, err)
		return p.needs(device)
	}
	const asked = 2048
	least, most := needs(1), needs(asked)
	for i := 0; i < 14; i += testvariants.Limit(4, 1) {
		share := 0.02 + 0.07*float64(i)
		r := run(t, "recompute=cheap", fmt.Sprintf("max_rows=%d", asked))
		rooms := roomsOf(r.Backend)
		rooms[device].Bytes = int64((float64(least) + share*float64(most-least)) / (1 - unusedShare))
		p, err := r.plan(rooms)
		require.NoError(t, err)
		_, word, _ := strings.Cut(r.refuse(p, device).Error(), "the largest that fits is max_rows=")
		found, err := strconv.Atoi(word)
		require.NoError(t, err, word)
		require.LessOrEqual(t, float64(needs(found)), p.limit(device))
		require.Greater(t, float64(needs(found+max(found/100, 2))), p.limit(device), "%d is not the largest", found)
	}
}

// If only recompute can be changed, the fastest choice that fits is named.
func TestTheFastestChoiceOfRecomputeThatFits(t *testing.T) {
	small := []string{"max_rows=1", "max_tokens=1", "lora_rank=1", "max_sequences=1", "token_budget=1", "prompts_per_step=1"}
	planned := func(recompute string, room rooms) (Run, *Plan) {
		r := run(t, append(small, "recompute="+recompute)...)
		r.LocalSandbox = false
		p, err := r.plan(room)
		require.NoError(t, err)
		return r, p
	}
	for _, c := range [][2]string{{"none", "cheap"}, {"none", "blocks"}, {"cheap", "blocks"}} {
		_, p := planned(c[1], roomOf(40e9))
		room := roomOf(int64(float64(p.needs(device)+10_000) / (1 - unusedShare)))
		r, p := planned(c[0], room)
		require.False(t, p.enough(), c)
		require.ErrorContains(t, r.refuse(p, device), "; type recompute="+c[1], c)
	}
}

// A cache of unset size takes half of the remaining memory, and is never the reason to refuse a run.
func TestACacheFitsIntoWhatIsLeft(t *testing.T) {
	r := run(t, "max_sequences=100000")
	for _, bytes := range []int64{4e8, 1e9, 4e9} {
		p, err := r.plan(roomOf(bytes))
		require.NoError(t, err)
		rest := p.total(device) - p.BytesOf("cache") - p.BytesOf("sampler")
		require.InDelta(t, float64(bytes-int64(rest))/2, p.BytesOf("cache"), 1e6)
	}
}

// If a cache of a set size cannot hold a single sequence, the error names the setting.
func TestACacheHasRoomForOneSequence(t *testing.T) {
	r := run(t, "cache_memory=10KiB")
	_, err := r.plan(roomOf(1e9))
	require.ErrorContains(t, err, "cache_memory: found 10KiB, and one sequence of ")
	require.ErrorContains(t, err, "raise it, or leave it out")
}

// card is a backend with memory of its own.
type card struct{ kernels.Backend }

func (card) Free() (memory.Room, bool) {
	return memory.Room{Bytes: 2e9, Limit: "the memory of card 0", GPU: true}, true
}

// A card and its host have separate limits: host allocations do not count on the card, and a refusal names the memory that is short.
func TestACardAndItsHostHaveARoomEach(t *testing.T) {
	r := run(t, "recompute=cheap", "sandbox_slots=2")
	r.Backend = card{r.Backend}
	p, err := Estimate(r)
	require.NoError(t, err)
	text := p.String()
	onCard, onHost, ok := strings.Cut(text, "; free: 2.00 GB of the memory of card 0; ")
	require.True(t, ok, text)
	require.Regexp(t, `^[0-9.]+ MB on the card \(weights .*, cache `, onCard)
	require.NotContains(t, onCard, "sandbox")
	require.Regexp(t, `^[0-9.]+ [MG]B on the host \(adapter .*, sandbox .*, report .*; free: .* of `, onHost)
	require.NotContains(t, onHost, "weights")
	require.Equal(t, p.total(device)+p.total(host), p.BytesOf("weights")+p.BytesOf("adapter")+p.BytesOf("moments")+p.BytesOf("activations")+
		p.BytesOf("scorer")+p.BytesOf("batches")+p.BytesOf("sandbox")+p.BytesOf("report")+p.BytesOf("transfers")+p.BytesOf("cache")+
		p.BytesOf("sampler")+p.BytesOf("drafts"))
	require.NotZero(t, p.BytesOf("drafts"))
	require.Contains(t, p.Items, Item{"transfers", sides{host: 4<<20 + 256<<10}}, "a ring of four slots, and where what comes back lands")
	require.NotContains(t, onCard, "transfers")

	r.MaxRows = 60000
	_, err = Estimate(r)
	require.ErrorContains(t, err, "this process has 2.00 GB of the memory of card 0, "+
		"of which a twentieth is kept free; the largest that fits is max_rows=")

	r.MaxRows = 512
	rooms := roomsOf(r.Backend)
	rooms[host].Bytes = 1e8
	p, err = r.plan(rooms)
	require.NoError(t, err)
	s, fits := p.fits()
	require.False(t, fits)
	require.Equal(t, host, s)
	require.ErrorContains(t, r.refuse(p, s), "sandbox_slots: this run needs ")
	require.ErrorContains(t, r.refuse(p, s), "this process has 0.10 GB of ")
	r.Config.PromptsPerStep = 4096
	p, err = r.plan(rooms)
	require.NoError(t, err)
	require.ErrorContains(t, r.refuse(p, host), "prompts_per_step: this run needs ")
}
