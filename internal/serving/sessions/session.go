package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/remote"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// The files of a session.
const (
	recordFile   = "session.json"
	problemsFile = "problems.jsonl"
	runFolder    = "run"
	savedFolder  = "saved"
)

// record is what survives a restart, besides the run directory.
type record struct {
	ID       string                     `json:"id"`
	Owner    string                     `json:"owner"`
	Sum      string                     `json:"sha256"` // of the request that started it
	Model    string                     `json:"model"`
	Settings map[string]json.RawMessage `json:"settings"` // those asked for
	Shown    map[string]json.RawMessage `json:"shown"`    // all that a client may change
	Own      bool                       `json:"own_problems"`
	Steps    []string                   `json:"steps"`           // by step: the SHA-256 of the request, if it was answered
	Asked    string                     `json:"asked,omitempty"` // the same of the step that was started last
	Saved    []int                      `json:"saved"`
	ServedAs string                     `json:"served_as,omitempty"`
	Served   *int                       `json:"served_step,omitempty"` // the step that ServedAs serves; nil: the last saved one
	Finished bool                       `json:"finished"`
}

// session is a run that a client drives.
type session struct {
	s   *Server
	dir string
	ctx context.Context
	end context.CancelFunc

	mu      sync.Mutex // guards the following fields
	record  record
	jobs    map[string]*job
	queue   []*job
	done    []*job // jobs whose answers are still kept
	working bool
	idle    *time.Timer

	// Used only by the goroutine that works:
	trainer *grpo.Trainer // nil: not open
	spoken  string        // the name that serves its adapter, which may not be the record's after a restart; "": none

	ID, Owner, Sum, Model string // of the record; constant
	Settings              map[string]json.RawMessage
	Own                   bool
}

// job is a request in progress. A repeated request gets the same job, unless its key is "".
type job struct {
	key, sum string
	run      func(context.Context) ([]byte, error)
	over     chan struct{}
	answer   []byte
	err      error
}

// transient reports whether an answer describes the session's state at that time, so that a later repetition needs a new one.
func (j *job) transient() bool {
	return j.key == "open" || strings.HasPrefix(j.key, "save ") || strings.HasPrefix(j.key, "finish ")
}

const (
	mostWaiting = 16 // jobs per session
	mostKept    = 4  // answers
)

func newSession(s *Server, r record) *session {
	n := &session{s: s, dir: filepath.Join(s.Store, r.ID), record: r, jobs: map[string]*job{},
		ID: r.ID, Owner: r.Owner, Sum: r.Sum, Model: r.Model, Settings: r.Settings, Own: r.Own}
	n.ctx, n.end = context.WithCancel(s.ctx)
	return n
}

func (n *session) file(name string) string { return filepath.Join(n.dir, name) }

// create makes the folder of a session.
func (n *session) create(problems string) error {
	return atomicfile.WriteDir(n.dir, func(unfinished string) error {
		err := atomicfile.WriteJSON(filepath.Join(unfinished, recordFile), n.record)
		if err == nil && n.Own {
			err = atomicfile.WriteBytes(filepath.Join(unfinished, problemsFile), []byte(problems))
		}
		return err
	})
}

// recall loads a session from disk.
func (s *Server) recall(name string) (*session, error) {
	text, err := os.ReadFile(filepath.Join(s.Store, name, recordFile))
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	if r.ID != name {
		return nil, fmt.Errorf("it says that it is %q", r.ID)
	}
	n := newSession(s, r)
	if err := n.sweepSaves(); err != nil {
		return nil, err
	}
	if r.Shown == nil { // the record of an older release
		if run, err := grpo.OpenSaved(n.file(runFolder), -1, nil); err == nil {
			n.record.Shown = changeable(run.Settings)
		}
	}
	if r.ServedAs != "" && len(r.Saved) > 0 {
		dir := n.savedDir(r.served())
		if _, known, err := provenance.BaseOf(dir); err == nil && !known { // saved by an older release, which did not record the base model
			s.Log.Warn("the base weights of an adapter are not recorded; save it again to record them", "id", r.ID,
				"adapter", r.ServedAs)
		}
		if err := s.Host.LoadAdapter(r.ServedAs, r.Model, dir); err != nil {
			s.Log.Error("an adapter is not served", "id", r.ID, "error", err.Error())
		} else {
			n.spoken = r.ServedAs
		}
	}
	return n, nil
}

// write changes the record, and returns when it is on disk.
func (n *session) write(change func(r *record)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := n.record
	change(&next)
	if err := atomicfile.WriteJSON(n.file(recordFile), next); err != nil {
		return err
	}
	n.record = next
	return nil
}

func (n *session) isFinished() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.record.Finished
}

// isNew reports whether nothing was trained or saved yet.
func (n *session) isNew() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.record.Steps) == 0 && len(n.record.Saved) == 0
}

// stateNow is the state of the session, for clients.
func (n *session) stateNow() remote.State {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.record
	state := remote.State{ID: r.ID, Model: r.Model, State: remote.Ready, Steps: len(r.Steps), Settings: map[string]any{},
		Saved: r.Saved, ServedAs: r.ServedAs}
	for key, value := range r.Shown {
		state.Settings[key] = value
	}
	switch {
	case r.Finished:
		state.State = remote.Finished
	case n.working:
		state.State = remote.Busy
	}
	if state.Saved == nil {
		state.Saved = []int{}
	}
	return state
}

// do runs a request as a job and answers it. After PollTimeout it answers 202; repeating the request then joins the same job.
func (n *session) do(w http.ResponseWriter, r *http.Request, key, sum string, run func(context.Context) ([]byte, error)) error {
	j, err := n.join(&job{key: key, sum: sum, run: run, over: make(chan struct{})})
	if err != nil {
		return err
	}
	wait := time.NewTimer(n.s.PollTimeout)
	defer wait.Stop()
	select {
	case <-j.over:
	case <-wait.C:
		return body.Write(w, http.StatusAccepted, n.stateNow())
	case <-n.s.draining:
		select {
		case <-j.over:
		default:
			return body.Write(w, http.StatusAccepted, n.stateNow())
		}
	case <-r.Context().Done():
		return refusal.Errorf(http.StatusServiceUnavailable, "nobody waited for the answer; the work goes on")
	}
	if j.err != nil {
		n.forgetJob(j)
		return n.explain(j.err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(j.answer, '\n')) // an error means that the client is gone
	return nil
}

// join finds the job of a request, or queues a new one.
func (n *session) join(j *job) (*job, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch old := n.jobs[j.key]; {
	case n.ctx.Err() != nil:
		return nil, n.ended()
	case old != nil && old.sum == j.sum:
		return old, nil
	case old != nil && !old.failed():
		return nil, refusal.Errorf(http.StatusConflict, "%s was requested with other content before", j.key)
	case len(n.queue) >= mostWaiting:
		return nil, refusal.Busy(time.Second, "%d requests of this session wait; ask again when some are done", len(n.queue))
	}
	if j.key != "" {
		n.jobs[j.key] = j
	}
	n.queue = append(n.queue, j)
	if n.idle != nil {
		n.idle.Stop()
	}
	if !n.working {
		n.working = true
		n.s.work.Go(n.runJobs)
	}
	return j, nil
}

// runJobs runs jobs until the queue is empty.
func (n *session) runJobs() {
	for {
		n.mu.Lock()
		if len(n.queue) == 0 {
			n.working = false
			if n.ctx.Err() == nil && n.trainer != nil {
				n.idle = time.AfterFunc(n.s.IdleTimeout, n.queueUnload)
			}
			n.mu.Unlock()
			return
		}
		j := n.queue[0]
		n.queue = n.queue[1:]
		for _, before := range n.done {
			if before.transient() {
				n.drop(before)
			}
		}
		n.mu.Unlock()
		if j.err = n.ctx.Err(); j.err == nil {
			j.answer, j.err = j.run(n.ctx)
		}
		n.settle(j)
	}
}

// settle wakes those who wait for a job, and keeps its answer for repeated requests.
func (n *session) settle(j *job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(j.over)
	if n.done = append(n.done, j); len(n.done) > mostKept {
		n.drop(n.done[0])
		n.done = n.done[1:]
	}
}

// drop removes a job, so that a repeated request runs again; mu is held. The entry may already be that of such a repetition.
func (n *session) drop(j *job) {
	if n.jobs[j.key] == j {
		delete(n.jobs, j.key)
	}
}

// forgetJob drops a failed job, so that its request can be repeated.
func (n *session) forgetJob(j *job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(j)
}

// queueUnload closes the trainer of an idle session to free its memory. If it cannot be queued, the session is busy or ending anyway.
func (n *session) queueUnload() {
	_, _ = n.join(&job{over: make(chan struct{}), run: func(context.Context) ([]byte, error) {
		if err := n.leave(); err != nil {
			n.s.Log.Error("a session was unloaded with an error", "id", n.ID, "error", err.Error())
		}
		return nil, nil
	}})
}

// leave closes the trainer; open opens it again.
func (n *session) leave() error {
	t := n.trainer
	n.trainer = nil
	if t == nil {
		return nil
	}
	return t.Close()
}

// open returns the trainer, opening it if necessary.
func (n *session) open(ctx context.Context) (*grpo.Trainer, error) {
	if n.trainer != nil {
		return n.trainer, nil
	}
	p, err := n.s.model(n.Model)
	if err != nil {
		return nil, err
	}
	cfg, err := n.s.configure(n, p)
	if err != nil {
		return nil, err
	}
	options := append([]grpo.Option{grpo.Beside(p.Model, n.s.Host.BackendLock())}, n.s.Trainer...)
	if n.trainer, err = grpo.Open(ctx, cfg, n.s.Host.Backend(), nil, options...); err != nil {
		return nil, err
	}
	return n.trainer, n.write(func(r *record) {
		r.Shown = changeable(n.trainer.Settings())
		if done := n.trainer.StepsDone(); done < len(r.Steps) { // its last checkpoint was damaged, and an older one was loaded
			r.Steps = r.Steps[:done]
		}
	})
}
