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

// expiry schedules checks for expired checkpoints.
type expiry struct {
	mu     sync.Mutex // guards the following fields
	due    map[*Run]time.Time
	sooner chan struct{} // full if a check was scheduled before all others
}

// at schedules a check of a model, unless an earlier one is scheduled.
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

// take removes and returns the models to check now, and the time until the next check.
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

// retryDelay is the delay before a failed removal is tried again.
const retryDelay = time.Minute

// Expire removes expired checkpoints until ctx ends, and calls failed if one cannot be removed.
func (s *Store) Expire(ctx context.Context, failed func(model string, err error)) {
	for {
		runs, quiet := s.expiry.take(time.Now())
		for _, r := range runs {
			next, err := r.expire()
			if err != nil {
				failed(r.ID, err)
				next = time.Now().Add(retryDelay)
			}
			if !next.IsZero() {
				s.expiry.at(r, next)
			}
		}
		if len(runs) > 0 {
			continue // others may be due by now
		}
		select {
		case <-time.After(quiet):
		case <-s.expiry.sooner:
		case <-ctx.Done():
			return
		}
	}
}

// expire removes the expired checkpoints of a model, and returns when the next one expires; zero: none does.
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

// expireOne removes a checkpoint if it has expired, and else returns when it does; zero: never.
func (r *Run) expireOne(kind, name string) (at time.Time, err error) {
	r.swap.Lock()
	defer r.swap.Unlock()
	c, err := r.read(kind, name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // being written, or removed
		return at, nil
	case err != nil || c.Expires == nil:
		return at, err
	case !c.expired(time.Now()):
		return *c.Expires, nil
	}
	return at, r.remove(c)
}
