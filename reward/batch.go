package reward

import (
	"context"
	"errors"
	"sync"
)

// Batch has completions scored while others are still being written. Each is scored by a goroutine of its own; how many
// programs run at once is the grader's business. An Item is whatever the caller knows a completion by. All calls come
// from one goroutine.
type Batch[Item any] struct {
	grader  Grader
	late    bool // nothing is scored before Close
	items   []Item
	held    []held[Item] // what was added while late
	running sync.WaitGroup

	ctx    context.Context // of the graders; its cause is why there are no more scores
	cancel context.CancelCauseFunc
	scored chan Marked[Item] // has room for all of them
	done   []Marked[Item]
	failed error // what Wait has said of the grader
}

// Marked is an item with its score.
type Marked[Item any] struct {
	Item  Item
	Score Score
}

var errAbandoned = errors.New("nobody asks for the scores any more")

// NewBatch expects up to total completions. The context's values count, its end does not: who wants no more scores
// calls Abandon. With late, nothing is scored before all completions are there.
func NewBatch[Item any](ctx context.Context, grader Grader, total int, late bool) *Batch[Item] {
	b := &Batch[Item]{grader: grader, late: late, scored: make(chan Marked[Item], total)}
	b.ctx, b.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return b
}

// Add hands over a completion.
func (b *Batch[Item]) Add(item Item, c Completion) {
	b.items = append(b.items, item)
	if b.late {
		b.held = append(b.held, held[Item]{item, c})
		return
	}
	b.score(item, c)
}

// held is a completion that is scored later.
type held[Item any] struct {
	item       Item
	completion Completion
}

// Settle hands over an item whose score is known.
func (b *Batch[Item]) Settle(item Item, s Score) {
	b.items = append(b.items, item)
	b.scored <- Marked[Item]{item, s}
}

// Close says that all completions are there.
func (b *Batch[Item]) Close() {
	for _, h := range b.held {
		b.score(h.item, h.completion)
	}
	b.held = nil
}

func (b *Batch[Item]) score(item Item, c Completion) {
	b.running.Go(func() {
		score, err := b.grader.Grade(b.ctx, c)
		c.Peers.Leave(c.Place)
		if err != nil {
			b.cancel(err) // the first one counts
			return
		}
		b.scored <- Marked[Item]{item, score}
	})
}

// Items are those that were added.
func (b *Batch[Item]) Items() []Item { return b.items }

// Missing is how many scores nobody has waited for yet.
func (b *Batch[Item]) Missing() int { return len(b.items) - len(b.done) }

// Broken calls f should the grader fail before the batch is abandoned, until stop is called.
func (b *Batch[Item]) Broken(f func(cause error)) (stop func() bool) {
	return context.AfterFunc(b.ctx, func() { f(context.Cause(b.ctx)) })
}

// Wait gives the scored items once all of them are, in whatever order, and tells of each. Called again after the
// context ended, it goes on; after the grader failed, it fails again.
func (b *Batch[Item]) Wait(ctx context.Context, each func()) ([]Marked[Item], error) {
	for b.Missing() > 0 {
		select {
		case s := <-b.scored:
			b.done = append(b.done, s)
			each()
		case <-b.ctx.Done():
			b.failed = context.Cause(b.ctx)
			return nil, b.failed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b.cancel(nil)
	return b.done, nil
}

// Failed tells whether Wait failed because of the grader. A batch that failed stays so.
func (b *Batch[Item]) Failed() bool { return b.failed != nil }

// Abandon gives up the scores that are missing, and says what went wrong with the grader before, unless Wait has.
func (b *Batch[Item]) Abandon() error {
	b.cancel(errAbandoned)
	b.running.Wait()
	if cause := context.Cause(b.ctx); b.failed == nil && cause != errAbandoned && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
