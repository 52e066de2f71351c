package sampler

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A Request with Next is a conversation. When a turn of the model ends, its sequence is parked: others run in its place, and it keeps
// its blocks until others need them. When the reply comes, its tokens are appended and prefilled, and the next turn is sampled.

// More is a reply, and says how the conversation continues.
type More struct {
	Tokens    []int32 // not sampled: what tools and users say, and the tokens that open the next turn
	MaxTokens int     // of the next turn; 0: the conversation is over
}

// Turn is a turn of the model: it sampled Tokens[Start:End] of the rollout.
type Turn struct {
	Start, End int
	Finish     FinishReason
}

// check validates a reply to a sequence, for an engine whose sequences have at most maxLength tokens.
func (m More) check(q *sequence, vocab, maxLength int) error {
	if m.MaxTokens < 0 || m.MaxTokens == 0 && len(m.Tokens) > 0 {
		return badinput.Errorf("max_tokens of a turn: found %d with a reply of %d tokens, expected 1 or more, or 0 without a reply",
			m.MaxTokens, len(m.Tokens))
	}
	if m.MaxTokens > math.MaxInt32 { // the sum with the length could overflow
		return badinput.Errorf("max_tokens of a turn: found %d, expected at most %d", m.MaxTokens, math.MaxInt32)
	}
	for i, t := range m.Tokens {
		if t < 0 || int(t) >= vocab {
			return badinput.Errorf("reply: token %d at position %d, expected 0 to %d", t, i, vocab-1)
		}
	}
	if n := q.length() + len(m.Tokens) + m.MaxTokens; n > maxLength {
		return badinput.Errorf("%d tokens, a reply of %d and max_tokens %d make %d, more than the maximum length of %d", q.length(),
			len(m.Tokens), m.MaxTokens, n, maxLength)
	}
	return nil
}

// open starts a turn of at most maxTokens.
func (q *sequence) open(maxTokens int) {
	q.turnStart, q.limit = len(q.tokens), len(q.tokens)+maxTokens
	if watch := q.request.Params.Watch; watch != nil {
		q.watch = watch()
	}
	if constrain := q.request.Constrain; constrain != nil {
		q.constraint = constrain()
	}
}

// append adds the tokens of a reply. They were not drawn: their log-probabilities are recorded as 0.
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

// ended records the current turn, unless nothing was drawn in it.
func (q *sequence) ended(why FinishReason) {
	if q.request.Next != nil && q.state != parked && len(q.tokens) > q.turnStart {
		q.turns = append(q.turns, Turn{Start: q.turnStart, End: len(q.tokens), Finish: why})
	}
}

// replies is the mailbox of parked sequences. Any goroutine may put a reply into it.
type replies struct {
	mu   sync.Mutex
	came []reply
	wake chan struct{} // of capacity 1; put sends to it
}

type reply struct {
	q    *sequence
	turn int // number of turns when the reply was asked for, to detect late ones
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

// wait waits for a reply, or for the end of the context.
func (r *replies) wait(ctx context.Context) {
	select {
	case <-r.wake:
	case <-ctx.Done():
	}
}

// park ends the turn of a sequence, and asks Next for the reply.
func (s *scheduler) park(q *sequence, why FinishReason) {
	q.ended(why)
	s.leave(q, parked)
	s.parked++
	q.job.served, s.anyFinished = true, true // its job goes to the end of the line
	to, turn := s.replies, len(q.turns)
	q.request.Next(q.rollout(why, nil), func(m More) { to.put(reply{q, turn, m}) })
}

// takeReplies resumes the sequences whose replies have come. A reply that is late, or the second one, is ignored.
func (s *scheduler) takeReplies() {
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

// idle reports whether there is nothing to compute, as all sequences are parked.
func (s *scheduler) idle() bool { return s.parked == len(s.sequences) }

// rejoin admits a sequence that kept its blocks while it was parked: only the reply is prefilled.
func (s *scheduler) rejoin(q *sequence) bool {
	q.state = running // keeps makeRoom from dropping its own blocks
	ok := s.makeRoom(s.missing(q, s.chunk(q)), nil)
	q.state = waiting
	if ok {
		s.begin(q, q.table)
		s.advance(q)
	}
	return ok
}

// dropIdle releases the blocks of a sequence that does not run, if there is one that has some: the last parked one, else the last
// one that waits to be resumed after its reply.
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

// spare makes n blocks free or evictable, dropping those of sequences that do not run if necessary, and reports whether it could.
func (s *scheduler) spare(n int) bool {
	for s.blocks.unused() < n {
		if !s.dropIdle() {
			return false
		}
	}
	return true
}
