package sandbox

import (
	"context"
	"sync"
)

// queue hands out slots. Groups take turns, so one with many waiting runs gets no more slots than one with
// few; the runs of a group are served in the order in which they came.
type queue struct {
	slots   int
	mu      sync.Mutex
	free    []*slot
	waiting map[string][]*ticket
	turns   []string // the groups with waiting runs, in the order of their turns
}

// ticket is a waiting run; its slot is sent on the channel.
type ticket struct{ turn chan *slot }

// newQueue makes a queue of slots that are numbered from first on.
func newQueue(first, slots int) *queue {
	q := &queue{slots: slots, waiting: map[string][]*ticket{}}
	for i := range slots {
		q.free = append(q.free, &slot{number: first + i})
	}
	return q
}

// acquire waits for a slot.
func (q *queue) acquire(ctx context.Context, group string) (*slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	if n := len(q.free); n > 0 {
		s := q.free[n-1]
		q.free = q.free[:n-1]
		q.mu.Unlock()
		return s, nil
	}
	t := &ticket{turn: make(chan *slot, 1)}
	if len(q.waiting[group]) == 0 {
		q.turns = append(q.turns, group)
	}
	q.waiting[group] = append(q.waiting[group], t)
	q.mu.Unlock()
	select {
	case s := <-t.turn:
		return s, nil
	case <-ctx.Done():
		q.leave(group, t)
		return nil, ctx.Err()
	}
}

// release gives a slot to the next waiting run, if there is one.
func (q *queue) release(s *slot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		q.free = append(q.free, s)
		return
	}
	group := q.turns[0]
	q.turns = q.turns[1:]
	t := q.waiting[group][0]
	if q.waiting[group] = q.waiting[group][1:]; len(q.waiting[group]) > 0 {
		q.turns = append(q.turns, group)
	} else {
		delete(q.waiting, group)
	}
	t.turn <- s
}

// leave withdraws a ticket. If release has just served it, leave releases the slot.
func (q *queue) leave(group string, t *ticket) {
	q.mu.Lock()
	line := q.waiting[group]
	for i := range line {
		if line[i] != t {
			continue
		}
		if q.waiting[group] = append(line[:i:i], line[i+1:]...); len(q.waiting[group]) == 0 {
			delete(q.waiting, group)
			for j := range q.turns {
				if q.turns[j] == group {
					q.turns = append(q.turns[:j:j], q.turns[j+1:]...)
					break
				}
			}
		}
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	q.release(<-t.turn)
}
