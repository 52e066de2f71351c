package tinker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/optim"
)

// future is a result that may not be there yet.
type future struct {
	done   chan struct{} // closed when the result is there
	result result
}

func newFuture() *future { return &future{done: make(chan struct{})} }

func (f *future) settle(r result) {
	f.result = r
	close(f.done)
}

func (f *future) settled() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// result is the outcome of a request.
type result struct {
	status string // one of the constants below
	kind   string // content type of the body
	body   []byte
	cause  error // the error behind status server, for the log; not after a restart
}

// How a request ended. If it failed by its own fault, a replay fails the same way; if the machine failed, it is not replayed.
const (
	statusOK = "ok"
	user     = "user"
	server   = "server"
	lost     = "lost" // the result is too old to be kept
)

const (
	isJSON     = "application/json"
	isProtobuf = "application/x-protobuf"
)

func inJSON(v any) result {
	text, err := json.Marshal(v)
	if err != nil {
		return ended(server, internalError, err)
	}
	return result{status: statusOK, kind: isJSON, body: text}
}

// failed is the result of an error: the client's fault, or the machine's.
func (s *Server) failed(err error) result {
	var bad *optim.NonFiniteError
	switch {
	case badinput.Is(err) || errors.As(err, &bad):
		return ended(user, s.clientError(err), err)
	case disk.IsFull(err):
		return ended(server, refusal.DiskFull, err)
	}
	return ended(server, internalError, err) // without paths of this machine
}

// refused is the result of an error that is the client's fault and names nothing of this machine.
func refused(err error) result { return ended(user, err.Error(), err) }

func ended(status, said string, err error) result {
	text, _ := json.Marshal(map[string]string{"error": said, "category": status}) // strings can always be encoded
	return result{status, isJSON, text, err}
}

// internalError is what a client is told about an internal error.
const internalError = "the server failed; its log says why"

// retrieve waits for a result, up to PollTimeout.
func (s *Server) retrieve(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID string `json:"request_id"`
	}
	if err := s.read(r, &q); err != nil {
		s.fail(w, r, err)
		return
	}
	who := s.who(r)
	f, err := s.find(who, q.ID)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	done, err := s.account(who).poll()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	patience, cancel := context.WithTimeout(r.Context(), s.PollTimeout)
	defer cancel()
	select {
	case <-f.done:
	case <-patience.Done():
	case <-s.draining:
	case <-s.ctx.Done():
	}
	done() // before the answer: the client may poll again at once
	switch {
	case !f.settled():
		writeJSON(w, http.StatusRequestTimeout, map[string]string{"type": "try_again", "request_id": q.ID, "queue_state": "active"})
	case f.result.status == lost:
		refuse(w, http.StatusGone, fmt.Errorf("request_id: the result of %.200q is not kept any more", q.ID))
	default:
		write(w, http.StatusOK, f.result.kind, f.result.body)
	}
}

// find returns the future of a request: a numbered one of a model, or one to sample.
func (s *Server) find(who, id string) (*future, error) {
	below, number, _ := strings.Cut(id, "#")
	session, _, _ := strings.Cut(below, ":")
	s.mu.Lock()
	r := s.runs[below]
	if r != nil {
		session = r.Session
	}
	known, owner := s.sees(who, session), s.ownerOf(session)
	s.mu.Unlock()
	if f := s.account(owner).samples.get(id); f != nil && known {
		return f, nil
	}
	seq, err := strconv.ParseInt(number, 10, 64)
	if number == unload {
		seq, err = unloadSeq, nil
	}
	switch {
	case err != nil || !known:
	case r != nil:
		if f, err := r.future(seq); f != nil || err != nil {
			return f, err
		}
	default:
		if _, err := s.findSamplingSession(who, below); err == nil { // the server was restarted: the client sends it again
			return nil, &status{http.StatusGone, badinput.Errorf("request_id: %.200q is not known any more; send it again", id)}
		}
	}
	return nil, notFound(badinput.Errorf("request_id: %.200q is not known", id))
}

// future returns the future of a request of the model; nil if there is none.
func (r *run) future(seq int64) (*future, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open(); err != nil {
		return nil, err
	}
	defer r.start()
	if e := r.entries[seq]; e != nil {
		return e.future, nil
	}
	f := newFuture()
	switch {
	case seq == unloadSeq && r.unloaded && r.working: // answer only when the model's memory is free
		r.gone = cmp.Or(r.gone, f)
		return r.gone, nil
	case seq == unloadSeq && r.unloaded:
		f.settle(inJSON(map[string]string{"model_id": r.ID}))
	case r.isPassed(seq):
		f.settle(result{status: lost})
	case r.unloaded && seq >= 1:
		f.settle(refused(badinput.Errorf("model_id: %s was unloaded; make another with create_model", r.ID)))
	default:
		return nil, nil
	}
	return f, nil
}

// kept is how many results to sample are kept, and by default how many of a model.
const kept = 4096

const (
	maxKept = 256 << 20 // bytes of all results; the last one is kept whatever its size
	maxOpen = 2048      // unfinished requests to sample; a client sends at most 2,000 at a time
)

// answers are the futures of requests to sample, which are in no journal.
type answers struct {
	mu    sync.Mutex
	all   map[string]*answer
	order []string
	open  int // futures without a result
	bytes int // of results
}

// settle sets the result of a request.
func (a *answers) settle(f *future, r result) {
	f.settle(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
	a.bytes += len(r.body)
}

type answer struct {
	*future
	sum string
}

func (a *answers) get(id string) *future {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.all[id]; x != nil {
		return x.future
	}
	return nil
}

// begin returns the future of a request, and whether it is new. The same ID with other content is refused.
func (a *answers) begin(id, sum string) (f *future, isNew bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.all[id]; x != nil {
		if x.sum != sum {
			return nil, false, badinput.Errorf("seq_id: %s was used for another request", id)
		}
		return x.future, false, nil
	}
	if a.all == nil {
		a.all = map[string]*answer{}
	}
	if a.open >= maxOpen {
		return nil, false, tooMany("%d requests to sample wait; send the next when some are done", a.open)
	}
	a.open++
	x := &answer{newFuture(), sum}
	a.all[id], a.order = x, append(a.order, id)
	for i := 0; (len(a.all) > kept || a.bytes > maxKept) && i < len(a.order); {
		old := a.order[i]
		if f := a.all[old]; !f.settled() {
			i++
			continue
		}
		a.bytes -= len(a.all[old].result.body)
		delete(a.all, old)
		a.order = append(a.order[:i], a.order[i+1:]...)
	}
	return x.future, true, nil
}

// futureAnswer is the answer to a heavy call.
func futureAnswer(id, model string) any {
	p := map[string]string{"request_id": id}
	if model != "" {
		p["model_id"] = model
	}
	return p
}
