package sampler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/model"
)

// neighbours is a constraint: a third of the tokens, depending on the one before.
type neighbours struct{ vocab, last int }

func (n *neighbours) Allow(mask []uint32) {
	clear(mask)
	for v := (n.last + 1) % 3; v < n.vocab; v += 3 {
		mask[v/32] |= 1 << (v % 32)
	}
}

func (n *neighbours) Accept(token int32) { n.last = int(token) }

// askedAtRandom are requests of every kind, some of which repeat others.
func askedAtRandom(rng *rand.Rand, w *environment) []Request {
	asked := make([]Request, 1+rng.IntN(10))
	for i := range asked {
		r := Request{Prompt: randomTokens(rng, []int{2, 5, w.vocab}[rng.IntN(3)], 1+rng.IntN(60)), N: 1 + rng.IntN(4),
			Key: Key{Problem: rng.IntN(3)}, Raw: rng.IntN(4) == 0, Top: max(rng.IntN(7)-3, 0), ScorePrompt: rng.IntN(8) == 0,
			PromptTop: max(rng.IntN(9)-6, 0), Params: Params{Temperature: []float32{0, 0.05, 0.3, 1}[rng.IntN(4)],
				TopK: rng.IntN(2) * 5, TopP: []float32{0, 0.8}[rng.IntN(2)], MinP: []float32{0, 0.05}[rng.IntN(2)],
				MaxTokens: 1 + rng.IntN(60), StopTokens: randomTokens(rng, w.vocab, rng.IntN(3))}}
		if rng.IntN(4) == 0 {
			r.Params.Watch = func() func(int32) bool {
				sum := int32(0)
				return func(token int32) bool { sum += token; return sum%23 == 3 }
			}
		}
		if rng.IntN(5) == 0 {
			r.Constrain = func() Constraint { return &neighbours{vocab: w.vocab} }
		}
		if rng.IntN(3) == 0 {
			r.Next, r.Params.MaxTokens = w.next, 1+rng.IntN(12)
		} else if r.ScorePrompt && len(r.Prompt)%2 == 0 {
			r.Params.MaxTokens = 0
		}
		if i > 0 && rng.IntN(3) == 0 {
			again := asked[rng.IntN(i)]
			r.Prompt, r.Key, r.Params.Temperature = again.Prompt, again.Key, again.Params.Temperature
		}
		asked[i] = r
	}
	return asked
}

// For all requests, at once or one after the other, and with any memory: the maximum of drafts gives the same bytes as none. GRPO_SOAK
// sets the number of rounds.
func TestDraftsChangeNothingWhateverIsAsked(t *testing.T) {
	n := often(t, 8)
	b, policies := backend(t), []*model.Policy(nil)
	for _, name := range append([]string{"qwen3-tied"}, families...) {
		policies = append(policies, open(t, b, name, "adapter"))
	}
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		p := policies[seed%len(policies)]
		w := &environment{vocab: p.Vocab, turns: 1 + rng.IntN(3)}
		asked := askedAtRandom(rng, w)
		o := Options{MaxLength: 280, NoDrafts: true}
		want := sampleAll(t, engine(t, p, o), asked)
		o = Options{MaxLength: 280, MaxSequences: 1 + rng.IntN(20), TokenBudget: 1 + rng.IntN(64)}
		o.CacheBytes = int64(p.BlockBytes() * (280/p.CacheBlock() + 2) * (1 + rng.IntN(3)))
		e := engine(t, p, o)
		o.Pace = time.Duration(rng.IntN(2))
		l, err := NewLive(p, o)
		require.NoError(t, err)
		l.s.drafts.eager = true
		for range 2 { // the second time with drafts from the first
			for _, got := range [][]Rollout{sampleAll(t, e, asked), byAndBy(t, rng, l, asked)} {
				require.Len(t, got, len(want))
				for i := range want { // some numbers are NaN
					require.Equal(t, fmt.Sprint(want[i]), fmt.Sprint(got[i]), "seed %d, %+v", seed, o)
				}
			}
		}
		w.late.Wait()
	}
}

// byAndBy draws requests one after the other, in random order.
func byAndBy(t *testing.T, rng *rand.Rand, l *Live, asked []Request) (all []Rollout) {
	left := 0
	steps := func(n int) {
		for ; n > 0 && left > 0; n-- {
			l.receive()
			switch {
			case len(l.s.sequences) == 0:
				return
			case l.s.idle():
				l.s.replies.wait(t.Context())
				continue
			}
			require.NoError(t, l.iterate())
			for _, q := range l.s.sequences {
				require.LessOrEqual(t, len(q.table), l.s.blocksFor(q.length()), "drafts must not keep blocks")
			}
		}
	}
	for _, i := range rng.Perm(len(asked)) {
		r := asked[i]
		r.From, r.Job = []string{"", "ada"}[rng.IntN(2)], []string{"", "job"}[rng.IntN(2)]
		left += r.N
		_, err := l.Submit(r, Listener{Done: func(got Rollout) {
			got.Request, got.Cached = i, 0
			all, left = append(all, got), left-1
		}})
		require.NoError(t, err)
		steps(rng.IntN(4))
	}
	for left > 0 {
		steps(1)
	}
	l.receive()
	require.Equal(t, l.s.Blocks, l.s.FreeBlocks())
	slices.SortFunc(all, func(a, b Rollout) int { return (a.Request-b.Request)*100 + a.Sample - b.Sample })
	return all
}

// Without drafts no corpus is kept, as planned.
func TestWithoutDraftsNothingIsKept(t *testing.T) {
	e := engine(t, open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 64, NoDrafts: true})
	require.Zero(t, e.DraftBytes())
	e.Learn([]int32{1, 2, 3})
	sampleAll(t, e, []Request{{Prompt: []int32{1, 2}, N: 1, Params: Params{MaxTokens: 40}}})
	require.Nil(t, e.drafts.ring)
}
