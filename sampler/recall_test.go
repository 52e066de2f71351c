package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

// draw submits requests to a sampler, one after the other, and returns all rollouts, without the counts of cached blocks, which are
// returned separately.
func draw(t testing.TB, l *Live, asked []Request) (all []Rollout, cached []int) {
	t.Helper()
	for i, r := range asked {
		h, on := listen(r)
		_, err := l.Submit(r, on)
		require.NoError(t, err)
		for _, got := range h.wait(t, r) {
			cached = append(cached, got.Cached)
			got.Request, got.Cached = i, 0
			all = append(all, got)
		}
	}
	return all, cached
}

// turns are the turns of some conversations, each of which continues the one before with some tokens of its own.
func turns(rng *rand.Rand, vocab, conversations, each int) (asked []Request) {
	system := randomTokens(rng, vocab, 40)
	for c := range conversations {
		prompt := slices.Clone(system)
		for range each {
			prompt = append(prompt, randomTokens(rng, vocab, 20)...)
			asked = append(asked, Request{Prompt: slices.Clone(prompt), N: 1 + c%2, Key: Key{Seed: uint64(len(asked))},
				Params: Params{Temperature: 1, MaxTokens: 12}})
		}
	}
	return asked
}

func randomTokens(rng *rand.Rand, vocab, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(vocab))
	}
	return tokens
}

// Prefixes found in the cache change no bit, for each kind of attention; also if remembered blocks are evicted.
func TestWhatIsRememberedChangesNothing(t *testing.T) {
	b := backend(t)
	for _, name := range append([]string{"qwen3-tied"}, families...) {
		p := openWith(t, b, name, "adapter", model.Options{})
		asked := turns(rand.New(rand.NewPCG(1, 2)), p.Vocab, 2, 4)
		want := sampleAll(t, engine(t, p, Options{MaxLength: 160, NoDrafts: true}), asked)
		needed := int64(160/p.CacheBlock() + 2)
		for _, blocks := range []int64{100, needed} {
			l := live(t, p, Options{MaxLength: 160, CacheBytes: blocks * int64(p.BlockBytes())})
			got, cached := draw(t, l, asked)
			require.Equal(t, want, got, "%s with %d blocks", name, blocks)
			if blocks == 100 {
				require.Equal(t, 0, cached[0])
				require.Equal(t, 96/p.CacheBlock()*p.CacheBlock(), cached[3], "the prompt of the turn before, as far as it fills blocks")
			}
		}
	}
}

// Completions are cached, too: a prompt that continues one finds it.
func TestCompletionsAreRemembered(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	l := live(t, p, Options{MaxLength: 160})
	first := Request{Prompt: []int32{1, 2, 3}, N: 1, Params: Params{Temperature: 1, MaxTokens: 90}}
	got, _ := draw(t, l, []Request{first})
	next := first
	next.Prompt, next.Params.MaxTokens = slices.Concat(first.Prompt, got[0].Tokens), 9
	want := sampleAll(t, engine(t, p, Options{MaxLength: 160, NoDrafts: true}), []Request{next})
	again, cached := draw(t, l, []Request{next})
	require.Equal(t, want, again)
	require.Equal(t, []int{92 / p.CacheBlock() * p.CacheBlock()}, cached, "all that was computed, in full blocks")
}

// The cached tokens of a prompt are those computed by other requests, and not its own from before it was preempted.
func TestWhatARequestComputedItselfWasNotFound(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 128})
	q.ask("", "", 80, 1, 6)
	q.steps(2)
	g := q.l.s.groups[0]
	q.l.s.preempt(g.pending[0])
	q.l.s.dropPrefix(g)
	q.steps(1)
	require.Equal(t, 1, g.running)
	require.NotEmpty(t, g.prefix)
	require.Zero(t, g.cached)
	q.finish()
}

// The least recently used block is evicted first, and never one that is in use.
func TestTheOldestBlocksGiveWay(t *testing.T) {
	pool := newBlockPool(5)
	tree := newTree(2, pool)
	keep := func(tokens ...int32) {
		var table []int32
		for range len(tokens) / 2 {
			table = append(table, pool.take())
		}
		tree.insert(nil, tokens, table)
		pool.release(table)
	}
	keep(1, 2, 3, 4)
	keep(5, 6)
	keep(7, 8)
	used := tree.find(nil, []int32{1, 2, 9}, 1)
	require.Equal(t, []int32{0}, used)
	require.Equal(t, 3, pool.evictable)
	for _, c := range []struct {
		left [][]int32
		gone []int32
	}{
		{[][]int32{{1, 2}, {5, 6}, {7, 8}}, []int32{1, 2, 3, 4}},
		{[][]int32{{1, 2}, {7, 8}}, []int32{5, 6}},
		{[][]int32{{1, 2}}, []int32{7, 8}},
	} {
		require.True(t, tree.evict())
		for _, tokens := range c.left {
			table := tree.find(nil, tokens, 1)
			require.Len(t, table, 1, "%v", tokens)
			pool.release(table)
		}
		table := tree.find(nil, c.gone, len(c.gone)/2)
		require.Less(t, len(table), len(c.gone)/2)
		pool.release(table)
	}
	require.False(t, tree.evict(), "the block is in use")
	require.Empty(t, tree.find(new(model.Served), []int32{1, 2}, 1), "another adapter computes other keys and values")
	pool.release(used)
	tree.forget(nil)
	require.Len(t, pool.free, 5)
	require.Zero(t, pool.evictable)
}

// secondAdapter is another adapter than the golden one, of another rank.
func secondAdapter(t testing.TB, p *model.Policy) *lora.Adapter {
	layout, err := lora.NewLayout(lora.Config{Rank: 3, Alpha: 40, Targets: []lora.Target{lora.Q, lora.V, lora.Down}}, p.LoRADims())
	require.NoError(t, err)
	a := lora.New(layout)
	a.Init(3)
	rng := rand.New(rand.NewPCG(8, 9))
	for i := range a.Values {
		a.Values[i] += (rng.Float32() - 0.5) / 4
	}
	return a
}

// Requests with adapters, with common prefixes, draw what a policy with the adapter draws; withdrawing an adapter waits for its requests,
// evicts its blocks, and later requests are refused.
func TestRequestsSpeakWithTheirAdapters(t *testing.T) {
	b := backend(t)
	p := open(t, b, "qwen3-tied", "")
	golden, err := lora.Load(golden("qwen3-tied", "adapter"), p.LoRADims())
	require.NoError(t, err)
	adapters := []*lora.Adapter{nil, golden, secondAdapter(t, p)}
	asked := turns(rand.New(rand.NewPCG(3, 4)), p.Vocab, 2, 2)
	want := make([][]Rollout, len(adapters))
	for i, a := range adapters {
		own := open(t, b, "qwen3-tied", "")
		if a != nil {
			require.NoError(t, own.Attach(a))
		}
		want[i] = sampleAll(t, engine(t, own, Options{MaxLength: 160, NoDrafts: true}), asked)
	}
	require.NotEqual(t, want[1], want[2])
	l := live(t, p, Options{MaxLength: 160, Adapters: 2})
	served := make([]*model.Served, len(adapters))
	for i, a := range adapters[1:] {
		served[i+1], err = l.Serve(a)
		require.NoError(t, err)
	}
	for range 2 { // the second time all is found in the cache
		for k, r := range asked {
			var listeners []*heard
			for _, a := range served {
				r.Adapter = a
				h, on := listen(r)
				_, err := l.Submit(r, on)
				require.NoError(t, err)
				listeners = append(listeners, h)
			}
			for i, h := range listeners {
				for _, got := range h.wait(t, r) {
					got.Request, got.Cached = k, 0
					require.Contains(t, want[i], got, "adapter %d", i)
				}
			}
		}
	}
	r := asked[0]
	r.Adapter = served[1]
	h, on := listen(r)
	_, err = l.Submit(r, on)
	require.NoError(t, err)
	l.Withdraw(served[1])
	require.Len(t, h.done, r.N, "a withdrawn adapter is removed when its requests are done")
	_, err = l.Submit(r, on)
	require.ErrorIs(t, err, ErrWithdrawn)
	l.Withdraw(served[1])
	require.NotContains(t, l.s.tree.roots, served[1])
	_, err = l.Serve(golden)
	require.NoError(t, err, "the slot of a withdrawn adapter is free")
}

// Withdrawing an adapter while other requests arrive and leave: freed memory is counted once, as make race checks.
func TestAnAdapterIsWithdrawnWhileOthersLeave(t *testing.T) {
	b := backend(t)
	p := open(t, b, "qwen3-tied", "")
	a := secondAdapter(t, p)
	l := live(t, p, Options{MaxLength: 128, MaxSequences: 4, Adapters: 1})
	prompt := make([]int32, 2*l.s.Block)
	for range 8 {
		served, err := l.Serve(a)
		require.NoError(t, err)
		r := Request{Prompt: prompt, N: 1, Adapter: served, Params: Params{MaxTokens: 2}}
		h, on := listen(r)
		_, err = l.Submit(r, on)
		require.NoError(t, err)
		h.wait(t, r)
		r.Adapter, r.N = nil, 3
		h, on = listen(r)
		ticket, err := l.Submit(r, on)
		require.NoError(t, err)
		ticket.Cancel()
		l.Withdraw(served)
		for range r.N {
			<-h.done
		}
	}
}
