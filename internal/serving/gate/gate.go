package gate

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Options of a gate. A limit of 0 means the default given here.
type Options struct {
	Keys    *Keys    // nil: everyone may ask
	Hosts   []string // Host headers to accept, without ports; nil: any
	Origins []string // origins of pages that may ask from a browser, such as https://example.com; nil: none but our own

	MaxBody       int64         // bytes; 4 MiB
	MaxConcurrent int           // requests in progress per key; 64
	MaxQueued     int           // requests waiting, per key; 256
	WriteTimeout  time.Duration // how long a write may block on a client that does not read; 30 s

	// PathLimits recognises the paths of a protocol that limits its own requests and polls for long: they take no slot, and their bodies
	// may have that many bytes. Public ones need no key, as what they name is signed. nil: none.
	PathLimits func(path string) (bytes int64, public, own bool)

	Log       *slog.Logger // nil: nothing is logged
	LogBodies bool         // log bodies too
	Healthy   func() error // the failure of the backend, if any; nil: there never is one
}

// Gate is a handler that passes admitted requests to another.
type Gate struct {
	Options
	Metrics  *Metrics
	next     http.Handler
	browsers *http.CrossOriginProtection
	draining atomic.Bool
	linger   time.Duration // how long to wait for more of a refused body
	readTime atomic.Int64  // nanoseconds for a body, counted from when its request starts; 0: no limit

	strangers strangerLog

	mu    sync.Mutex
	lanes map[string]*keySlots // by the name of the key
}

// New puts a gate before a handler.
func New(next http.Handler, o Options) (*Gate, error) {
	set(&o.MaxBody, 4<<20)
	set(&o.MaxConcurrent, 64)
	set(&o.MaxQueued, 256)
	set(&o.WriteTimeout, 30*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.PathLimits == nil {
		o.PathLimits = func(string) (int64, bool, bool) { return 0, false, false }
	}
	if o.Healthy == nil {
		o.Healthy = func() error { return nil }
	}
	g := &Gate{Options: o, Metrics: newMetrics(), next: next, browsers: http.NewCrossOriginProtection(), lanes: map[string]*keySlots{},
		linger: time.Second}
	for _, origin := range o.Origins {
		if err := g.browsers.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func set[T comparable](limit *T, usual T) {
	var zero T
	if *limit == zero {
		*limit = usual
	}
}

// Drain makes the gate report that it is not ready, and refuse new requests.
func (g *Gate) Drain() { g.draining.Store(true) }

// The paths that the gate answers itself. Of these only metrics needs a key.
const (
	healthz = "/healthz"
	readyz  = "/readyz"
	metrics = "/metrics"
)

// ServeHTTP admits a request, or refuses it.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := requestID(r.Header.Get("X-Request-Id"))
	h := w.Header()
	h.Set("X-Request-Id", id)
	r.Header.Set("X-Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	seen := &response{ResponseWriter: w, control: http.NewResponseController(w), stall: g.WriteTimeout, linger: g.linger, body: newIncoming(r)}
	defer seen.startWriteTime() // net/http may still write when this returns
	defer seen.drainBody()
	began, of := time.Now(), key{}
	g.Metrics.active.Inc()
	defer func() {
		g.Metrics.active.Dec()
		g.Metrics.request(r, seen.status, time.Since(began))
		if seen.status == http.StatusUnauthorized && of.name == "" {
			told, untold := g.strangers.next(began)
			if untold > 0 {
				g.Log.Info("more requests had no key that is known", "count", untold)
			}
			if !told {
				return
			}
		}
		if r.URL.Path != healthz && r.URL.Path != readyz {
			g.Log.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("id", id), slog.String("key", of.name),
				slog.String("method", r.Method), slog.String("path", printable(r.URL.Path)), slog.Int("status", seen.status),
				slog.Int64("bytes", seen.bytes), slog.Float64("seconds", time.Since(began).Seconds()))
		}
	}()
	err := g.admit(r)
	if err == nil {
		of, err = g.identify(r)
	}
	if err == nil && (of.name != "" || g.Keys == nil) {
		keepConnection(r.Context())
	}
	if of.name != "" {
		r = r.WithContext(context.WithValue(r.Context(), shownKey{}, of))
	}
	if r.Body != nil {
		r.Body = seen.body
	}
	g.setCORS(h, r)
	switch {
	case r.Method == http.MethodOptions && err == nil:
		seen.WriteHeader(http.StatusNoContent)
	case err != nil:
		refusal.Write(seen, err)
	default:
		g.pass(seen, r, of.name, id)
	}
}

// admit checks the Host and Origin of a request.
func (g *Gate) admit(r *http.Request) error {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if g.Hosts != nil && !slices.Contains(g.Hosts, host) {
		return refusal.Errorf(http.StatusMisdirectedRequest, "the server does not know the host %.100q; start it with --host to accept that "+
			"name", host)
	}
	origin := r.Header.Get("Origin")
	if origin != "" && r.Method == http.MethodOptions && !slices.Contains(g.Origins, origin) || g.browsers.Check(r) != nil {
		return refusal.Errorf(http.StatusForbidden, "web pages of %.100q may not send requests here; start the server with --origin to let "+
			"them", origin)
	}
	return nil
}

// setCORS sets the CORS headers for pages of origins that are allowed.
func (g *Gate) setCORS(h http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(g.Origins, origin) {
		return
	}
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", strings.Map(headerName, r.Header.Get("Access-Control-Request-Headers")))
		h.Set("Access-Control-Max-Age", "600")
	}
}

func headerName(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_, ", r) {
		return r
	}
	return -1
}

// pass hands a request to the next handler when it has a slot.
func (g *Gate) pass(w *response, r *http.Request, name, id string) {
	if err := readOnly(w, r); err != nil {
		refusal.Write(w, err)
		return
	}
	switch r.URL.Path {
	case healthz:
		g.writeState(w, g.Healthy())
		return
	case readyz:
		g.writeState(w, errors.Join(g.Healthy(), g.stopping()))
		return
	case metrics:
		g.Metrics.ServeHTTP(w, r)
		return
	}
	if err := g.stopping(); err != nil {
		w.Header().Set("Connection", "close")
		refusal.Write(w, err)
		return
	}
	most, _, own := g.PathLimits(r.URL.Path)
	if !own {
		most = g.MaxBody
	}
	r.Body, w.drainLimit = http.MaxBytesReader(w, r.Body, most), patience*most
	if r.ContentLength > most {
		refusal.Write(w, &http.MaxBytesError{Limit: most})
		return
	}
	if !own {
		w.setBodyTime(0)
		leave, err := g.enter(r.Context(), name)
		if err != nil {
			refusal.Write(w, err)
			return
		}
		defer leave()
		w.setBodyTime(time.Duration(g.readTime.Load()))
	}
	if g.LogBodies {
		r.Body = &logged{ReadCloser: r.Body, log: g.Log, id: id}
	}
	g.answer(w, r, id)
}

// readOnly refuses methods other than GET and HEAD for paths that the gate answers itself.
func readOnly(w http.ResponseWriter, r *http.Request) error {
	there := []string{http.MethodGet, http.MethodHead}
	if own := []string{healthz, readyz, metrics}; !slices.Contains(own, r.URL.Path) || slices.Contains(there, r.Method) {
		return nil
	}
	return refusal.MethodError(w, r, there)
}

func (g *Gate) stopping() error {
	if g.draining.Load() {
		return &refusal.Error{Status: http.StatusServiceUnavailable, Message: "the server is stopping", After: time.Second}
	}
	return nil
}

func (g *Gate) writeState(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "not ok: "+strings.ReplaceAll(err.Error(), "\n", "; ")+"\n")
		return
	}
	io.WriteString(w, "ok\n")
}

// keySlots has the slots of a key's requests.
type keySlots struct {
	work    chan struct{}
	waiting int // guarded by Gate.mu, as Gate.lanes is
}

// enter waits for a slot. Lanes are never removed: there is one for each key of a file.
func (g *Gate) enter(ctx context.Context, name string) (leave func(), err error) {
	g.mu.Lock()
	l := g.lanes[name]
	if l == nil {
		l = &keySlots{work: make(chan struct{}, g.MaxConcurrent)}
		g.lanes[name] = l
	}
	leave = func() { <-l.work }
	select {
	case l.work <- struct{}{}:
		g.mu.Unlock()
		return leave, nil
	default:
	}
	if l.waiting >= g.MaxQueued {
		g.mu.Unlock()
		g.Metrics.busy.Inc()
		return nil, refusal.Busy(time.Second, "%d requests are running and %d are waiting, which is the limit; try again "+
			"later", g.MaxConcurrent, g.MaxQueued)
	}
	l.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		l.waiting--
		g.mu.Unlock()
	}()
	select {
	case l.work <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, refusal.ContextError(ctx)
	}
}

// requestID is the client's ID if it is safe in headers and logs, else a new one.
func requestID(given string) string {
	sane := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:", r)
	}
	if given == "" || len(given) > 128 || strings.ContainsFunc(given, func(r rune) bool { return !sane(r) }) {
		return "req-" + strings.ToLower(rand.Text())
	}
	return given
}

// printable is a path, shortened for the log.
func printable(path string) string { return path[:min(len(path), 200)] }
