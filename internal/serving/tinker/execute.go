package tinker

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/learn"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
	"github.com/seed-7879b91d/grpo/lora"
)

// benchKey identifies a bench. Models of one base whose adapters have the same layout share one.
type benchKey struct {
	base      string
	rank      int
	attn, mlp bool
}

// loraAlpha is that of every adapter in this protocol.
const loraAlpha = 32

func (k benchKey) config() lora.Config {
	c := lora.Config{Rank: k.rank, Alpha: loraAlpha}
	if k.attn {
		c.Targets = append(c.Targets, lora.Q, lora.K, lora.V, lora.O)
	}
	if k.mlp {
		c.Targets = append(c.Targets, lora.Gate, lora.Up, lora.Down)
	}
	return c
}

func keyOf(a store.ModelInfo) benchKey { return benchKey{a.Base, a.Rank, a.Attn, a.MLP} }

// findBench returns the bench of a key. It makes one if necessary, in place of an unused one if there are too many.
func (s *Server) findBench(k benchKey) (*bench, error) {
	base, err := s.base(k.base)
	if err != nil {
		return nil, err
	}
	s.benchMu.Lock()
	defer s.benchMu.Unlock()
	if b := s.benches[k]; b != nil {
		b.users++
		return b, nil
	}
	same, spare := 0, benchKey{}
	for other, b := range s.benches {
		if other.base == k.base {
			same++
			if b.users == 0 {
				spare = other
			}
		}
	}
	switch {
	case same < s.MaxLayouts:
	case spare == (benchKey{}):
		return nil, badinput.Errorf("lora_config: models of %d combinations of rank and targets are in use over %s, and %w; unload one",
			same, k.base, errLayouts)
	default:
		delete(s.benches, spare)
	}
	b, err := learn.NewBench(base.Backend, base.Policy, k.config(), base.Lock)
	if err != nil {
		return nil, err
	}
	s.benches[k] = &bench{b, 1}
	return s.benches[k], nil
}

// errLayouts is the error when there is no room for another layout.
var errLayouts = errors.New("no more fit")

// findBench returns the bench of a model that is brought to memory. If there is no room for its layout, an idle layout is evicted. If all
// are busy the model waits, for at most IdleTimeout.
func (r *run) findBench(k benchKey) (*bench, error) {
	for until := time.Now().Add(r.s.IdleTimeout); ; {
		b, err := r.s.findBench(k)
		if !errors.Is(err, errLayouts) || !r.s.makeRoom(k.base) && time.Now().After(until) {
			return b, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-r.s.ctx.Done():
			return nil, r.s.ctx.Err()
		}
	}
}

// makeRoom evicts a layout all of whose models are idle: of several such layouts over a base, the least recently used. It reports whether
// there is one.
func (s *Server) makeRoom(base string) bool {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.runs))
	s.mu.Unlock()
	idle, last := map[benchKey][]*run{}, map[benchKey]time.Time{}
	for _, r := range all {
		r.mu.Lock()
		if k := r.key; r.bench != nil && r.waiting == 0 && k.base == base {
			idle[k] = append(idle[k], r)
			if r.last.After(last[k]) {
				last[k] = r.last
			}
		}
		r.mu.Unlock()
	}
	var longest benchKey
	s.benchMu.Lock()
	for k, runs := range idle {
		b := s.benches[k]
		if b != nil && b.users == len(runs) && (longest == benchKey{} || last[k].Before(last[longest])) {
			longest = k
		}
	}
	s.benchMu.Unlock()
	for _, r := range idle[longest] {
		r.mu.Lock()
		r.yields = true
		r.signalWork()
		r.mu.Unlock()
	}
	return longest != benchKey{}
}

func (s *Server) release(k benchKey) {
	s.benchMu.Lock()
	defer s.benchMu.Unlock()
	s.benches[k].users--
}

// bench is a bench, and the number of models in memory that use it.
type bench struct {
	*learn.Bench
	users int
}

// restore restores the model from its last snapshot. The requests after that are executed again.
func (r *run) restore() error {
	key := keyOf(r.ModelInfo)
	b, err := r.findBench(key)
	if err != nil {
		return err
	}
	w := worker{bench: b, key: key, model: b.NewModel(r.Seed)}
	seq, dir, err := r.State()
	if err == nil && seq >= 0 {
		err = r.s.checkBase(r.Base, dir, "model "+r.ID)
	}
	if err == nil && seq >= 0 {
		err = b.Load(w.model, dir, true)
	}
	w.saved, w.next = seq, seq+1
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worker = w
	if err == nil {
		err = r.catchUp()
	}
	return err
}

// do executes a request and records its result. If it has a result already, it is a replay after a restart, for its
// effect on the model only. An error is a failure of the machine.
func (r *run) do(e *entry) error {
	start, again := time.Now(), e.settled()
	res, does := e.result, !again || e.replayed()
	if does {
		res = r.execute(e)
	}
	if r.s.ctx.Err() != nil {
		return r.s.ctx.Err()
	}
	switch failed := does && res.status == server; { // requests that failed for the machine's sake stay failed: do not replay them
	case failed && (again || r.dirty(e)):
		return res.cause
	case failed:
		r.s.Log.Error("a request failed", "model", r.ID, "number", e.seq, "kind", e.kind, "why", res.cause.Error())
	}
	r.spent += time.Since(start)
	r.mu.Lock()
	if !again {
		saves := strings.HasPrefix(e.kind, "save_") || e.kind == loadWeights.kind
		if err := r.record(saves, done(e.seq, res)); err != nil {
			r.mu.Unlock()
			return err
		}
		r.finish(e, res)
	}
	r.forget(e.seq)
	r.next++
	much := r.held > 0 && r.account.full(maxHeld/2)
	r.mu.Unlock()
	if r.spent > r.s.SnapshotAfter || much {
		return r.snapshot(e.seq)
	}
	return nil
}

// replayed reports whether a finished request must be replayed for its effect on the model. A failed load must not: what was missing
// may exist by now, and the replay succeed.
func (e *entry) replayed() bool {
	trains := e.kind == forwardBackward || e.kind == optimStep.kind
	return trains && e.result.status != server || e.kind == loadWeights.kind && e.result.status == statusOK
}

// dirty reports whether a request that failed for the machine's sake may have changed the model.
func (r *run) dirty(e *entry) bool { return !strings.HasPrefix(e.kind, "save_") }

// snapshot saves the model after a request, unless that is saved already, or a gradient is accumulated, which would be lost.
func (r *run) snapshot(seq int64) error {
	if r.model == nil || seq <= r.saved || !r.model.Clean() {
		return nil
	}
	r.mu.Lock()
	err := r.record(true) // results of requests that will not be replayed
	r.mu.Unlock()
	if err != nil {
		return err
	}
	err = r.Snapshot(seq, func(dir string) error { return r.saveTo(dir, true) })
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved, r.spent = seq, 0
	r.drop(r.saved)
	return r.shorten()
}

// shorten rewrites a long journal without what the snapshot covers and without expired results; mu is held.
func (r *run) shorten() error {
	if r.journal.Size < r.s.CompactAt {
		return nil
	}
	records := []store.Record{{Kind: passed, Seq: r.low}}
	for _, seq := range slices.Sorted(maps.Keys(r.entries)) {
		e := r.entries[seq]
		records = append(records, store.Record{Kind: e.kind, Seq: seq, Sum: e.sum, Body: e.body})
		if e.settled() && e.kind != skipped {
			records = append(records, done(seq, e.result))
		}
	}
	if r.unloaded {
		records = append(records, store.Record{Kind: unload, Seq: unloadSeq})
	}
	err := r.journal.Rewrite(records)
	if errors.Is(err, store.ErrUnwritten) { // it stays long until there is room
		r.s.Log.Warn("a journal could not be shortened", "model", r.ID, "error", err)
		return nil
	}
	r.broken = err
	return err
}

// execute executes a request.
func (r *run) execute(e *entry) result {
	switch e.kind {
	case created, skipped:
		return inJSON(map[string]string{"model_id": r.ID})
	case wrong:
		return refused(errors.New(string(e.body)))
	case forwardBackward:
		q, err := wire.ReadForwardBackward(e.body)
		if err != nil {
			return r.s.failed(badinput.Errorf("%w", err))
		}
		out, err := r.bench.Run(r.s.ctx, r.model, q)
		if err != nil {
			return r.s.failed(err)
		}
		return result{status: statusOK, kind: isProtobuf, body: out.Append(nil)}
	}
	for _, k := range []kind{optimStep, saveWeights, loadWeights, saveForSampler} {
		if k.kind == e.kind {
			v, err := k.do(r, e)
			if err != nil {
				return r.s.failed(err)
			}
			return inJSON(v)
		}
	}
	return r.s.failed(badinput.Errorf("%s was accepted by another version of this server", e.kind))
}
