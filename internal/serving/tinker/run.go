package tinker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/learn"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// run is a model of a client: accepted requests and their results. One goroutine executes them in the order of their
// numbers. It ends after a while without work, and the model is removed from memory.
type run struct {
	s *Server
	*store.Run
	account *account // of the session's owner

	mu        sync.Mutex // guards the following fields
	journal   *store.Journal
	broken    error          // why the journal cannot be written any more
	unwritten []store.Record // records that the disk had no room for
	entries   map[int64]*entry
	highest   int64 // the highest number of an entry
	waiting   int   // entries without a result
	bytes     int   // of the bodies of waiting entries
	held      int   // bytes of bodies that no snapshot covers
	results   int   // bytes of results
	forgot    int64 // results of lower numbers were dropped
	low       int64 // entries of numbers from 1 to below this one were dropped
	idleTimer *time.Timer
	working   bool
	wake      chan struct{}
	unloaded  bool
	yields    bool      // leave memory at the next idle moment
	gone      *future   // of an unload that waits for the worker to end; nil: none
	last      time.Time // time of the last request

	worker
}

// worker is the state of the working goroutine; next is changed with run.mu held.
type worker struct {
	bench        *bench
	key          benchKey
	model        *learn.Model
	next         int64         // number of the next request to execute
	saved        int64         // number of the request that the last snapshot follows
	spent        time.Duration // time spent executing since then
	missingSince time.Time     // when request next was found missing; zero: it is not
}

// entry is a request of a model.
type entry struct {
	*future
	seq  int64
	kind string
	sum  string
	body []byte // until a snapshot covers it
}

// The kinds of entries besides the names of calls.
const (
	created = "create_model"
	unload  = "unload_model"
	skipped = "skip"   // its number never came
	passed  = "passed" // in a rewritten journal: entries from 1 to below this number were dropped
	// wrong is a request with an unknown field; its body is the error. Requests accepted before fields were checked have their own
	// kind in the journal, and are executed as then.
	wrong = "wrong"

	unloadSeq = -1 // in place of a number, as unload has none
)

// Limits of what may wait of one model.
const (
	maxWaiting = 4096
	maxPending = 512 << 20
	maxAhead   = 1 << 16 // how far a number may be ahead of all others
)

// open reads the journal; mu is held.
func (r *run) open() error {
	if r.journal != nil {
		return r.broken
	}
	r.entries, r.wake = map[int64]*entry{}, make(chan struct{}, 1)
	r.waiting, r.bytes, r.results, r.forgot, r.low = 0, 0, 0, 0, 1 // an earlier attempt may have failed half-way
	r.hold(-r.held)
	j, err := r.Run.Journal(func(rec store.Record) {
		switch e := r.entries[rec.Seq]; {
		case rec.Kind == unload:
			r.unloaded = true
		case rec.Kind == passed:
			r.forgot, r.low, r.highest = rec.Seq, rec.Seq, max(r.highest, rec.Seq-1)
		case rec.Kind != store.Done:
			r.enter(&entry{newFuture(), rec.Seq, rec.Kind, rec.Sum, rec.Body})
			if rec.Kind == skipped {
				r.finish(r.entries[rec.Seq], missingRequest(rec.Seq))
			}
		case e != nil && !e.settled():
			r.finish(e, result{status: rec.Status, kind: rec.Type, body: rec.Body})
		}
	})
	r.journal = j
	if saved, _, unknown := r.State(); err == nil && unknown == nil {
		r.drop(saved)
	}
	return err
}

func missingRequest(seq int64) result {
	return refused(badinput.Errorf("seq_id: request %d did not come in time, and later ones were done without it", seq))
}

// enter and finish count entries; mu is held.
func (r *run) enter(e *entry) {
	r.entries[e.seq], r.highest = e, max(r.highest, e.seq)
	r.waiting++
	r.bytes += len(e.body)
	r.hold(len(e.body))
}

func (r *run) finish(e *entry, res result) {
	r.waiting--
	r.bytes -= len(e.body)
	r.results += len(res.body)
	e.settle(res)
}

// sumOf is the checksum that identifies a request's content, in canonical form.
func sumOf(kind string, canonical []byte) string {
	h := sha256.New()
	io.WriteString(h, kind+"\n")
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// accept accepts a request, and returns when it is on disk. If the same one was accepted before, it returns that.
func (r *run) accept(seq int64, kind, sum string, body []byte) (id string, err error) {
	e := &entry{newFuture(), seq, kind, sum, body}
	id = fmt.Sprintf("%s#%d", r.ID, seq)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open(); err != nil {
		return "", err
	}
	defer r.start()
	r.last = time.Now()
	old := r.entries[seq]
	switch {
	case seq < 1 && kind != created || seq > r.highest+maxAhead:
		return "", badinput.Errorf("seq_id: found %d, expected the number after %d", seq, r.highest)
	case old != nil && (old.sum == e.sum || old.kind == skipped), r.isPassed(seq):
		return id, nil
	case old != nil:
		return "", badinput.Errorf("seq_id: %d was used for another request of %s; the next is %d", seq, r.ID, r.highest+1)
	case r.waiting >= maxWaiting || r.bytes+len(body) > maxPending:
		return "", tooMany("%d requests of %s wait; send the next when some are done", r.waiting, r.ID)
	case r.account.full(len(body)) && kind == forwardBackward:
		return "", tooMany("%d MB of requests wait for an optim_step; send that first", maxHeld>>20)
	case r.unloaded: // future answers with the error
		return id, nil
	}
	if err := r.s.room(); err != nil {
		return "", err
	}
	if err := r.record(true, store.Record{Kind: kind, Seq: seq, Sum: e.sum, Body: body}); err != nil {
		return "", err
	}
	r.enter(e)
	return id, nil
}

// wakeWorker wakes the working goroutine, if there is one.
func (r *run) wakeWorker() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working {
		r.signalWork()
	}
}

func (r *run) signalWork() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// start starts the working goroutine, or wakes it; mu is held.
func (r *run) start() {
	r.signalWork()
	if !r.working && r.s.ctx.Err() == nil && r.waiting > 0 {
		r.working = true
		r.s.work.Go(r.work)
	}
	if !r.working {
		r.suspend()
	}
}

// work executes requests until there are none for a while.
func (r *run) work() {
	if !r.takeModelSlot() {
		r.mu.Lock()
		r.working = false
		r.mu.Unlock()
		return
	}
	defer func() { <-r.account.modelSlots }()
	if err := r.restore(); err != nil {
		r.giveUp(err)
		return
	}
	for {
		e := r.due()
		if e == nil {
			return
		}
		if err := r.do(e); err != nil {
			r.giveUp(err)
			return
		}
	}
}

// due waits for the next request by number. It returns nil if none came for a while, or if the server ends.
func (r *run) due() *entry {
	for {
		r.mu.Lock()
		e, wait := r.entries[r.next], r.account.idle(r.s.IdleTimeout)
		if r.unloaded || r.yields {
			wait = min(wait, time.Millisecond)
		}
		switch {
		case e != nil:
			r.missingSince, r.yields = time.Time{}, false
			r.mu.Unlock()
			return e
		case r.highest > r.next && r.missingSince.IsZero():
			r.missingSince = time.Now()
			wait = r.s.GapTimeout
		case r.highest > r.next:
			wait = r.s.GapTimeout - time.Since(r.missingSince)
		}
		if wait <= 0 {
			err := r.skip()
			r.mu.Unlock()
			if err != nil {
				r.giveUp(err)
				return nil
			}
			continue
		}
		r.mu.Unlock()
		if !r.wait(wait) && r.sleep() {
			return nil
		}
	}
}

// wait waits to be woken, for at most d. It returns false if there is no reason to go on waiting.
func (r *run) wait(d time.Duration) bool {
	select {
	case <-r.wake:
		return true
	case <-time.After(d):
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.highest > r.next
	case <-r.s.ctx.Done():
		return false
	}
}

// skip gives up on the missing numbers, permanently; mu is held.
func (r *run) skip() error {
	var records []store.Record
	from := r.next
	for seq := from; r.entries[seq] == nil; seq++ {
		records = append(records, store.Record{Kind: skipped, Seq: seq})
	}
	if err := r.record(true, records...); err != nil {
		return err
	}
	for _, rec := range records {
		e := &entry{newFuture(), rec.Seq, skipped, "", nil}
		r.enter(e)
		r.finish(e, missingRequest(rec.Seq))
	}
	r.s.Log.Warn("missing requests were skipped", "model", r.ID, "from", from, "count", len(records))
	return nil
}

// sleep makes a snapshot and removes the model from memory, unless a request has come in the meantime.
func (r *run) sleep() bool {
	if err := r.snapshot(r.next - 1); err != nil {
		r.s.Log.Error("a model could not be saved", "model", r.ID, "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[r.next] != nil && r.s.ctx.Err() == nil {
		return false
	}
	r.leave()
	r.suspend()
	return true
}

// leave frees the memory of the model; mu is held.
func (r *run) leave() {
	if r.bench != nil {
		r.bench.Remove(r.model)
		r.s.release(r.key)
	}
	r.worker = worker{}
	r.working, r.yields = false, false
	if r.gone != nil {
		r.gone.settle(inJSON(map[string]string{"model_id": r.ID}))
		r.gone = nil
	}
}

// giveUp stops the work after a failure of the machine, and fails all waiting requests. The next request restores the
// model from its last snapshot and journal.
func (r *run) giveUp(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.suspend()
	r.leave()
	if r.s.ctx.Err() != nil {
		return // the server's successor continues from the journal
	}
	r.s.Log.Error("a model stopped", "model", r.ID, "error", err)
	res := r.s.failed(err)
	res.status = server // even if limits were the cause: a request that was reported as failed must not be executed later
	for seq, e := range r.entries {
		if !e.settled() {
			r.finish(e, res)
			r.recordResult(done(seq, res)) // even if the journal is broken
		}
	}
}
