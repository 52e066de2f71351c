package tinker

import (
	"errors"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// take adds a request to the journal; mu is held. One that finds no room was not taken, and may come again.
func (r *run) take(rec store.Record) error {
	if r.broken != nil {
		return r.broken
	}
	switch err := r.journal.Append(rec); {
	case errors.Is(err, store.ErrUnwritten):
		return err
	case err != nil:
		r.broken = err
		return err
	}
	return r.record(true)
}

// record adds to the journal; mu is held. A journal that fails is not written any more: what of it is on disk is not known.
func (r *run) record(sync bool, records ...store.Record) error {
	if r.broken != nil {
		return r.broken
	}
	for _, rec := range records {
		r.broken = errors.Join(r.broken, r.journal.Append(rec))
	}
	if sync && r.broken == nil {
		r.broken = r.journal.Sync()
	}
	return r.broken
}

// hold counts bytes that are kept until a snapshot has what they did; mu is held.
func (r *run) hold(n int) {
	r.held += n
	r.account.hold(n)
}

// forget lets go of results that are too old, or too large together; mu is held.
func (r *run) forget(last int64) {
	for ; r.forgot < last && (r.forgot <= last-kept || r.results > maxKept); r.forgot++ {
		if old := r.entries[r.forgot]; old != nil && old.settled() && old.result.status != lost {
			r.results -= len(old.result.body)
			r.entries[old.seq] = &entry{&future{old.done, result{status: lost}}, old.seq, old.kind, old.sum, old.body}
		}
	}
}
