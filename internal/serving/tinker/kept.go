package tinker

import (
	"errors"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// record adds to the journal, after what it owes; mu is held. What finds no room may come again. A journal that fails in another way
// is not written any more: what of it is on disk is not known.
func (r *run) record(sync bool, records ...store.Record) error {
	if r.broken != nil {
		return r.broken
	}
	owed := len(r.owed)
	for i, rec := range slices.Concat(r.owed, records) {
		switch err := r.journal.Append(rec); {
		case errors.Is(err, store.ErrUnwritten):
			return err
		case err != nil:
			r.broken = err
			return err
		case i < owed:
			r.owed = r.owed[1:]
		}
	}
	if sync {
		r.broken = r.journal.Sync()
	}
	return r.broken
}

// owe has the journal get what somebody was told when there is room for it; mu is held.
func (r *run) owe(rec store.Record) {
	if len(r.owed) > 0 || errors.Is(r.record(false, rec), store.ErrUnwritten) {
		r.owed = append(r.owed, rec)
	}
}

// rest closes the journal until somebody asks again; mu is held. Where nobody does for a while, its requests leave the memory.
func (r *run) rest() {
	if err := r.journal.Rest(); err != nil {
		r.broken = err
		r.s.Log.Error("a journal is not taken any further", "model", r.ID, "error", err)
	}
	if r.fading == nil {
		r.fading = time.AfterFunc(r.s.Idle, r.fade)
	}
	r.fading.Reset(r.s.Idle)
}

// fade lets go of the requests of a model that has nothing to do: open reads them again.
func (r *run) fade() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.working && r.waiting == 0 && r.broken == nil && len(r.owed) == 0 {
		r.hold(-r.held)
		r.journal, r.entries = nil, nil
	}
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
	r.drop(r.saved)
	return nil
}

// drop lets go of the bodies of requests whose doing the last snapshot has, after that number; mu is held.
func (r *run) drop(saved int64) {
	for _, e := range r.entries {
		if e.seq <= saved && e.settled() {
			r.hold(-len(e.body))
			e.body = nil
		}
	}
	for ; r.low < min(r.forgot, saved+1); r.low++ {
		delete(r.entries, r.low)
	}
}

// isPassed reports whether a number is that of a request of which nothing is known but that it was done; mu is held.
func (r *run) isPassed(seq int64) bool { return seq >= 1 && seq < r.low && r.entries[seq] == nil }

// hold counts bytes that are kept until a snapshot has what they did; mu is held.
func (r *run) hold(n int) {
	r.held += n
	r.account.hold(n)
}

// forget lets go of results that are too old, or too large together; mu is held.
func (r *run) forget(last int64) {
	for ; r.forgot < last && (r.forgot <= last-r.s.Kept || r.results > maxKept); r.forgot++ {
		if old := r.entries[r.forgot]; old != nil && old.settled() && old.result.status != lost {
			r.results -= len(old.result.body)
			if old.result.status != server { // which says that it stays undone
				r.entries[old.seq] = &entry{&future{old.done, result{status: lost}}, old.seq, old.kind, old.sum, old.body}
			}
		}
	}
}
