package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/samples/browser"
)

// Options of a server.
type Options struct {
	Paths []string // runs, or folders with runs
	// Statement returns the text of a problem of the run in a directory, "" if it is unknown. It may be nil.
	Statement func(dir, problem string) string
	// Samples answers what is known of the completions of runs.
	Samples browser.Lookup
	// WriteIndex lets the server write the index of a large run's completions into its directory.
	WriteIndex bool
	// AllowMissing says that missing paths may appear later. LowPriority is for a server inside a trainer: drawing takes at most a 300th of
	// the time, and what is not sent as data with each step is delayed accordingly.
	AllowMissing, LowPriority bool
	// Authorize reports whether a ticket is valid. A client shows it in the URL first, and then as a cookie. nil: none is needed.
	Authorize func(ticket string) bool
	Hosts     []string // host names to accept; nil: any
}

// Server is the handler of the pages.
type Server struct {
	Options
	mux     *http.ServeMux
	samples *browser.Browser

	mu      sync.Mutex
	runs    map[string]*run // by name
	order   []string
	changes int           // of all runs, those removed included
	fresh   chan struct{} // closed and replaced at each change
	drawn   map[string]*drawing
	took    time.Duration // processor time, the longest of the last drawings

	telling sync.Mutex
	news    map[string]*news // by name

	gauges gauges
	spent  atomic.Int64 // nanoseconds of processor time
}

// drawing is a cached page, with its version. Its lock is held while it is drawn; the server's lock guards the fields below, too.
type drawing struct {
	sync.Mutex
	version string
	page    []byte
	at      time.Time
}

// Drawing is limited to a small share of the time. In between, steps are sent as data.
const (
	pauseFactor       = 30  // between drawings, in multiples of their processor time; at most latest
	gentlePauseFactor = 300 // the same beside a trainer; at least latest
	latest            = 700 * time.Millisecond
)

// pause is how long to wait before a browser is told that a page changed: until related changes are written, and until enough time has
// passed since it was last told, or the page was drawn. After a quiet while it is told at once.
func (s *Server) pause(name string, told time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	apart := min(pauseFactor*s.took, latest)
	if s.LowPriority {
		apart = max(gentlePauseFactor*s.took, latest)
	}
	if d := s.drawn[name]; d != nil && d.at.After(told) {
		told = d.at
	}
	return max(apart-time.Since(told), minPause)
}

// Intervals for checking files, for searching folders for new runs, and for keeping event streams alive.
const (
	minPause = 200 * time.Millisecond
	rarely   = 2 * time.Second
	alive    = 15 * time.Second
)

const eventsPath = "/events"

// New makes a server, after one search for runs.
func New(o Options) (*Server, error) {
	s := &Server{Options: o, mux: http.NewServeMux(), runs: map[string]*run{}, fresh: make(chan struct{}), drawn: map[string]*drawing{},
		news: map[string]*news{}, samples: browser.New(o.Samples, o.WriteIndex), gauges: gauges{runs: map[string]*gauge{}}}
	if err := s.look(true); err != nil && !s.AllowMissing {
		return nil, err
	}
	s.mux.HandleFunc("GET /{$}", s.list)
	s.mux.HandleFunc("GET /run/{name...}", s.runPage)
	s.mux.HandleFunc("GET /samples/{name...}", s.completions)
	s.mux.HandleFunc("GET "+eventsPath, s.events)
	s.mux.HandleFunc("GET "+metricsPath, s.metrics)
	s.mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		display.HTTPError(w, r, http.StatusNotFound, "there is no page at "+r.URL.Path)
	})
	return s, nil
}

// Runs are the names of the current runs.
func (s *Server) Runs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// Watch checks the files until ctx ends.
func (s *Server) Watch(ctx context.Context) {
	tick := time.NewTicker(minPause)
	defer tick.Stop()
	for searched := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			search := now.Sub(searched) >= rarely
			if search {
				searched = now
			}
			s.countTime(func() { s.look(search) })
		}
	}
}

// look checks for changes, and wakes who waits for them. Its error is about paths that are missing, and may come back.
func (s *Server) look(search bool) (err error) {
	var found []run
	if search {
		found, err = find(s.Paths)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	if search {
		changed = s.take(found)
	}
	now := time.Now()
	for _, r := range s.runs {
		if r.see(now) {
			s.changes++
			r.version, changed = s.changes, true
		}
	}
	if changed {
		close(s.fresh)
		s.fresh = make(chan struct{})
	}
	return err
}

// take replaces the list of runs by those that were found.
func (s *Server) take(found []run) (changed bool) {
	runs, order := map[string]*run{}, []string{}
	for _, f := range found {
		old := s.runs[f.name]
		if old == nil || old.dir != f.dir {
			old, changed = &f, true
		}
		runs[f.name], order = old, append(order, f.name)
	}
	changed = changed || len(runs) != len(s.runs)
	s.runs, s.order = runs, order
	maps.DeleteFunc(s.drawn, func(name string, _ *drawing) bool { return name != "" && runs[name] == nil })
	return changed
}

// Version identifies the state of a run, or of all for "". fresh is closed at the next change.
func (s *Server) Version(name string) (version string, fresh <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[name]; r != nil {
		return fmt.Sprint(r.version), s.fresh
	}
	var all strings.Builder
	for _, n := range s.order {
		fmt.Fprintf(&all, "%s %d\n", n, s.runs[n].version)
	}
	return all.String(), s.fresh
}

// ServeHTTP serves the pages, if the request may see them.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if s.Hosts != nil && !slices.Contains(s.Hosts, strings.Trim(host, "[]")) {
		display.HTTPError(w, r, http.StatusMisdirectedRequest, "this server answers on this machine's own names only")
		return
	}
	if !s.enter(w, r) {
		return
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if r.URL.Path == eventsPath { // an event stream, which takes as long as somebody watches
		s.mux.ServeHTTP(w, r)
		return
	}
	s.countTime(func() { s.mux.ServeHTTP(w, r) })
}

const cookie = "grpo_watch"

// enter checks the ticket. One in the URL is moved to a cookie.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) bool {
	if s.Authorize == nil {
		return true
	}
	if c, err := r.Cookie(cookie); err == nil && s.Authorize(c.Value) {
		return true
	}
	ticket := r.URL.Query().Get("ticket")
	if !s.Authorize(ticket) {
		display.HTTPError(w, r, http.StatusForbidden, "open the address that was printed at the start; it ends in ?ticket= and the ticket")
		return false
	}
	if r.URL.Path == metricsPath { // Prometheus keeps no cookies
		return true
	}
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: ticket, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	query := r.URL.Query()
	query.Del("ticket")
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: query.Encode()} // a path with // would name another host
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
	return false
}

// list draws the list of runs.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.page(w, r, "", func() ([]byte, error) {
		var listed []report.ListedRun
		for _, name := range s.Runs() {
			dir, state, ok := s.Where(name)
			if !ok {
				continue
			}
			l, err := report.ReadRun(dir, name, state)
			if err != nil { // show the others nevertheless
				l = report.UnreadableRun(name, err)
			}
			listed = append(listed, l)
		}
		return report.List(s.Paths, listed)
	})
}

// runPage draws the page of a run.
func (s *Server) runPage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	dir, state, ok := s.Where(name)
	if !ok {
		display.HTTPError(w, r, http.StatusNotFound, "there is no run with that name here")
		return
	}
	s.page(w, r, name, func() ([]byte, error) {
		var statement func(string) string
		if s.Statement != nil {
			statement = func(problem string) string { return s.Statement(dir, problem) }
		}
		return report.LivePage(dir, name, state, statement)
	})
}

// Where returns the directory of a run and its state. A run that was not seen yet is searched for.
func (s *Server) Where(name string) (dir string, state report.State, ok bool) {
	if dir, state, ok = s.seen(name); !ok {
		s.look(true)
		dir, state, ok = s.seen(name)
	}
	return dir, state, ok
}

func (s *Server) seen(name string) (dir string, state report.State, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.runs[name]
	if !ok {
		return "", "", false
	}
	return r.dir, r.state, true
}

// page serves a page, which is drawn once per version, for all browsers.
func (s *Server) page(w http.ResponseWriter, r *http.Request, name string, draw func() ([]byte, error)) {
	s.mu.Lock()
	d := s.drawn[name]
	if d == nil {
		d = &drawing{}
		s.drawn[name] = d
	}
	s.mu.Unlock()
	page, err := s.redrawn(d, name, draw)
	switch {
	case errors.Is(err, os.ErrNotExist):
		display.HTTPError(w, r, http.StatusNotFound, "the run no longer exists")
	case err != nil:
		display.HTTPError(w, r, http.StatusInternalServerError, err.Error())
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page)
	}
}

// redrawn is the page of the current version.
func (s *Server) redrawn(d *drawing, name string, draw func() ([]byte, error)) ([]byte, error) {
	d.Lock()
	defer d.Unlock()
	version, _ := s.Version(name)
	if d.page != nil && d.version == version {
		return d.page, nil
	}
	at, began := time.Now(), cputime.Thread() // the goroutine is locked to its thread, whose time is measured
	page, err := draw()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.version, d.page, d.at = version, page, at
	s.took = max(cputime.Thread()-began, s.took/2)
	return page, nil
}
