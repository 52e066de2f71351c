package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// expiry knows when checkpoints of a store expire.
type expiry struct {
	mu     sync.Mutex // guards what follows
	due    map[*Run]time.Time
	sooner chan struct{} // has one where something is due before what was
}

// at has a model looked at, unless it is looked at before.
func (x *expiry) at(r *Run, when time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if was, there := x.due[r]; there && was.Before(when) {
		return
	}
	x.due[r] = when
	select {
	case x.sooner <- struct{}{}:
	default:
	}
}

// take takes the models that are due, and says how long nothing else is.
func (x *expiry) take(now time.Time) (runs []*Run, quiet time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	quiet = time.Hour
	for r, when := range x.due {
		if when.After(now) {
			quiet = min(quiet, when.Sub(now))
			continue
		}
		runs = append(runs, r)
		delete(x.due, r)
	}
	return runs, quiet
}

// again is how long it takes until what could not be removed is tried again.
const again = time.Minute

// Expire removes checkpoints when they have expired, until ctx ends. failed hears of those that cannot be removed.
func (s *Store) Expire(ctx context.Context, failed func(model string, err error)) {
	for {
		runs, quiet := s.expiry.take(time.Now())
		for _, r := range runs {
			next, err := r.expire()
			if err != nil {
				failed(r.ID, err)
				next = time.Now().Add(again)
			}
			if !next.IsZero() {
				s.expiry.at(r, next)
			}
		}
		if len(runs) > 0 {
			continue // more may be due by now
		}
		select {
		case <-time.After(quiet):
		case <-s.expiry.sooner:
		case <-ctx.Done():
			return
		}
	}
}

// expire removes the checkpoints of a model that have expired, and says when the next one will have; zero: none.
func (r *Run) expire() (next time.Time, err error) {
	for _, kind := range []string{Weights, Sampler} {
		entries, err := os.ReadDir(filepath.Join(r.dir, kind))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return next, err
		}
		for _, e := range entries {
			at, err := r.expireOne(kind, e.Name())
			if err != nil {
				return next, err
			}
			if !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	return next, nil
}

// expireOne removes a checkpoint if it has expired, and says when it will have; zero: never, or it has.
func (r *Run) expireOne(kind, name string) (at time.Time, err error) {
	r.swap.Lock()
	defer r.swap.Unlock()
	c, err := r.read(kind, name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it is being written, or was removed
		return at, nil
	case err != nil || c.Expires == nil:
		return at, err
	case !c.expired(time.Now()):
		return *c.Expires, nil
	}
	return at, r.remove(c)
}
