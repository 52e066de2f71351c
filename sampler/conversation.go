package sampler

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A request with a Next is for conversations. When a turn of the model ends, its sequence is parked: it keeps its blocks as long as
// nobody needs them, and others have its place. When the reply is there, what it says is appended, computed behind what is in the
// cache, and the next turn is drawn.

// More is how a conversation goes on.
type More struct {
	Tokens    []int32 // that nobody drew: what tools and users say, and what opens the next turn
	MaxTokens int     // of the next turn; 0: the conversation is over
}

// Turn is what was drawn at a stretch: Tokens[Start:End] of a rollout.
type Turn struct {
	Start, End int
	Finish     FinishReason
}

// check reports what is wrong with a reply to a sequence for an engine of that size.
func (m More) check(q *sequence, vocab, maxLength int) error {
	if m.MaxTokens < 0 || m.MaxTokens == 0 && len(m.Tokens) > 0 {
		return badinput.Errorf("max_tokens of a turn: found %d after %d tokens, expected 1 or more, or neither tokens nor a turn",
			m.MaxTokens, len(m.Tokens))
	}
	if m.MaxTokens > math.MaxInt32 { // with what is there it might be less than 0
		return badinput.Errorf("max_tokens of a turn: found %d, expected at most %d", m.MaxTokens, math.MaxInt32)
	}
	for i, t := range m.Tokens {
		if t < 0 || int(t) >= vocab {
			return badinput.Errorf("reply: token %d at position %d, expected 0 to %d", t, i, vocab-1)
		}
	}
	if n := q.length() + len(m.Tokens) + m.MaxTokens; n > maxLength {
		return badinput.Errorf("%d tokens, a reply of %d and max_tokens %d make %d, more than the %d that a sequence may have here", q.length(),
			len(m.Tokens), m.MaxTokens, n, maxLength)
	}
	return nil
}

// open begins a turn of so many tokens at the most.
func (q *sequence) open(maxTokens int) {
	q.opened, q.limit = len(q.tokens), len(q.tokens)+maxTokens
	if watch := q.request.Params.Watch; watch != nil {
		q.watch = watch()
	}
	if constrain := q.request.Constrain; constrain != nil {
		q.constraint = constrain()
	}
}

// append takes tokens that nobody drew.
func (q *sequence) append(tokens []int32) {
	n := len(tokens)
	q.tokens, q.logprobs = append(q.tokens, tokens...), append(q.logprobs, make([]float32, n)...)
	if q.request.raw() {
		q.raws = append(q.raws, make([]float32, n)...)
	}
	if q.request.Top > 0 {
		q.tops = append(q.tops, make([][]Likely, n)...)
	}
}

// ended notes that a turn is over, where one was begun.
func (q *sequence) ended(why FinishReason) {
	if q.request.Next != nil && q.state != parked && len(q.tokens) > q.opened {
		q.turns = append(q.turns, Turn{Start: q.opened, End: len(q.tokens), Finish: why})
	}
}

// replies come to parked sequences from any goroutine.
type replies struct {
	mu   sync.Mutex
	came []reply
	wake chan struct{} // has something in it after one came
}

type reply struct {
	q    *sequence
	turn int // how many turns there were
	more More
}

func newReplies() *replies { return &replies{wake: make(chan struct{}, 1)} }

func (r *replies) put(a reply) {
	r.mu.Lock()
	r.came = append(r.came, a)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *replies) take() []reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	came := r.came
	r.came = nil
	return came
}

// wait waits until one came, or the context ends.
func (r *replies) wait(ctx context.Context) {
	select {
	case <-r.wake:
	case <-ctx.Done():
	}
}

// park lets a sequence whose turn ended wait for what comes next.
func (s *scheduler) park(q *sequence, why FinishReason) {
	q.ended(why)
	s.leave(q, parked)
	s.parked++
	q.job.served, s.ended = true, true // somebody else has its place
	to, turn := s.replies, len(q.turns)
	q.request.Next(q.rollout(why, nil), func(m More) { to.put(reply{q, turn, m}) })
}

// hear lets sequences go on whose replies came. One that comes too late, or twice, is passed over.
func (s *scheduler) hear() {
	for _, r := range s.replies.take() {
		q := r.q
		if q.state != parked || len(q.turns) != r.turn {
			continue
		}
		if err := r.more.check(q, s.cfg.Vocab, s.MaxLength); err != nil {
			s.finish(q, Failed, err)
		} else if r.more.MaxTokens == 0 {
			s.finish(q, q.turns[len(q.turns)-1].Finish, nil)
		} else {
			q.append(r.more.Tokens)
			q.open(r.more.MaxTokens)
			s.leave(q, waiting)
			s.reorder = true
		}
	}
}

// idle reports whether there is nothing to compute: all sequences wait for replies.
func (s *scheduler) idle() bool { return s.parked == len(s.sequences) }

// rejoin admits a sequence that has kept its blocks: what was appended is computed behind them.
func (s *scheduler) rejoin(q *sequence) bool {
	q.state = running // so that it does not give its own blocks up
	ok := s.makeRoom(s.missing(q, s.chunk(q)), nil)
	q.state = waiting
	if ok {
		s.begin(q, q.table)
		s.advance(q)
	}
	return ok
}

// dropIdle takes the blocks of a sequence that does not run, if there is one that has some: of the last that waits for its reply,
// or else of the last that has it.
func (s *scheduler) dropIdle() bool {
	var victim *sequence
	for _, q := range slices.Backward(s.sequences) {
		switch {
		case q.table == nil || q.state == running:
		case victim == nil || q.state == parked:
			victim = q
		}
		if victim != nil && victim.state == parked {
			break
		}
	}
	if victim == nil {
		return false
	}
	s.remember(victim)
	s.release(victim)
	s.Dropped++
	return true
}

// spare reports whether n blocks are free, or could be at once, after taking some from who does not run if need be.
func (s *scheduler) spare(n int) bool {
	for s.blocks.unused() < n {
		if !s.dropIdle() {
			return false
		}
	}
	return true
}
