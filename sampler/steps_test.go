package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/model"
)

// step makes one iteration of a Live that is not running. It reports whether there was work.
func step(t testing.TB, l *Live) bool {
	t.Helper()
	l.receive()
	if len(l.s.sequences) == 0 {
		return false
	}
	require.NoError(t, l.iterate())
	return true
}

// A prompt that takes many iterations delays neither sequences that are drawn, nor short prompts behind it.
func TestALongPromptHoldsNobodyUp(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	l, err := NewLive(p, Options{MaxLength: 512, MaxSequences: 8, TokenBudget: 40})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(5, 6))
	var drawn, at [5]int // tokens, and the iteration of the first
	iteration := 0
	submit := func(i, prompt, tokens int) {
		_, err := l.Submit(Request{Prompt: randomTokens(rng, p.Vocab, prompt), N: 1, Params: Params{MaxTokens: tokens}},
			Listener{Token: func(Token) {
				if drawn[i]++; drawn[i] == 1 {
					at[i] = iteration
				}
			}})
		require.NoError(t, err)
	}
	submit(0, 3, 100)
	require.True(t, step(t, l))
	submit(1, 400, 5)
	for i := 2; i < 5; i++ {
		submit(i, 8, 100)
	}
	for iteration = 1; drawn[1] == 0; iteration++ {
		require.True(t, step(t, l))
		require.Equal(t, iteration+1, drawn[0], "a token in each iteration")
	}
	require.Equal(t, 1, at[2], "of the 39 rows that are left, 19 are for those behind the long prompt")
	require.Equal(t, 1, at[3])
	require.Equal(t, 2, at[4])
	require.LessOrEqual(t, at[1], 13, "once the others are drawn the long prompt has the rest")
}

// crowd is a Live with little memory, to which requests of many kinds are submitted, some of which are cancelled.
type crowd struct {
	t       *testing.T
	rng     *rand.Rand
	l       *Live
	served  []*model.Served
	known   [][]int32 // earlier prompts and completions, to begin with
	asked   []Request
	drawn   [][]Rollout
	found   int // tokens found in the cache
	waiting int
}

// arrive submits a request, which often shares a prefix with an earlier one.
func (c *crowd) arrive() {
	prompt := randomTokens(c.rng, c.l.s.cfg.Vocab, 1+c.rng.IntN(30))
	if n := len(c.known); n > 0 && c.rng.IntN(3) > 0 {
		before := c.known[n-1-c.rng.IntN(min(n, 8))]
		prompt = slices.Concat(before[:c.rng.IntN(len(before)+1)], prompt)
	}
	prompt = prompt[:min(len(prompt), 90)]
	r := Request{Prompt: prompt, N: 1 + c.rng.IntN(3), Key: Key{Seed: c.rng.Uint64()}, Adapter: c.served[c.rng.IntN(len(c.served))],
		From:   []string{"", "ada"}[c.rng.IntN(2)],
		Params: Params{Temperature: c.rng.Float32() * 2, MaxTokens: 1 + c.rng.IntN(37), StopTokens: []int32{int32(c.rng.IntN(99))}}}
	if c.rng.IntN(20) == 0 {
		r.N = 10 // more than there are slots
	}
	i := len(c.asked)
	c.asked, c.drawn, c.known = append(c.asked, r), append(c.drawn, nil), append(c.known, prompt)
	c.waiting += r.N
	left := -1
	if c.rng.IntN(6) == 0 {
		left = c.rng.IntN(20)
	}
	var ticket *Ticket
	ticket, err := c.l.Submit(r, Listener{
		Token: func(Token) {
			if left--; left == 0 {
				ticket.Cancel()
			}
		},
		Done: func(got Rollout) {
			c.waiting--
			c.found += got.Cached
			c.known = append(c.known, slices.Concat(prompt, got.Tokens))
			got.Cached = 0
			c.drawn[i] = append(c.drawn[i], got)
		},
	})
	require.NoError(c.t, err)
	if left == 0 {
		ticket.Cancel() // before anything is drawn
	}
}

// decoding are the sequences that need one row for their next token.
func (c *crowd) decoding() (all []*sequence) {
	for _, q := range c.l.s.sequences {
		if q.state == running && q.length()-q.computed == 1 {
			all = append(all, q)
		}
	}
	return all
}

// Requests that are submitted, cancelled, preempted and resumed, conversations among them, draw what they draw alone; each running
// sequence gets a token in each iteration, and nothing is left allocated. GRPO_SOAK scales their number.
func TestACrowdDrawsWhatEachDrawsAlone(t *testing.T) {
	n := often(t, 150)
	b := backend(t)
	p, own := open(t, b, "qwen3-tied", ""), open(t, b, "qwen3-tied", "")
	adapter := secondAdapter(t, p)
	require.NoError(t, own.Attach(adapter))
	alone, speaking := engine(t, p, Options{MaxLength: 128, NoDrafts: true}), engine(t, own, Options{MaxLength: 128, NoDrafts: true})
	for _, blocks := range []int{14, 60} {
		o := Options{MaxLength: 128, MaxSequences: 6, TokenBudget: 48, Adapters: 1, CacheBytes: int64(p.BlockBytes() * blocks)}
		if blocks == 60 {
			o.Pace = time.Nanosecond // as few prompt rows as possible
		}
		l, err := NewLive(p, o)
		require.NoError(t, err)
		l.s.drafts.eager = true
		served, err := l.Serve(adapter)
		require.NoError(t, err)
		c := &crowd{t: t, rng: rand.New(rand.NewPCG(6, 7)), l: l, served: []*model.Served{nil, served}}
		c.run(n)
		t.Logf("%d blocks: %d preemptions, %d tokens of prompts found", blocks, l.s.Preempted, c.found)
		require.Positive(t, l.s.Preempted)
		require.Positive(t, c.found)
		require.Positive(t, l.s.Accepted)
		require.Greater(t, l.s.Drafted, l.s.Accepted)
		c.compare(map[*model.Served]*Engine{nil: alone, served: speaking})
		l.Withdraw(served)
		l.s.tree.forget(nil)
		require.Len(t, l.s.blocks.free, l.s.Blocks)
	}
}

// run submits n requests at random moments, and ends when all are done.
func (c *crowd) run(n int) {
	s := c.l.s
	for len(c.asked) < n || c.waiting > 0 {
		for len(c.asked) < n && c.waiting < 40 && c.rng.IntN(3) == 0 {
			c.arrive()
		}
		decoding, preempted := c.decoding(), s.Preempted
		before := make([]int, len(decoding))
		for i, q := range decoding {
			before[i] = len(q.tokens)
		}
		step(c.t, c.l)
		for i, q := range decoding {
			if s.Preempted == preempted && q.state == running {
				more, came := q.tokens[before[i]:], 0
				for came < min(len(more), len(q.drafted)) && more[came] == q.drafted[came] {
					came++
				}
				require.Len(c.t, more, 1+came, "a token in each iteration, behind those that were drafted and came")
			}
		}
	}
	require.False(c.t, step(c.t, c.l))
	require.Equal(c.t, s.Blocks, s.FreeBlocks())
}

// compare draws each request alone, and compares.
func (c *crowd) compare(alone map[*model.Served]*Engine) {
	cancelled := 0
	for i, r := range c.asked {
		e := alone[r.Adapter]
		r.Adapter = nil
		want := sampleAll(c.t, e, []Request{r})
		require.Len(c.t, c.drawn[i], r.N)
		for _, got := range c.drawn[i] {
			w := want[got.Sample]
			if got.Finish == Cancelled {
				cancelled++
				n := len(got.Tokens)
				w = Rollout{Sample: got.Sample, Tokens: w.Tokens[:n], LogProbs: w.LogProbs[:n], Finish: Cancelled}
				if n == 0 {
					w.Tokens, w.LogProbs = nil, nil
				}
			}
			require.Equal(c.t, w, got, "request %d", i)
		}
	}
	require.Positive(c.t, cancelled)
}

// Each running sequence has its row in each iteration, even if the budget has fewer rows.
func TestASmallBudgetHoldsNobodyUp(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 64, MaxSequences: 6, TokenBudget: 2})
	q.ask("", "", 1, 6, 20)
	q.steps(10)
	require.Len(t, q.l.s.sequences, 6)
	for _, one := range q.l.s.sequences {
		require.GreaterOrEqual(t, len(one.tokens), 10)
	}
	q.finish()
}

// Samples that begin together wait for each other if scores have taken the draws.
func TestSamplesBeginWhereThereAreDraws(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	asked := []Request{
		{Prompt: []int32{1, 2, 3, 4, 5}, N: 1, ScorePrompt: true, Params: Params{MaxTokens: 5}},
		{Prompt: []int32{6}, N: 6, Params: Params{Temperature: 1, MaxTokens: 5}},
	}
	want := sampleAll(t, engine(t, p, Options{MaxLength: 64}), asked)
	got := sampleAll(t, engine(t, p, Options{MaxLength: 64, MaxSequences: 7, TokenBudget: 8}), asked)
	require.Equal(t, want[1:], got[1:])
	require.Equal(t, want[0].Prompt[1:], got[0].Prompt[1:])
}

// Scores, and samples that begin together, need more draws than rows. Preempted sequences wait if the decoder has no more.
func TestNoIterationHasMoreDrawsThanTheDecoder(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 128, MaxSequences: 7, TokenBudget: 8})
	q.ask("", "", 30, 2, 9)
	q.steps(1)
	s := q.l.s
	for len(s.sequences[1].tokens) < 4 { // then a block is full
		q.steps(1)
	}
	q.ask("", "", 1, 3, 5)
	scored := Request{Prompt: randomTokens(q.rng, s.cfg.Vocab, 30), N: 1, ScorePrompt: true, Params: Params{MaxTokens: 5}}
	_, err := q.l.Submit(scored, Listener{})
	require.NoError(t, err)
	s.preempt(s.sequences[1])
	q.steps(1)
	require.Len(t, s.rows.Draws, s.decoder.Rows)
	q.finish()
}
