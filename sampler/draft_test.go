package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Drafts change neither tokens nor bits, with any options, and save iterations.
func TestDraftsChangeNothing(t *testing.T) {
	inEveryPrecision(t, func(t *testing.T, b kernels.Backend, rounding model.Options) {
		for _, name := range []string{"qwen3-tied", "mistral-yarn"} {
			p := openWith(t, b, name, "adapter", rounding)
			var asked []Request
			for i, temperature := range []float32{0, 0.05, 0.3, 1} {
				r := Request{Prompt: []int32{3, 1, 4, 1, 5, 9, 2, 6, int32(i)}, N: 3, Key: Key{Problem: i}, Raw: i == 1, Top: i % 3,
					Params: Params{Temperature: temperature, MaxTokens: 100, StopTokens: []int32{11}}}
				asked = append(asked, r)
			}
			o := Options{MaxLength: 128, MaxSequences: 12, NoDrafts: true}
			plain := engine(t, p, o)
			want := sampleAll(t, plain, asked)
			require.Zero(t, plain.Drafted)
			o.NoDrafts = false
			e := engine(t, p, o)
			for range 2 { // the second time with drafts from the first
				require.Equal(t, want, sampleAll(t, e, asked))
				t.Logf("%s: %d drafted, %d of them drawn", name, e.Drafted, e.Accepted)
			}
			require.Greater(t, e.Accepted, 500)
			require.Greater(t, e.Drafted, e.Accepted)
			require.Equal(t, 2*plain.Computed, e.Computed-e.Drafted+e.Accepted)
		}
	})
}

// A sequence that was drawn before is drawn in a few iterations.
func TestDraftsSaveIterations(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	l, err := NewLive(p, Options{MaxLength: 256})
	require.NoError(t, err)
	l.s.drafts.eager = true
	r := Request{Prompt: []int32{1, 2, 3}, N: 1, Params: Params{Temperature: 1, MaxTokens: 200}}
	draw := func(from string) (iterations int) {
		r.From = from
		_, err := l.Submit(r, Listener{})
		require.NoError(t, err)
		for step(t, l) {
			iterations++
		}
		return iterations
	}
	d := &l.s.drafts
	require.Greater(t, draw("ada"), 150)
	require.Less(t, d.end, uint32(300), "each token once, and some before each piece")
	require.Less(t, draw("ada"), 20)
	require.Greater(t, d.chances[longestGram].rate, 0.9)
	require.Greater(t, draw("bob"), 150, "other clients' texts give no drafts")
}

// If the whole cache is remembered, drafts replace the blocks used longest ago.
func TestDraftsTakeWhatIsOnlyRemembered(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	l, err := NewLive(p, Options{MaxLength: 256, MaxSequences: 2})
	require.NoError(t, err)
	l.s.drafts.eager = true
	draw := func(first, most int32) (iterations int) {
		_, err := l.Submit(Request{Prompt: []int32{first, 2, 3}, N: 1, Params: Params{Temperature: 1, MaxTokens: int(most)}}, Listener{})
		require.NoError(t, err)
		for step(t, l) {
			iterations++
		}
		return iterations
	}
	draw(1, 200)
	again := draw(1, 200)
	for i := range int32(8) {
		draw(2+i, 100)
	}
	require.Less(t, len(l.s.blocks.free), 3)
	require.Equal(t, again, draw(1, 200))
}

// A match in the corpus did follow those tokens, and the latest text is found.
func TestACorpusFindsWhatWasSaid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := newCorpus(1 << 14)
	said := map[uint64][][]int32{}
	missed := 0 // hash collisions
	for range 400 {
		salt, text := rng.Uint64N(2), randomTokens(rng, 6, 1+rng.IntN(40))
		before := rng.IntN(len(text))
		c.add(salt, text[:before], 0)
		c.add(salt, text, before)
		said[salt] = append(said[salt], text)
		if len(text) > longestGram {
			at := longestGram + rng.IntN(len(text)-longestGram)
			next, matches := c.follow(salt, slices.Clone(text[at-longestGram:at]), nil, 1)
			require.Equal(t, text[at-longestGram:at+1], next)
			require.Equal(t, []uint8{longestGram}, matches)
		}
		asked := randomTokens(rng, 6, 2+rng.IntN(9))
		next, matches := c.follow(salt, slices.Clone(asked), nil, 12)
		require.Equal(t, asked, next[:len(asked)])
		for i, n := range matches {
			end := len(asked) + i + 1
			require.True(t, slices.ContainsFunc(said[salt], func(text []int32) bool { return contains(text, next[end-1-int(n):end]) }))
		}
		if len(said[salt]) > 100 && len(matches) == 0 {
			missed++
		}
	}
	require.Less(t, missed, 20, "at least two of six tokens must match")
}

func contains(text, part []int32) bool {
	for i := range len(text) - len(part) + 1 {
		if slices.Equal(text[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// The ring of the corpus wraps around: old text is not found, nor text that was never added.
func TestACorpusForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	c := newCorpus(maxCorpus)
	first := randomTokens(rng, 1<<30, 20)
	c.add(0, first, 0)
	next, matches := c.follow(0, first[:2:2], nil, 16)
	require.Equal(t, first[:18], next)
	require.Equal(t, []uint8{2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}, matches)
	last, tried, found := first, 0, 0
	for said := 0; said < 2*c.size; said += len(last) {
		last = randomTokens(rng, 1<<30, 1+rng.IntN(3000))
		c.add(0, last, 0)
		for i := longestGram; i < len(last); i += 97 {
			next, _ := c.follow(0, last[i-2:i:i], nil, 5)
			if tried++; len(next) > 2 { // others may have the same hash
				require.Equal(t, last[i-2:min(i+5, len(last))], next)
				found++
			}
		}
	}
	require.Greater(t, found, tried*95/100)
	next, _ = c.follow(0, first[:9:9], nil, 16)
	require.Len(t, next, 9)
	c.add(0, randomTokens(rng, 1<<30, 3*c.size), 7) // longer than the ring
	require.Equal(t, int32(separator), c.at(c.end-1))
}

// Texts of other clients are never found: also if theirs overwrote one's own in the ring, or has the same hash.
func TestACorpusTellsNobodyOfOthers(t *testing.T) {
	c := newCorpus(1 << 14)
	text := []int32{1, 2, 3}
	c.add(1, text, 0)
	first := c.end
	c.add(2, slices.Repeat([]int32{4}, c.size/2), 0)
	c.add(2, slices.Repeat([]int32{4}, c.size/2-2-len(text)-1), 0)
	_, n := c.find(1, text[:2])
	require.Equal(t, 2, n)
	c.add(2, text, 0)
	require.Equal(t, first+uint32(c.size), c.end)
	_, n = c.find(1, text[:2])
	require.Zero(t, n)

	other := uint64(3)
	for c.slot(other, text[:2]) != c.slot(2, text[:2]) {
		other++
	}
	_, n = c.find(2, text[:2])
	require.Equal(t, 2, n)
	_, n = c.find(other, text[:2])
	require.Zero(t, n)
}

// There are no drafts while a preempted sequence is recomputed: they could take its rows and blocks.
func TestNothingIsDraftedWhileOthersAreComputedAgain(t *testing.T) {
	e := engine(t, open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 128, MaxSequences: 2, TokenBudget: 20})
	r := Request{Prompt: []int32{1, 2, 3}, N: 2, Params: Params{MaxTokens: 120}}
	sampleAll(t, e, []Request{r}) // so that it is in the corpus
	s := &scheduler{Engine: e, replies: newReplies()}
	defer s.close()
	s.add(newGroup(0, r, Listener{}))
	q := s.sequences[1]
	for len(q.tokens) < 60 {
		require.NoError(t, s.iterate())
	}
	s.preempt(q)
	drafted, length := e.Drafted, q.length()
	for again := length; again > 0; again -= 19 { // in an iteration, beside a row of the other
		require.NoError(t, s.iterate())
		require.Equal(t, drafted, e.Drafted)
	}
	require.Equal(t, length+1, q.length())
	require.Equal(t, length-1, e.Recomputed)
	require.NoError(t, s.iterate())
	require.Greater(t, e.Drafted, drafted)
}

// Drafts use only rows, draws and blocks that are left over, and none after the end of a turn.
func TestDraftsTakeWhatOthersLeave(t *testing.T) {
	e := engine(t, open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 128, MaxSequences: 2, TokenBudget: 40})
	s := &scheduler{Engine: e, replies: newReplies()}
	defer s.close()
	s.add(newGroup(0, Request{Prompt: []int32{1, 2, 3}, N: 1, Params: Params{MaxTokens: 60}}, Listener{}))
	q := s.sequences[0]
	for len(q.tokens) < 26 {
		require.NoError(t, s.iterate())
	}
	e.Learn(append(slices.Clone(q.all()), slices.Repeat([]int32{5}, 40)...))
	q.computed, e.drafts.active = q.length(), true
	for _, c := range []struct {
		name                                          string
		rows, behind, draws, free, limit, want, table int
		growing                                       bool
	}{
		{"as many as may be", 40, 0, 40, 8, 60, 16, 2, false},
		{"rows", 9, 0, 40, 8, 60, 9, 2, false},
		{"rows of those behind", 9, 4, 40, 8, 60, 5, 2, false},
		{"draws", 40, 0, 7, 8, 60, 7, 2, false},
		{"blocks", 40, 0, 40, 0, 60, 3, 1, false},
		{"blocks of those behind", 40, 2, 40, 2, 60, 3, 1, false},
		{"a block besides", 40, 2, 40, 3, 60, 16, 2, false},
		{"blocks of those who begin", 40, 0, 40, 8, 60, 3, 1, true},
		{"the end", 40, 0, 40, 8, 31, 4, 2, false},
		{"the last token", 40, 0, 40, 8, 27, 0, 1, false},
	} {
		s.rows.Reset()
		s.drawn, s.maxRows, s.unserved, q.limit, e.drafts.blocksWanted = nil, c.rows, c.behind, c.limit, c.growing
		s.rows.Draws = make([]model.Draw, s.decoder.Rows-c.draws)
		free := s.blocks.free
		s.blocks.free = free[len(free)-c.free:]
		s.draft(q)
		require.Len(t, q.drafted, c.want, c.name)
		require.Len(t, s.rows.Tokens, c.want, c.name)
		require.Len(t, s.drawn, c.want, c.name)
		require.Len(t, q.table, c.table, c.name)
		s.verify(q, -1)
		require.Len(t, q.table, 1, c.name)
		s.blocks.free = free
	}
}

// The time per draw, which limits prompt rows, is measured without drafts, since there are none beside prompts; the time per row is
// measured without prompts.
func TestDraftsAreNotTakenForDrawing(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 128, TokenBudget: 24, Pace: time.Second})
	s := q.l.s
	s.drafts.eager = true
	q.ask("", "", 3, 1, 120)
	alone := engine(t, open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 128})
	s.drafts.add(saltOf(""), slices.Concat(q.asked[0].Prompt, sampleAll(t, alone, q.asked)[0].Tokens), 0)
	q.steps(3)
	drafted, seen := s.Drafted, s.drafts.costs.seen
	require.Equal(t, 2*mostDrafted, drafted)
	long := q.ask("", "", 100, 1, 2)
	for q.first[long] < 0 {
		q.steps(1)
		require.Equal(t, drafted, s.Drafted)
		require.Equal(t, seen, s.drafts.costs.seen)
	}
	for step(t, q.l) {
		require.LessOrEqual(t, s.pace.draws, 2)
	}
	require.Greater(t, s.Accepted, 50)
}

// machine models the time of an iteration: a fixed part, a part per row, and relative noise.
type machine struct{ fixed, each, noise float64 }

// without is the time without noise, in milliseconds.
func (m machine) without(rows int) float64 { return m.fixed + m.each*float64(rows) }

func (m machine) time(rng *rand.Rand, rows int) time.Duration {
	t := m.without(rows) * (1 + m.noise*(2*rng.Float64()-1))
	if m.noise > 0 && rng.IntN(20) == 0 {
		t *= 5 // another program had the processor
	}
	return time.Duration(t * float64(time.Millisecond))
}

// The cost of a row is learned from iterations, and drafts are made where they pay: the rate is within a tenth of that of the best fixed
// number of drafts.
func TestDraftsAreMadeWhereTheyPay(t *testing.T) {
	for name, c := range map[string]struct {
		machine
		running int
		before  float64 // the initial estimate of a draft's acceptance
		chance  float64
	}{
		"weights are read":       {machine{20, 0.1, 0}, 4, 0.9, 0.9},
		"and others compute too": {machine{20, 0.1, 0.1}, 4, 0.9, 0.9},
		"one alone":              {machine{20, 1, 0.05}, 1, 0.7, 0.7},
		"rows are all":           {machine{0.1, 2, 0.05}, 32, 0.7, 0.7},
		"half and half":          {machine{10, 1, 0.05}, 10, 0.8, 0.8},
		"many":                   {machine{23, 1.35, 0.05}, 16, 0.9, 0.9},
		"nothing fits":           {machine{20, 1, 0.05}, 8, 0.05, 0.05},
		"at first nothing fits":  {machine{10, 1, 0}, 15, 0.05, 0.95},
		"at last nothing fits":   {machine{10, 1, 0}, 15, 0.95, 0.05},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		d := newDrafts(Options{})
		matches := slices.Repeat([]uint8{longestGram}, mostDrafted)
		drafted, tokens, draws, took := 0, 0, 0, 0.0
		for i := range 4000 {
			rows, drawn, chance := c.running, c.running, []float64{c.before, c.chance}[min(i/1000, 1)]
			d.price = caution * d.costs.price()
			for range c.running {
				n := d.worth(matches)
				if d.plain() {
					n = 0
				}
				rows += n
				for _, m := range matches[:n] {
					came := rng.Float64() < chance
					if d.chances[m].saw(came); !came {
						break
					}
					drawn++
				}
			}
			d.costs.saw(rows, drawn, c.time(rng, rows))
			if i >= 1500 {
				drafted, draws, tokens, took = drafted+rows-c.running, draws+c.running, tokens+drawn, took+c.without(rows)
			}
		}
		best, at := 0.0, 0
		for n := range mostDrafted + 1 {
			drawn, chance := 1.0, 1.0
			for range n {
				chance *= c.chance
				drawn += chance
			}
			if rate := drawn * float64(c.running) / c.without(c.running*(1+n)); rate > best {
				best, at = rate, n
			}
		}
		got := float64(tokens) / took
		t.Logf("%s: %.2f drafted a draw, %.3f tokens/ms; the best is %d, %.3f", name, float64(drafted)/float64(draws), got, at, best)
		require.Greater(t, got, 0.9*best, name)
	}
}
