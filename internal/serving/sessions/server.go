package sessions

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/remote"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Options of a server. 0 means the default given here.
type Options struct {
	Store  string // directory
	Config *configs.Config
	Host   *serving.Host
	Models []serving.NamedDir // the host's, as the operator named them
	Log    *slog.Logger

	MaxSessions int                        // unfinished sessions; 8
	PollTimeout time.Duration              // how long a call waits before it is answered with 202; 20 s
	Owner       func(*http.Request) string // who sends a request: the name of a key; nil: all are the same
	IdleTimeout time.Duration              // after this time without requests, a session's trainer is closed; 15 min
	Retention   time.Duration              // a finished session is removed when it was not used for so long; 0: never
	CheckSpace  func() error               // an error if there is no room to write; nil: there always is
	Trainer     []grpo.Option              // for every session
}

// Server keeps the sessions.
type Server struct {
	Options
	ctx  context.Context // of all computation
	stop context.CancelFunc
	work sync.WaitGroup

	draining chan struct{} // closed by Drain
	drain    sync.Once

	turns *body.Turns

	mu       sync.Mutex
	sessions map[string]*session
	leaving  map[string]bool // being removed, but their folders still exist
}

// folder is the folder of the sessions in the store.
const folder = "steps"

// New opens a server over a directory, and recovers the sessions in it.
func New(o Options) (*Server, error) {
	o.MaxSessions, o.Log = cmp.Or(o.MaxSessions, 8), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.PollTimeout, o.IdleTimeout = cmp.Or(o.PollTimeout, 20*time.Second), cmp.Or(o.IdleTimeout, 15*time.Minute)
	s := &Server{Options: o, sessions: map[string]*session{}, leaving: map[string]bool{}, draining: make(chan struct{}),
		turns: body.NewTurns()}
	if s.Owner == nil {
		s.Owner = func(*http.Request) string { return "" }
	}
	var err error
	if s.Store, err = filepath.Abs(filepath.Join(o.Store, folder)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Store, 0o700); err != nil {
		return nil, badinput.Errorf("--store: %w; type a directory that can be written", err)
	}
	if s.CheckSpace == nil {
		s.CheckSpace = func() error { return nil }
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	entries, err := os.ReadDir(s.Store)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // its creation was interrupted, and its client got no answer
			if err := os.RemoveAll(filepath.Join(s.Store, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		if n, err := s.recall(e.Name()); err != nil {
			s.Log.Error("a session could not be restored", "folder", e.Name(), "error", err.Error())
		} else {
			s.sessions[n.ID] = n
		}
	}
	if s.Retention > 0 {
		s.work.Go(s.sweeps)
	}
	return s, nil
}

// Drain answers waiting requests with 202, so that they are repeated to the next server.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// Close ends all computation. No step that was answered is lost. The host is left open.
func (s *Server) Close() error {
	s.stop()
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	for _, n := range all {
		n.takeNoMore()
	}
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, n := range s.sessions {
		errs = append(errs, n.leave())
	}
	return errors.Join(errs...)
}

// Register adds the routes to a server's.
func (s *Server) Register(mux *http.ServeMux) {
	for pattern, call := range map[string]func(http.ResponseWriter, *http.Request, *session) error{
		"GET ":              s.state,
		"DELETE ":           s.delete,
		"POST /train_step":  s.trainStep,
		"POST /sample":      s.sample,
		"POST /save":        s.save,
		"POST /finish":      s.finish,
		"GET /saved/{step}": s.archive,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /v1/sessions/{id}"+path, s.answered(func(w http.ResponseWriter, r *http.Request) error {
			n, err := s.find(r.PathValue("id"), s.Owner(r))
			if err != nil {
				return err
			}
			if s.Retention > 0 && n.isFinished() {
				if err := n.touch(); err != nil {
					return err
				}
			}
			return call(w, r, n)
		}))
	}
	mux.HandleFunc("POST /v1/sessions", s.answered(s.create))
}

func (s *Server) answered(call func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := call(w, r); err != nil {
			if refusal.FromError(err).Status >= 500 || disk.IsFull(err) {
				s.Log.Error("not answered", "id", r.Header.Get("X-Request-Id"), "why", err.Error())
			}
			refusal.Write(w, err)
		}
	}
}

// find returns the session of an ID, if it belongs to that owner.
func (s *Server) find(id, owner string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[id]
	if n == nil || n.Owner != owner {
		return nil, unknownSession(id)
	}
	return n, nil
}

func unknownSession(id string) error {
	return refusal.Errorf(http.StatusNotFound, "there is no session %q here; POST /v1/sessions begins one", refusal.Truncate(id, 50))
}

// take reads the body of a request. Large bodies take turns, until leave is called: the caller does so after it has checked their rows.
func (s *Server) take(r *http.Request, into any) (text []byte, leave func(), err error) {
	if text, err = body.ReadAll(r.Body); err != nil {
		return nil, nil, refusal.BodyError(err)
	}
	leave = func() {}
	if len(text) > body.LargeSize {
		if leave, err = s.turns.Take(r.Context(), s.Owner(r)); err != nil {
			return nil, nil, refusal.ContextError(r.Context())
		}
	}
	if err := body.Decode(text, into); err != nil {
		leave()
		return nil, nil, err
	}
	return text, leave, nil
}

// create starts a session, or finds the one that the same request has started before.
func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	var ask remote.BeginRequest
	text, leave, err := s.take(r, &ask)
	if err != nil {
		return err
	}
	defer leave() // at the latest
	n, err := s.begin(r, ask, sumOf(text))
	leave()
	if err != nil {
		return err
	}
	return n.do(w, r, "open", n.Sum, func(ctx context.Context) ([]byte, error) {
		if n.isFinished() { // the request was repeated
			return json.Marshal(n.stateNow())
		}
		if _, err := n.open(ctx); err != nil {
			if n.isNew() { // one that has been trained is kept, as the request may be repeated
				err = errors.Join(err, n.leave())
				s.mu.Lock()
				there := s.hide(n)
				s.mu.Unlock()
				if there { // false: another request is removing it
					s.forget(n)
				}
			}
			return nil, err
		}
		state := n.stateNow()
		state.State = remote.Ready // it will be, once this is answered
		return json.Marshal(state)
	})
}

// begin reserves a session and writes its record. No trainer is opened yet.
func (s *Server) begin(r *http.Request, ask remote.BeginRequest, sum string) (*session, error) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		key = rand.Text()
	}
	if _, err := words(ask.Settings); err != nil {
		return nil, err
	}
	if err := refuseEmpty("problems", ask.Problems); err != nil {
		return nil, err
	}
	problems, err := read(r.Context(), ask.Problems)
	if err != nil {
		return nil, err
	}
	p, err := s.model(ask.Model)
	if err != nil {
		return nil, err
	}
	owner := s.Owner(r)
	n := newSession(s, record{ID: idOf(owner, key), Owner: owner, Sum: sum, Model: p.Name, Settings: ask.Settings, Own: len(problems) > 0})
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.sessions[n.ID]; before != nil {
		if before.Sum != sum {
			return nil, refusal.Errorf(http.StatusConflict, "another session was begun with this Idempotency-Key; send another key")
		}
		return before, nil
	}
	if s.leaving[n.ID] {
		return nil, refusal.Busy(time.Second, "the session of this Idempotency-Key is being removed; ask again in a moment")
	}
	if err := s.room(); err != nil {
		return nil, err
	}
	if open := s.unfinished(); open >= s.MaxSessions {
		return nil, refusal.Busy(time.Minute, "%d sessions are open, as many as may be; finish or delete one", open)
	}
	cfg, err := s.configure(n, p)
	if err == nil {
		err = s.checkSize(cfg)
	}
	if err != nil {
		return nil, err
	}
	n.record.Shown = changeable(cfg)
	if err := n.create(lines(ask.Problems)); err != nil {
		return nil, err
	}
	s.sessions[n.ID] = n
	return n, nil
}

// model returns the model of that name; "" is the only one.
func (s *Server) model(name string) (*serving.Policy, error) {
	models := slices.DeleteFunc(s.Host.Policies(), func(p serving.Policy) bool { return p.Adapter != nil })
	if name == "" && len(models) == 1 {
		return &models[0], nil
	}
	if i := slices.IndexFunc(models, func(p serving.Policy) bool { return p.Name == name }); i >= 0 {
		return &models[i], nil
	}
	var names []string
	for _, p := range models {
		names = append(names, p.Name)
	}
	return nil, refusal.Field("model", "found %q, expected one of %s", refusal.Truncate(name, 200), strings.Join(names, ", "))
}

func (s *Server) unfinished() (open int) {
	for _, n := range s.sessions {
		if !n.isFinished() {
			open++
		}
	}
	return open
}

// hide removes a session from the list, and reports whether it was there; mu is held.
func (s *Server) hide(n *session) bool {
	if s.sessions[n.ID] != n {
		return false
	}
	delete(s.sessions, n.ID)
	s.leaving[n.ID] = true
	return true
}

// forget removes the files of a hidden session.
func (s *Server) forget(n *session) {
	n.end() // or waiting jobs would create the folder again
	if err := os.RemoveAll(n.dir); err != nil {
		s.Log.Error("a session is not removed", "id", n.ID, "error", err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, n.ID)
}

// idOf derives a session's ID from its owner and Idempotency-Key. It cannot be guessed without these.
func idOf(owner, key string) string {
	sum := sha256.Sum256([]byte("session\n" + owner + "\n" + key))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
