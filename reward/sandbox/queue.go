package sandbox

import (
	"context"
	"sync"
)

// queue hands out the slots. A group that has many runs waiting gets no more turns than one that has
// few: the groups are served in a circle, the runs of a group in the order they came.
type queue struct {
	slots   int
	mu      sync.Mutex
	free    []*slot
	waiting map[string][]*ticket
	circle  []string // the groups with runs waiting, the next one first
}

// ticket is a run that waits; the slot it gets comes through the channel.
type ticket struct{ turn chan *slot }

// newQueue makes a queue for so many slots, numbered from first on.
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
		q.circle = append(q.circle, group)
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

// release gives a slot to the next run, or puts it back.
func (q *queue) release(s *slot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.circle) == 0 {
		q.free = append(q.free, s)
		return
	}
	group := q.circle[0]
	q.circle = q.circle[1:]
	t := q.waiting[group][0]
	if q.waiting[group] = q.waiting[group][1:]; len(q.waiting[group]) > 0 {
		q.circle = append(q.circle, group)
	} else {
		delete(q.waiting, group)
	}
	t.turn <- s
}

// leave takes a ticket back, or the slot that it was given in the same moment.
func (q *queue) leave(group string, t *ticket) {
	q.mu.Lock()
	line := q.waiting[group]
	for i := range line {
		if line[i] != t {
			continue
		}
		if q.waiting[group] = append(line[:i:i], line[i+1:]...); len(q.waiting[group]) == 0 {
			delete(q.waiting, group)
			for j := range q.circle {
				if q.circle[j] == group {
					q.circle = append(q.circle[:j:j], q.circle[j+1:]...)
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
