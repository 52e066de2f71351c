package sandbox

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestQueueFair: a group with one run waits for one run of each other group, not for all the runs that the
// others have waiting.
func TestQueueFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(0, 1)
		held, err := q.acquire(t.Context(), "holder")
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		for _, group := range strings.Split("aaaaaabbc", "") {
			go func() {
				s, _ := q.acquire(context.Background(), group)
				mu.Lock()
				order = append(order, group)
				mu.Unlock()
				q.release(s)
			}()
			synctest.Wait() // so that they queue in this order
		}
		q.release(held)
		synctest.Wait()
		if got, want := strings.Join(order, ""), "abcabaaaa"; got != want {
			t.Errorf("served in the order %s, want %s", got, want)
		}
		if len(q.free) != 1 || len(q.waiting) != 0 || len(q.turns) != 0 {
			t.Errorf("the queue is not as it was: %+v", q)
		}
	})
}

// TestQueueLeave: a cancelled run loses no slot, whether it was waiting or had just been given one.
func TestQueueLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(0, 1)
		held, _ := q.acquire(t.Context(), "holder")
		var leave []context.CancelFunc
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			leave = append(leave, cancel)
			go func() {
				if s, err := q.acquire(ctx, string(rune('a'+i%3))); err == nil {
					q.release(s)
				}
			}()
			synctest.Wait()
		}
		for _, i := range []int{1, 3, 4} {
			leave[i]()
			synctest.Wait()
		}
		if !slices.Equal(q.turns, []string{"a", "c"}) {
			t.Errorf("waiting groups are %v, want a and c", q.turns)
		}
		leave[0]() // at the same moment as it is given a slot
		q.release(held)
		synctest.Wait()
		if len(q.free) != 1 || len(q.waiting) != 0 || len(q.turns) != 0 {
			t.Errorf("the queue is not as it was: %+v", q)
		}
		for _, cancel := range leave {
			cancel()
		}
		if _, err := q.acquire(canceled(), "x"); err == nil {
			t.Error("got a slot on a context that has ended")
		}
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
