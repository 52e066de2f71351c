package reward

import (
	"context"
	"sync"
)

// singleFlight is a cache with single flight: however many callers ask for a key at the same time, its function
// runs once. It holds at most 2×keep values, in two generations: when the young one is full it becomes the
// old one, and values of the former old one that were not used meanwhile are dropped.
type singleFlight[K comparable, V any] struct {
	keep int

	mu         sync.Mutex
	young, old map[K]V
	flying     map[K]chan struct{}
}

func newSingleFlight[K comparable, V any](keep int) *singleFlight[K, V] {
	return &singleFlight[K, V]{keep: keep, young: map[K]V{}, flying: map[K]chan struct{}{}}
}

// do returns the cached value, or what run makes. Only a value that run says to keep is cached; after
// any other, the next waiting caller runs its own.
func (f *singleFlight[K, V]) do(ctx context.Context, key K, run func() (v V, keep bool, err error)) (v V, cached bool, err error) {
	for {
		f.mu.Lock()
		if v, ok := f.lookup(key); ok {
			f.mu.Unlock()
			return v, true, nil
		}
		landed, flying := f.flying[key]
		if !flying {
			break
		}
		f.mu.Unlock()
		select {
		case <-landed:
		case <-ctx.Done():
			return v, false, context.Cause(ctx)
		}
	}
	landed := make(chan struct{})
	f.flying[key] = landed
	f.mu.Unlock()

	keep := false
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if keep {
			f.store(key, v)
		}
		delete(f.flying, key)
		close(landed)
	}()
	v, keep, err = run()
	return v, false, err
}

func (f *singleFlight[K, V]) lookup(key K) (V, bool) {
	if v, ok := f.young[key]; ok {
		return v, true
	}
	v, ok := f.old[key]
	if ok {
		f.store(key, v)
	}
	return v, ok
}

func (f *singleFlight[K, V]) store(key K, v V) {
	if len(f.young) >= f.keep {
		f.old, f.young = f.young, map[K]V{}
	}
	f.young[key] = v
}
