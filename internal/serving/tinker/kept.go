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

// done is the record of what a request came to.
func done(seq int64, res result) store.Record {
	return store.Record{Kind: store.Done, Seq: seq, Status: res.status, Type: res.kind, Body: res.body}
}

// caughtUp brings the requests to where the snapshot is from which the model goes on; mu is held. A load keeps its state before
// its result: of one that was cut off between the two the snapshot says that it went well.
func (r *run) caughtUp() error {
	for _, e := range r.entries {
		if e.seq > r.saved || e.settled() || e.kind != loadWeights.kind {
			continue
		}
		res := inJSON(struct{}{})
		if err := r.record(true, done(e.seq, res)); err != nil {
			return err
		}
		r.finish(e, res)
	}
	r.drop()
	return nil
}

// drop lets go of the bodies of requests whose doing the last snapshot has; mu is held.
func (r *run) drop() {
	for _, e := range r.entries {
		if e.seq <= r.saved && e.settled() {
			r.hold(-len(e.body))
			e.body = nil
		}
	}
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
