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

// run is a model of a client: requests that were accepted, and what they came to. One goroutine does them, in the order of
// their numbers; it ends when there is nothing to do for a while, and with it the model leaves the memory.
type run struct {
	s *Server
	*store.Run
	account *account // of whoever opened its session

	mu       sync.Mutex // guards what follows
	journal  *store.Journal
	broken   error          // why the journal takes no more
	owed     []store.Record // that found no room in it
	entries  map[int64]*entry
	highest  int64 // number of all entries
	waiting  int   // entries without a result
	bytes    int   // of their bodies
	held     int   // bytes of bodies that no snapshot has
	results  int   // bytes of results
	forgot   int64 // results of numbers below this one are not kept
	low      int64 // nor are entries of numbers from 1 to below this one
	fading   *time.Timer
	working  bool
	wake     chan struct{}
	unloaded bool
	yields   bool      // it leaves the memory as soon as it has nothing to do
	gone     *future   // of an unload, while it works; nil: nobody asks
	last     time.Time // of the last request

	worker
}

// worker belongs to the goroutine that works; next is changed with run.mu held.
type worker struct {
	bench *bench
	key   benchKey
	model *learn.Model
	next  int64         // request to be done
	saved int64         // request that the last snapshot came after
	spent time.Duration // on requests since
	hole  time.Time     // since when a request is missing; zero: none is
}

// entry is a request of a model.
type entry struct {
	*future
	seq  int64
	kind string
	sum  string
	body []byte // until a snapshot has what it did
}

// The kinds of entries beside the names of calls.
const (
	created = "create_model"
	unload  = "unload_model"
	skipped = "skip"   // its number never came
	passed  = "passed" // what had a number from 1 to below this one is known no more
	// wrong is a request of any kind that calls something by a name that is not known; its body says so. Of one that was taken before
	// names were looked at, the journal has its kind, and it is done as it was then.
	wrong = "wrong"

	unloadSeq = -1 // stands for the number that an unload has not
)

// Bounds of what may wait of one model.
const (
	maxWaiting = 4096
	maxPending = 512 << 20
	maxAhead   = 1 << 16 // how far a number may be beyond all others
)

// open reads the journal; mu is held.
func (r *run) open() error {
	if r.journal != nil {
		return r.broken
	}
	r.entries, r.wake = map[int64]*entry{}, make(chan struct{}, 1)
	r.waiting, r.bytes, r.results, r.forgot, r.low = 0, 0, 0, 0, 1 // of a journal that could not be read before
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
				r.finish(r.entries[rec.Seq], neverCame(rec.Seq))
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

func neverCame(seq int64) result {
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

// sumOf tells requests apart, by what they say in the one way in which that is written.
func sumOf(kind string, canonical []byte) string {
	h := sha256.New()
	io.WriteString(h, kind+"\n")
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// accept takes a request with its sum, and returns when it is on disk. The same one again is the one that was taken.
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
		return "", tooMany("%d MB of requests are held that no optim_step has used; send the next after some", maxHeld>>20)
	case r.unloaded: // its future is refused
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

// rouse has the goroutine look around, if there is one.
func (r *run) rouse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working {
		r.nudge()
	}
}

func (r *run) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// start has the goroutine look for work; mu is held.
func (r *run) start() {
	r.nudge()
	if !r.working && r.s.ctx.Err() == nil && r.waiting > 0 {
		r.working = true
		r.s.work.Go(r.work)
	}
	if !r.working {
		r.rest()
	}
}

// work does requests until there are none for a while.
func (r *run) work() {
	if !r.sit() {
		r.mu.Lock()
		r.working = false
		r.mu.Unlock()
		return
	}
	defer func() { <-r.account.seats }()
	if err := r.awake(); err != nil {
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

// due waits for the request whose turn it is. It is nil when none came for long, or when the server ends.
func (r *run) due() *entry {
	for {
		r.mu.Lock()
		e, wait := r.entries[r.next], r.account.idle(r.s.Idle)
		if r.unloaded || r.yields {
			wait = min(wait, time.Millisecond)
		}
		switch {
		case e != nil:
			r.hole, r.yields = time.Time{}, false
			r.mu.Unlock()
			return e
		case r.highest > r.next && r.hole.IsZero():
			r.hole = time.Now()
			wait = r.s.Hole
		case r.highest > r.next:
			wait = r.s.Hole - time.Since(r.hole)
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

// wait returns when something came or a while has passed, and reports whether there is a reason to go on.
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

// skip gives the numbers up that did not come, for good; mu is held.
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
		r.finish(e, neverCame(rec.Seq))
	}
	r.s.Log.Warn("requests that did not come were passed over", "model", r.ID, "from", from, "count", len(records))
	return nil
}

// sleep ends the work, unless something came meanwhile; the model is on disk as far as it can be, and leaves the memory.
func (r *run) sleep() bool {
	if err := r.snapshot(r.next - 1); err != nil {
		r.s.Log.Error("a model could not be kept", "model", r.ID, "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[r.next] != nil && r.s.ctx.Err() == nil {
		return false
	}
	r.leave()
	r.rest()
	return true
}

// leave gives the memory of the model back; mu is held.
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

// giveUp ends the work after an error of the machine: everybody who waits is told. The journal has what was accepted, and
// whoever asks again makes the model begin again from its last snapshot.
func (r *run) giveUp(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.rest()
	r.leave()
	if r.s.ctx.Err() != nil {
		return // the next server does it
	}
	r.s.Log.Error("a model stopped", "model", r.ID, "error", err)
	res := r.s.failed(err)
	res.status = server // also of limits: what somebody was told had failed is not done later
	for seq, e := range r.entries {
		if !e.settled() {
			r.finish(e, res)
			r.owe(done(seq, res)) // broken or not
		}
	}
}
