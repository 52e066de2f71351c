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
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/multilora"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Base is a model that adapters are trained over.
type Base struct {
	Name      string // its name for clients
	Tokenizer string // the tokenizer for clients to load, by its name on the Hub; "": Name
	Source    string // base_model_name_or_path in saved adapters, for clients who fetch them; "": Name
	Dir       string // directory of the model, whose fingerprint is saved with adapters; "": none is
	Context   int    // the longest sequence, in tokens; 0: the model's positions
	Stops     []int32
	Text      func() sampler.TextStream // decodes tokens, for stop strings

	Policy  *model.Policy
	Backend kernels.Backend
	Lock    sync.Locker // held by whoever computes on the backend
	Sampler Sampler     // samples completions
}

// Sampler samples completions for a base.
type Sampler interface {
	// Sample samples the completions of a request with an adapter; nil is the bare base. It is called by many goroutines.
	Sample(ctx context.Context, w *multilora.Adapter, r sampler.Request) ([]sampler.Rollout, error)
}

// Options of a server. All but Store and Bases may be left zero.
type Options struct {
	Store string // directory
	Bases []*Base
	Log   *slog.Logger
	// Owner is who sends a request: the name of a key. nil: all are the same, and everything is everyone's.
	Owner func(*http.Request) string

	MaxStoreBytes int64         // the most bytes of the store; 0: the disk, but for a reserve
	PollTimeout   time.Duration // how long a poll waits for a result; 20 s
	GapTimeout    time.Duration // how long a missing number is waited for after a later one came; 20 s
	SnapshotAfter time.Duration // execution time after which a snapshot is made; 30 s
	IdleTimeout   time.Duration // a model without requests for so long leaves memory; 15 min
	MaxBody       int64         // bytes of a request, after decompression; 64 MiB: clients split their data at five megabytes
	CompactAt     int64         // bytes of a journal from which on it is compacted; 64 MiB
	MaxResults    int64         // results kept per model; 4,096
	MaxUnnamed    int           // unnamed weights kept per model; 16
	MaxModels     int           // models in memory per key; 16
	MaxLayouts    int           // combinations of rank and targets in memory per base; 4
}

func (o Options) withDefaults() Options {
	o.PollTimeout, o.GapTimeout = cmp.Or(o.PollTimeout, 20*time.Second), cmp.Or(o.GapTimeout, 20*time.Second)
	o.SnapshotAfter, o.IdleTimeout = cmp.Or(o.SnapshotAfter, 30*time.Second), cmp.Or(o.IdleTimeout, 15*time.Minute)
	o.CompactAt, o.MaxBody = cmp.Or(o.CompactAt, 64<<20), cmp.Or(o.MaxBody, 64<<20)
	o.MaxResults = cmp.Or(o.MaxResults, kept)
	o.MaxUnnamed, o.MaxModels, o.MaxLayouts = cmp.Or(o.MaxUnnamed, 16), cmp.Or(o.MaxModels, 16), cmp.Or(o.MaxLayouts, 4)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Server is the handler of Tinker's calls.
type Server struct {
	Options
	store *store.Store
	bases map[string]*Base
	mux   *http.ServeMux
	ctx   context.Context // of all computation
	stop  context.CancelFunc
	work  sync.WaitGroup

	draining chan struct{} // closed by Drain
	drain    sync.Once

	mostAsked int64 // the most bytes of a request to sample

	mu       sync.Mutex
	sessions map[string]*session // in their short form
	runs     map[string]*run
	accounts map[string]*account // by key name

	samplingMu sync.Mutex // held while a sampling session is created, as the same request may come twice at once

	prints map[string]provenance.Part // fingerprints of the bases, by name; constant
	unsure sync.Map                   // adapter folders without a fingerprint that were logged

	benchMu sync.Mutex
	benches map[benchKey]*bench
}

// New opens a server over a directory, and recovers the models in it.
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
	err := s.takeFingerprints()
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
			s.Log.Error("an expired checkpoint could not be deleted", "model", model, "error", err)
		})
	})
	return s, nil
}

// recall loads the sessions and models of the store.
func (s *Server) recall() error {
	err := s.store.Each("sessions", func(text []byte) error {
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

// Drain answers waiting polls, so that they are repeated to the next server.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// Close ends all computation. Nothing that was acknowledged is lost. The bases are left open.
func (s *Server) Close() error {
	s.stop()
	s.work.Wait()
	return s.store.Close()
}

// prefix is the prefix of the protocol's paths. Anything may stand before it.
const prefix = "/api/v1/"

// ServeHTTP handles calls whose path contains the prefix.
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

// mountKey is the context key of the part of the path before the prefix.
type mountKey struct{}

// mount is the URL of that part, absolute, as clients pass it on.
func mount(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" { // set by a proxy that terminates TLS
		scheme = "https"
	}
	at, _ := r.Context().Value(mountKey{}).(string)
	return scheme + "://" + r.Host + at
}

// Public reports whether a path needs no key, as its ticket is signed.
func Public(path string) bool {
	return strings.HasPrefix(path, prefix+"archives/") || path == prefix+"healthz"
}

// PathLimits tells the gate about a path of this server: the most bytes of a request, and whether it needs no key.
func (s *Server) PathLimits(path string) (bytes int64, public, own bool) {
	return s.MaxBody, Public(path), strings.HasPrefix(path, prefix)
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
		if err := refusal.MethodError(w, r, refusal.Methods(mux, r, prefix)); err != nil {
			refuse(w, http.StatusMethodNotAllowed, err)
			return
		}
		refuse(w, http.StatusNotFound, fmt.Errorf("%s %.100q is not a call of this server", r.Method, r.URL.Path))
	})
	return mux
}
