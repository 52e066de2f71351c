package reward

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/precondition"
)

// Batch scores completions while others are still being sampled. Each is scored in a goroutine of its own; the grader
// bounds how many programs run at once. Item is whatever the caller identifies a completion by. All methods must be
// called from one goroutine.
type Batch[Item any] struct {
	grader  Grader
	late    bool // score nothing before Close
	items   []Item
	held    []heldCompletion[Item] // completions to score at Close, with late
	running sync.WaitGroup

	ctx    context.Context // of the graders; its cause is the first failure, or that the batch was abandoned
	cancel context.CancelCauseFunc
	scored chan Marked[Item] // with capacity for all items
	done   []Marked[Item]
	failed error // the failure of the grader that Wait has returned
}

// Marked is an item with its score.
type Marked[Item any] struct {
	Item  Item
	Score Score
}

var errAbandoned = errors.New("scoring was abandoned")

// NewBatch makes a batch of up to total completions. It uses the values of ctx but not its end, since a batch may outlive
// the step that sampled it: to stop scoring, call Abandon. With late, scoring begins at Close.
func NewBatch[Item any](ctx context.Context, grader Grader, total int, late bool) *Batch[Item] {
	precondition.NotNil("reward.NewBatch", "ctx", ctx, "g", grader)
	precondition.InRange("reward.NewBatch", "total", total, 0, math.MaxInt32)
	b := &Batch[Item]{grader: grader, late: late, scored: make(chan Marked[Item], total)}
	b.ctx, b.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return b
}

// Add adds a completion to score. It panics if the batch is full.
func (b *Batch[Item]) Add(item Item, c Completion) {
	b.enter(item)
	if b.late {
		b.held = append(b.held, heldCompletion[Item]{item, c})
		return
	}
	b.score(item, c)
}

// heldCompletion is a completion that waits for Close.
type heldCompletion[Item any] struct {
	item       Item
	completion Completion
}

// enter adds an item. One more than the total would wait forever to hand over its score.
func (b *Batch[Item]) enter(item Item) {
	precondition.InRange("reward.Batch", "the number of items", len(b.items)+1, 0, cap(b.scored))
	b.items = append(b.items, item)
}

// Settle adds an item whose score is known. It panics if the batch is full.
func (b *Batch[Item]) Settle(item Item, s Score) {
	b.enter(item)
	b.scored <- Marked[Item]{item, s}
}

// Close says that no more completions will be added.
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
			b.cancel(err) // only the first has an effect
			return
		}
		b.scored <- Marked[Item]{item, score}
	})
}

// Items are the items that were added, in order.
func (b *Batch[Item]) Items() []Item { return b.items }

// Missing is the number of items whose scores Wait has not received yet.
func (b *Batch[Item]) Missing() int { return len(b.items) - len(b.done) }

// Broken arranges to call f if the grader fails, unless stop is called first.
func (b *Batch[Item]) Broken(f func(cause error)) (stop func() bool) {
	return context.AfterFunc(b.ctx, func() { f(context.Cause(b.ctx)) })
}

// Wait waits for all scores and returns the items with them, in any order; it calls each after every score. After the end
// of ctx it can be called again, and continues; after a failure of the grader it fails again.
func (b *Batch[Item]) Wait(ctx context.Context, each func()) ([]Marked[Item], error) {
	precondition.NotNil("reward.Batch.Wait", "ctx", ctx, "each", each)
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

// Failed reports whether Wait has returned a failure of the grader.
func (b *Batch[Item]) Failed() bool { return b.failed != nil }

// Abandon stops scoring. It returns a failure of the grader that came before, unless Wait has returned that.
func (b *Batch[Item]) Abandon() error {
	b.cancel(errAbandoned)
	b.running.Wait()
	if cause := context.Cause(b.ctx); b.failed == nil && cause != errAbandoned && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
