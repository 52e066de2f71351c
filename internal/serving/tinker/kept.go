package tinker

import (
	"errors"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// record appends to the journal, first the unwritten ones; mu is held. If the disk is full, it may be tried again. After any other
// failure the journal is not written any more, as it is unknown what of it is on disk.
func (r *run) record(sync bool, records ...store.Record) error {
	if r.broken != nil {
		return r.broken
	}
	unwritten := len(r.unwritten)
	for i, rec := range slices.Concat(r.unwritten, records) {
		switch err := r.journal.Append(rec); {
		case errors.Is(err, store.ErrUnwritten):
			return err
		case err != nil:
			r.broken = err
			return err
		case i < unwritten:
			r.unwritten = r.unwritten[1:]
		}
	}
	if sync {
		r.broken = r.journal.Sync()
	}
	return r.broken
}

// recordResult appends a result that a client may have seen to the journal, or notes it to be appended when there is room; mu is held.
func (r *run) recordResult(rec store.Record) {
	if len(r.unwritten) > 0 || errors.Is(r.record(false, rec), store.ErrUnwritten) {
		r.unwritten = append(r.unwritten, rec)
	}
}

// suspend closes the journal until the next request; mu is held. If none comes for a while, the entries are dropped from memory.
func (r *run) suspend() {
	if err := r.journal.CloseIdle(); err != nil {
		r.broken = err
		r.s.Log.Error("a journal cannot be continued", "model", r.ID, "error", err)
	}
	if r.idleTimer == nil {
		r.idleTimer = time.AfterFunc(r.s.IdleTimeout, r.dropIdle)
	}
	r.idleTimer.Reset(r.s.IdleTimeout)
}

// dropIdle drops the entries of an idle model from memory: open reads them again.
func (r *run) dropIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.working && r.waiting == 0 && r.broken == nil && len(r.unwritten) == 0 {
		r.hold(-r.held)
		r.journal, r.entries = nil, nil
	}
}

// done is the record of a result.
func done(seq int64, res result) store.Record {
	return store.Record{Kind: store.Done, Seq: seq, Status: res.status, Type: res.kind, Body: res.body}
}

// catchUp brings the entries up to the snapshot that the model was restored from; mu is held. A load makes a snapshot before
// its result is recorded: if a crash came in between, the snapshot shows that the load succeeded.
func (r *run) catchUp() error {
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

// drop frees the bodies of requests that the snapshot after request saved covers, and entries whose result is expired; mu is held.
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

// isPassed reports whether a request was executed so long ago that its entry is gone; mu is held.
func (r *run) isPassed(seq int64) bool { return seq >= 1 && seq < r.low && r.entries[seq] == nil }

// hold counts bytes of bodies that must be kept until a snapshot; mu is held.
func (r *run) hold(n int) {
	r.held += n
	r.account.hold(n)
}

// forget drops the oldest results if they are too many or too large together; mu is held.
func (r *run) forget(last int64) {
	for ; r.forgot < last && (r.forgot <= last-r.s.MaxResults || r.results > maxKept); r.forgot++ {
		if old := r.entries[r.forgot]; old != nil && old.settled() && old.result.status != lost {
			r.results -= len(old.result.body)
			if old.result.status != server { // the status must be kept, or a replay would execute it
				r.entries[old.seq] = &entry{&future{old.done, result{status: lost}}, old.seq, old.kind, old.sum, old.body}
			}
		}
	}
}
