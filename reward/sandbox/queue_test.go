package sandbox

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestQueueFair: whoever comes with one run waits for one turn of each other group, not for all that
// the others have brought.
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
			synctest.Wait() // they come in this order
		}
		q.release(held)
		synctest.Wait()
		if got, want := strings.Join(order, ""), "abcabaaaa"; got != want {
			t.Errorf("served in the order %s, want %s", got, want)
		}
		if len(q.free) != 1 || len(q.waiting) != 0 || len(q.circle) != 0 {
			t.Errorf("the queue is not as it was: %+v", q)
		}
	})
}

// TestQueueLeave: who gives up takes no slot along, whether it waits or was just served.
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
		if !slices.Equal(q.circle, []string{"a", "c"}) {
			t.Errorf("waiting groups are %v, want a and c", q.circle)
		}
		leave[0]() // in the same moment as its turn comes
		q.release(held)
		synctest.Wait()
		if len(q.free) != 1 || len(q.waiting) != 0 || len(q.circle) != 0 {
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
