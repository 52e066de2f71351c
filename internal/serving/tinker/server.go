package tinker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/choir"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Base is a model that adapters are trained over.
type Base struct {
	Name      string // as clients ask for it
	Tokenizer string // that clients are to open, by its name on the Hub; "": Name
	Source    string // what an adapter that is saved names as its base; "": Name
	Dir       string // where the model lies, of which adapters say that they go with it; "": they say nothing
	Context   int    // tokens of a sequence, at most; 0: as many as the model has positions
	Stops     []int32
	Text      func() sampler.TextStream // of tokens, for stop strings

	Policy  *model.Policy
	Backend kernels.Backend
	Turn    sync.Locker // held by whoever computes on the backend
	Voice   Voice       // what samples
}

// Voice draws completions for this base.
type Voice interface {
	// Sample draws the completions of a request with an adapter, nil for the bare base. It is called by many goroutines.
	Sample(ctx context.Context, w *choir.Adapter, r sampler.Request) ([]sampler.Rollout, error)
}

// Options of a server. The zero value of each but Store and Bases is the usual one.
type Options struct {
	Store string // directory
	Bases []*Base
	Log   *slog.Logger
	// Owner is who sends a request: the name of a key. nil: all are one, and everything is everybody's.
	Owner func(*http.Request) string

	Room    int64         // bytes that the store may have; 0: as many as the disk has, but for some
	Poll    time.Duration // how long a poll for a result is held; 20 s
	Hole    time.Duration // how long a request's number is waited for after a later one came; 20 s
	Replay  time.Duration // work after which a model is kept on disk again; 30 s
	Idle    time.Duration // a model that nobody asks anything leaves the memory; 15 min
	Body    int64         // bytes of a request, also when it is unpacked; 64 MiB: a client splits its data at five megabytes
	Journal int64         // bytes of a journal from which on it is written anew without what is kept elsewhere; 64 MiB
	Kept    int64         // results of a model that are there to be read again; 4,096
	Moments int           // weights without a name that are kept of each model; 16
	Models  int           // of one who asks in memory at a time; 16
	Layouts int           // combinations of rank and targets in memory at a time over one base; 4
}

func (o Options) withDefaults() Options {
	o.Poll, o.Hole = cmp.Or(o.Poll, 20*time.Second), cmp.Or(o.Hole, 20*time.Second)
	o.Replay, o.Idle = cmp.Or(o.Replay, 30*time.Second), cmp.Or(o.Idle, 15*time.Minute)
	o.Journal, o.Body = cmp.Or(o.Journal, 64<<20), cmp.Or(o.Body, 64<<20)
	o.Kept = cmp.Or(o.Kept, kept)
	o.Moments, o.Models, o.Layouts = cmp.Or(o.Moments, 16), cmp.Or(o.Models, 16), cmp.Or(o.Layouts, 4)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Server answers Tinker's calls.
type Server struct {
	Options
	store *store.Store
	bases map[string]*Base
	mux   *http.ServeMux
	ctx   context.Context // of everything that is computed
	stop  context.CancelFunc
	work  sync.WaitGroup

	draining chan struct{} // closed by Drain
	drain    sync.Once

	mostAsked int64 // bytes of a request to sample

	mu       sync.Mutex
	sessions map[string]*session // short
	runs     map[string]*run
	accounts map[string]*account // by the name of a key

	voicing sync.Mutex // held while a sampling session is made: two of one number may come at once

	prints map[string]provenance.Part // of the bases, by their names; these do not change
	unsure sync.Map                   // folders of adapters of which nobody knows what they go with, and whose user was told

	benchMu sync.Mutex
	benches map[benchKey]*bench
}

// New opens a server over a directory, in which it goes on where one before it stopped.
func New(o Options) (*Server, error) {
	s := &Server{Options: o.withDefaults(), bases: map[string]*Base{}, sessions: map[string]*session{}, runs: map[string]*run{},
		accounts: map[string]*account{}, benches: map[benchKey]*bench{},
		draining: make(chan struct{})}
	for _, b := range o.Bases {
		if s.bases[b.Name] != nil {
			return nil, badinput.Errorf("two models have the name %q", b.Name)
		}
		b.Tokenizer, b.Source = cmp.Or(b.Tokenizer, b.Name), cmp.Or(b.Source, b.Name)
		b.Context = cmp.Or(b.Context, b.Policy.MaxPositions)
		s.bases[b.Name] = b
		s.mostAsked = max(s.mostAsked, small+perToken*int64(b.Context))
	}
	err := s.know()
	if err != nil {
		return nil, err
	}
	if s.store, err = store.Open(o.Store); err != nil {
		return nil, err
	}
	if err := s.recall(); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.mux = s.routes()
	s.work.Go(func() {
		s.store.Expire(s.ctx, func(model string, err error) {
			s.Log.Error("a checkpoint stays that expired", "model", model, "error", err)
		})
	})
	return s, nil
}

// recall finds what a server before it kept.
func (s *Server) recall() error {
	err := s.store.All("sessions", func(text []byte) error {
		var n session
		err := json.Unmarshal(text, &n)
		s.sessions[n.ID] = n.short()
		return err
	})
	if err != nil {
		return err
	}
	runs, bad, err := s.store.Runs()
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		s.Log.Error("a model is not served", "folder", name, "error", bad[name])
	}
	for _, r := range runs {
		s.runs[r.ID] = &run{s: s, Run: r, account: s.accountLocked(s.ownerOf(r.Session))}
	}
	return err
}

// Drain answers those who wait for a result, so that they ask the next server.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// Close ends what is computed; nothing that was acknowledged is lost. The bases are their owner's.
func (s *Server) Close() error {
	s.stop()
	s.work.Wait()
	return s.store.Close()
}

// prefix begins the paths of the protocol; what stands before it is anybody's.
const prefix = "/api/v1/"

// ServeHTTP answers calls whose path has the protocol's prefix anywhere.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := strings.Index(r.URL.Path, prefix)
	if at < 0 {
		refuse(w, http.StatusNotFound, fmt.Errorf("there is nothing at %.100q; Tinker's calls are below %s", r.URL.Path, prefix))
		return
	}
	if at > 0 {
		r = r.WithContext(context.WithValue(r.Context(), mountKey{}, r.URL.Path[:at]))
		u := *r.URL
		u.Path, u.RawPath = u.Path[at:], ""
		r.URL = &u
	}
	s.mux.ServeHTTP(w, r)
}

// mountKey is the key of what stands before the prefix.
type mountKey struct{}

// mount is the address of that, whole: clients hand on what they are sent to.
func mount(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" { // of a proxy that has it
		scheme = "https"
	}
	at, _ := r.Context().Value(mountKey{}).(string)
	return scheme + "://" + r.Host + at
}

// Public reports whether a path is one that is fetched without a key: what it names is signed.
func Public(path string) bool {
	return strings.HasPrefix(path, prefix+"archives/") || path == prefix+"healthz"
}

// Own tells a gate of the paths of this server: how many bytes a request has at the most, and whether it needs no key.
func (s *Server) Own(path string) (bytes int64, public, own bool) {
	return s.Body, Public(path), strings.HasPrefix(path, prefix)
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, call := range map[string]func(*http.Request) (any, error){
		"POST client/config":                  s.config,
		"POST client/dynamic_config":          s.dynamicConfig,
		"POST auth/token":                     s.token,
		"POST create_session":                 s.createSession,
		"POST session_heartbeat":              s.heartbeat,
		"POST telemetry":                      s.telemetry,
		"GET healthz":                         s.healthz,
		"GET get_server_capabilities":         s.capabilities,
		"POST create_model":                   s.createModel,
		"POST get_info":                       s.getInfo,
		"POST unload_model":                   s.unloadModel,
		"POST forward_backward":               s.forwardBackward,
		"POST optim_step":                     s.numbered(optimStep),
		"POST save_weights":                   s.numbered(saveWeights),
		"POST load_weights":                   s.numbered(loadWeights),
		"POST save_weights_for_sampler":       s.numbered(saveForSampler),
		"POST create_sampling_session":        s.createSamplingSession,
		"POST asample":                        s.asample,
		"GET samplers/{id}":                   s.sampler,
		"POST weights_info":                   s.weightsInfo,
		"GET sessions":                        s.listSessions,
		"GET sessions/{id}":                   s.getSession,
		"GET training_runs":                   s.listRuns,
		"GET training_runs/{run}":             s.getRun,
		"GET checkpoints":                     s.listCheckpoints,
		"GET training_runs/{run}/checkpoints": s.runCheckpoints,
		"DELETE training_runs/{run}/checkpoints/{kind}/{name}":         s.deleteCheckpoint,
		"PUT training_runs/{run}/checkpoints/{kind}/{name}/ttl":        s.setTTL,
		"POST training_runs/{run}/checkpoints/{kind}/{name}/publish":   s.publish(true),
		"DELETE training_runs/{run}/checkpoints/{kind}/{name}/publish": s.publish(false),
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+prefix+path, s.answered(call))
	}
	mux.HandleFunc("POST "+prefix+"retrieve_future", s.retrieve)
	mux.HandleFunc("GET "+prefix+"training_runs/{run}/checkpoints/{kind}/{name}/archive", s.archiveAddress)
	mux.HandleFunc("GET "+prefix+"archives/{token}", s.archive)
	mux.HandleFunc(prefix, func(w http.ResponseWriter, r *http.Request) {
		if err := refusal.Method(w, r, refusal.Methods(mux, r, prefix)); err != nil {
			refuse(w, http.StatusMethodNotAllowed, err)
			return
		}
		refuse(w, http.StatusNotFound, fmt.Errorf("%s %.100q is not a call of this server", r.Method, r.URL.Path))
	})
	return mux
}
