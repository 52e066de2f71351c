package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// queue is a Live that is not running, with what is drawn for its requests.
type queue struct {
	t         *testing.T
	l         *Live
	rng       *rand.Rand
	iteration int
	asked     []Request
	first     []int // the iteration of each request's first token; -1: none yet
	ended     []int // sequences of each
	drawn     [][]Rollout
	heard     func() // called for each token; nil: nothing
}

func newQueue(t *testing.T, o Options) *queue {
	p := open(t, backend(t), "qwen3-tied", "")
	if o.CacheBytes > 0 { // counted in blocks
		o.CacheBytes *= int64(p.BlockBytes())
	}
	l, err := NewLive(p, o)
	require.NoError(t, err)
	return &queue{t: t, l: l, rng: rand.New(rand.NewPCG(7, 8))}
}

// ask submits n completions of the given number of tokens, and returns the request's number.
func (q *queue) ask(from, job string, prompt, n, tokens int) int {
	i := len(q.asked)
	r := Request{Prompt: randomTokens(q.rng, q.l.s.cfg.Vocab, prompt), N: n, Key: Key{Problem: i}, From: from, Job: job,
		Params: Params{Temperature: 1, MaxTokens: tokens}}
	q.asked, q.first, q.ended, q.drawn = append(q.asked, r), append(q.first, -1), append(q.ended, 0), append(q.drawn, make([]Rollout, n))
	_, err := q.l.Submit(r, Listener{
		Token: func(Token) {
			if q.heard != nil {
				q.heard()
			}
			if q.first[i] < 0 {
				q.first[i] = q.iteration
			}
		},
		Done: func(got Rollout) {
			q.ended[i]++
			got.Cached = 0
			q.drawn[i][got.Sample] = got
		}})
	require.NoError(q.t, err)
	return i
}

func (q *queue) steps(n int) {
	for range n {
		require.True(q.t, step(q.t, q.l))
		q.iteration++
	}
}

// finish makes all remaining iterations, and compares the results with those of each request alone.
func (q *queue) finish() {
	for step(q.t, q.l) {
		q.iteration++
	}
	require.Equal(q.t, q.l.s.Blocks, q.l.s.FreeBlocks())
	alone := engine(q.t, open(q.t, backend(q.t), "qwen3-tied", ""), Options{MaxLength: q.l.s.MaxLength})
	for i, r := range q.asked {
		require.Equal(q.t, sampleAll(q.t, alone, []Request{r}), q.drawn[i], "request %d", i)
	}
}

// A large request gets all slots; one that arrives meanwhile gets a slot at the next iteration, for which only one sequence is preempted.
func TestABigRequestGivesAPlaceToASmallOne(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 128, MaxSequences: 8})
	big := q.ask("", "", 40, 24, 60)
	q.steps(20)
	require.Equal(t, 8, q.l.s.running)
	small := q.ask("", "", 5, 1, 10)
	q.steps(1)
	require.Equal(t, 20, q.first[small])
	require.Equal(t, 1, q.l.s.Preempted)
	require.Equal(t, 7, q.l.s.groups[big].running)
	second := q.ask("", "", 5, 16, 10)
	q.steps(10)
	require.Equal(t, 21, q.first[second])
	require.Equal(t, 1, q.ended[small])
	q.finish()
	require.Less(t, q.l.s.Preempted, 10, "other slots are taken when they become free")
}

// Two requests that arrive together have half of the slots each, and a long prompt keeps only one from others.
func TestPlacesAreShared(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 512, MaxSequences: 8, TokenBudget: 40})
	q.ask("", "", 5, 24, 12)
	q.ask("", "", 6, 24, 12)
	q.steps(1)
	require.Equal(t, []int{4, 4}, []int{q.l.s.groups[0].running, q.l.s.groups[1].running})
	long := q.ask("", "", 400, 4, 12)
	q.steps(1)
	require.Equal(t, 7, q.l.s.running)
	q.steps(3)
	require.Equal(t, 7, q.l.s.running)
	require.Negative(t, q.first[long])
	q.finish()
}

// With more requests than slots, each that ends a sequence goes to the end of the queue.
func TestMoreRequestsThanPlaces(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 128, MaxSequences: 3})
	for i := range 4 {
		q.ask("", "", 5+i, 20, 9+i)
	}
	q.steps(2)
	ended := func() (n int) {
		for _, e := range q.ended {
			n += e
		}
		return n
	}
	before := ended()
	last := q.ask("", "", 5, 20, 9) // behind the fourth
	for q.first[last] < 0 {
		q.steps(1)
		require.LessOrEqual(t, ended()-before, 3, "sequences that end free their slots for the next ones")
	}
	require.Zero(t, q.l.s.Preempted, "no sequence is preempted: each has a slot")
	q.finish()
}

// A client with many requests leaves half of the slots to another one.
func TestThoseWhoAskTakeTurns(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 128, MaxSequences: 6})
	for range 12 {
		q.ask("ada", "", 5, 1, 40)
	}
	q.steps(4)
	require.Equal(t, 6, q.l.s.running)
	for range 5 {
		q.ask("bob", "", 6, 1, 40)
	}
	q.steps(1)
	running := map[string]int{}
	for _, g := range q.l.s.groups {
		running[g.request.From] += g.running
	}
	require.Equal(t, map[string]int{"ada": 3, "bob": 3}, running)
	q.steps(10)
	require.Equal(t, 3, q.l.s.Preempted)
	q.finish()
}

// Many requests of one job are scheduled like one with many completions.
func TestRequestsOfAJobTakeTurnsAsOne(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 128, MaxSequences: 6})
	for range 12 {
		q.ask("", "list", 5, 1, 40)
	}
	q.steps(4)
	for range 2 {
		i := q.ask("", "", 6, 1, 40)
		q.steps(1)
		require.Equal(t, q.iteration-1, q.first[i])
	}
	require.Equal(t, 2, q.l.s.Preempted)
	i := q.ask("bob", "list", 6, 1, 40) // another client's job may have the same name
	q.steps(1)
	require.Equal(t, q.iteration-1, q.first[i])
	q.finish()
}

// If blocks are short, one sequence is preempted per iteration, however many wait.
func TestOneAtATimeGivesItsBlocksUp(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 64, MaxSequences: 8})
	q.ask("", "", 5, 4, 20)
	q.steps(3)
	q.ask("", "", 5, 1, 4)
	q.ask("", "", 5, 1, 4)
	q.l.receive()
	q.l.s.lackedBlocks = true
	q.l.s.takeTurns()
	require.Equal(t, 1, q.l.s.Preempted)
	q.finish()
}

// An ended sequence is in no queue, and one that waits for a reply is behind all others, and before none of the same job.
func TestThoseWhoAreAwayAreNotInLine(t *testing.T) {
	s := &scheduler{Engine: &Engine{Plan: Plan{Options: Options{MaxSequences: 8}}}, tree: new(tree)}
	s.add(newGroup(0, Request{N: 4}, Listener{}))
	s.add(newGroup(1, Request{N: 1}, Listener{}))
	a, b := slices.Clone(s.groups[0].pending), s.groups[1].pending
	a[0].state, a[0].job.served, s.anyFinished = finished, true, true
	a[1].state = parked
	s.forget()
	s.takeTurns()
	require.Len(t, s.sequences, 4)
	for i, q := range []*sequence{b[0], a[2], a[3], a[1]} {
		require.Same(t, q, s.sequences[i])
	}
	require.Equal(t, []int{0, 1}, []int{a[2].rank, a[3].rank})
}

// With hardly any memory, a new request gets blocks of the sequence that has most, also for a prompt of many blocks.
func TestBlocksAreGivenUpForThoseWithout(t *testing.T) {
	q := newQueue(t, Options{MaxLength: 128, MaxSequences: 8, TokenBudget: 24, CacheBytes: 9})
	q.ask("", "", 40, 24, 80)
	q.steps(30)
	for _, prompt := range []int{3, 90} {
		i := q.ask("", "", prompt, 2, 30)
		for n := 0; q.first[i] < 0; n++ {
			require.Less(t, n, 16)
			q.steps(1)
		}
	}
	q.finish()
	require.Positive(t, q.l.s.Preempted)
}
