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
	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/samples/browser"
)

// Options of a server.
type Options struct {
	Paths []string // runs, or folders with runs in them
	// Statement gives the text of a problem of the run in a directory, "" where it is not known. It may be nil.
	Statement func(dir, problem string) string
	// Samples is what is known of the completions of runs.
	Samples browser.Known
	// Keep says that the index of a large run's completions may be written beside them.
	Keep bool
	// Later says that paths which are not there may be there later. Gentle is for a process that has something else to do: what is drawn
	// takes less than a 300th of its time, and what steps do not have in numbers is as late as that needs.
	Later, Gentle bool
	// Lets tells whether a ticket is good: who asks shows it, first in the address and then as a cookie. nil: nobody needs one.
	Lets  func(ticket string) bool
	Hosts []string // the only names that requests may be sent to; nil: any
}

// Server is the handler of the pages.
type Server struct {
	Options
	mux     *http.ServeMux
	samples *browser.Browser

	mu      sync.Mutex
	runs    map[string]*run // by name
	order   []string
	changes int           // of all runs there ever were
	fresh   chan struct{} // closed with each change
	drawn   map[string]*drawing
	took    time.Duration // of the processor, the longest of the last drawings

	telling sync.Mutex
	news    map[string]*news // by name

	gauges gauges
	spent  atomic.Int64 // nanoseconds of processor time
}

// drawing is a page as it was drawn from a version of its run. Who draws it holds the lock of it, and of what is inside that of the server.
type drawing struct {
	sync.Mutex
	version string
	page    []byte
	at      time.Time
}

// What is drawn takes a small part of the time. Steps are told in numbers meanwhile.
const (
	seldom = 30  // times as long as a page took of the processor is nothing drawn, but no longer than latest
	hardly = 300 // likewise beside a trainer, but no sooner than latest
	latest = 700 * time.Millisecond
)

// pause is how long to wait before a browser is told of a change to a page: for what else changes with it, and until enough time has gone
// since it was told of another, or anybody had the page drawn. One that comes after a while is told at once.
func (s *Server) pause(name string, told time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	apart := min(seldom*s.took, latest)
	if s.Gentle {
		apart = max(hardly*s.took, latest)
	}
	if d := s.drawn[name]; d != nil && d.at.After(told) {
		told = d.at
	}
	return max(apart-time.Since(told), often)
}

// How often files are looked at, and folders for new runs; and how often a browser hears that the server is there.
const (
	often  = 200 * time.Millisecond
	rarely = 2 * time.Second
	alive  = 15 * time.Second
)

const eventsPath = "/events"

// New makes a server, which has looked once.
func New(o Options) (*Server, error) {
	s := &Server{Options: o, mux: http.NewServeMux(), runs: map[string]*run{}, fresh: make(chan struct{}), drawn: map[string]*drawing{},
		news: map[string]*news{}, samples: browser.New(o.Samples, o.Keep), gauges: gauges{runs: map[string]*gauge{}}}
	if err := s.look(true); err != nil && !s.Later {
		return nil, err
	}
	s.mux.HandleFunc("GET /{$}", s.list)
	s.mux.HandleFunc("GET /run/{name...}", s.one)
	s.mux.HandleFunc("GET /samples/{name...}", s.completions)
	s.mux.HandleFunc("GET "+eventsPath, s.events)
	s.mux.HandleFunc("GET "+metricsPath, s.metrics)
	return s, nil
}

// Runs are the names of what is there now.
func (s *Server) Runs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// Watch looks at the files until ctx ends.
func (s *Server) Watch(ctx context.Context) {
	tick := time.NewTicker(often)
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
			s.counted(func() { s.look(search) })
		}
	}
}

// look sees what is new, and wakes who waits for that. It tells of a path that is not there, and may come back.
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

// take makes the runs that were found those that are watched.
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

// Version names the state of a run, or of all for "", and what to wait for until it is another.
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

// ServeHTTP lets in who may ask.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if s.Hosts != nil && !slices.Contains(s.Hosts, strings.Trim(host, "[]")) {
		http.Error(w, "this server answers on this machine's own names only", http.StatusMisdirectedRequest)
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
	if r.URL.Path == eventsPath { // which goes on for as long as somebody looks
		s.mux.ServeHTTP(w, r)
		return
	}
	s.counted(func() { s.mux.ServeHTTP(w, r) })
}

const cookie = "grpo_watch"

// enter looks for the ticket. One in the address becomes a cookie, so that it does not stay in the address.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) bool {
	if s.Lets == nil {
		return true
	}
	if c, err := r.Cookie(cookie); err == nil && s.Lets(c.Value) {
		return true
	}
	ticket := r.URL.Query().Get("ticket")
	if !s.Lets(ticket) {
		http.Error(w, "open the address that was printed when this began; it ends in ?ticket=, and what lets in behind it", http.StatusForbidden)
		return false
	}
	if r.URL.Path == metricsPath { // who asks keeps no cookie
		return true
	}
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: ticket, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	query := r.URL.Query()
	query.Del("ticket")
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: query.Encode()} // with // before it, it would be another server's
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
	return false
}

// list draws all runs.
func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	s.page(w, "", func() ([]byte, error) {
		var listed []report.Listed
		for _, name := range s.Runs() {
			dir, state, ok := s.Where(name)
			if !ok {
				continue
			}
			l, err := report.Look(dir, name, state)
			if err != nil { // no reason to show none of the others
				l = report.Unread(name, err)
			}
			listed = append(listed, l)
		}
		return report.List(s.Paths, listed)
	})
}

// one draws a run.
func (s *Server) one(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	dir, state, ok := s.Where(name)
	if !ok {
		http.Error(w, "there is no run of that name here", http.StatusNotFound)
		return
	}
	s.page(w, name, func() ([]byte, error) {
		var statement func(string) string
		if s.Statement != nil {
			statement = func(problem string) string { return s.Statement(dir, problem) }
		}
		return report.Live(dir, name, state, statement)
	})
}

// Where is the directory of a run, and whether it goes on. One that nobody has seen is looked for.
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

// page answers with a page, which is drawn once for each version however many look.
func (s *Server) page(w http.ResponseWriter, name string, draw func() ([]byte, error)) {
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
		http.Error(w, "the run is not there any more", http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page)
	}
}

// redrawn is a page of the version that there is now.
func (s *Server) redrawn(d *drawing, name string, draw func() ([]byte, error)) ([]byte, error) {
	d.Lock()
	defer d.Unlock()
	version, _ := s.Version(name)
	if d.page != nil && d.version == version {
		return d.page, nil
	}
	at, began := time.Now(), cputime.Thread() // who asks is counted: the goroutine is locked to its thread
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
