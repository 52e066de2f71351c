// Package browser shows the recorded completions of runs in a browser: step by step, problem by problem, and a group in detail, with
// its prompt, what failed, how the best and the worst completion differ, and how likely each token was.
package browser

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/samples"
)

//go:embed samples.html group.html samples.css samples.js
var parts embed.FS

var (
	layout = template.Must(display.Template("samples.html").ParseFS(parts, "samples.html", "group.html", "samples.css"))
	script = func() string {
		text, err := parts.ReadFile("samples.js")
		if err != nil {
			panic(err) // it is embedded
		}
		return display.ReaderScript + display.FollowScript + string(text)
	}()
)

// Lookup answers questions about runs. Any function may be nil, and any answer empty.
type Lookup struct {
	// Problem returns a problem of the run in a directory; nil if it is unknown.
	Problem func(dir, name string) *Problem
	// Pieces returns the text of each token, by the tokenizer of the run's model; joined they are the whole text.
	Pieces func(dir string, tokens []int32) []string
}

// Problem is the problem of a completion.
type Problem struct {
	Statement string
	Tests     []Test // in the order of verdicts
}

// Test is a test of a problem.
type Test struct{ Input, Expected string }

// Browser serves the pages of many runs.
type Browser struct {
	known Lookup
	keep  bool

	mu      sync.Mutex
	indexes map[string]*opened // by directory
}

type opened struct {
	*samples.Index
	used time.Time
	in   int // requests that use it
}

// mostOpen is how many indexes are kept in memory.
const mostOpen = 6

// New makes a browser. keep lets it save the index of a large run beside its files.
func New(known Lookup, keep bool) *Browser {
	return &Browser{known: known, keep: keep, indexes: map[string]*opened{}}
}

// Close closes all indexes.
func (b *Browser) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for dir, x := range b.indexes {
		x.Close()
		delete(b.indexes, dir)
	}
}

// index returns the index of a run. Call release after its use.
func (b *Browser) index(dir string) (x *opened, release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x = b.indexes[dir]
	if x == nil {
		b.forget()
		x = &opened{Index: samples.Open(dir, b.keep)}
		b.indexes[dir] = x
	}
	x.used = time.Now()
	x.in++
	return x, func() {
		b.mu.Lock()
		x.in--
		b.mu.Unlock()
	}
}

// forget closes an index that is not in use, to make room; b.mu is held.
func (b *Browser) forget() {
	var oldest string
	for dir, x := range b.indexes {
		if x.in == 0 && (oldest == "" || x.used.Before(b.indexes[oldest].used)) {
			oldest = dir
		}
	}
	if len(b.indexes) >= mostOpen && oldest != "" {
		go b.indexes[oldest].Close()
		delete(b.indexes, oldest)
	}
}

// patience is how long a page waits for a complete index, before it shows what there is.
const patience = 400 * time.Millisecond

// Run is a run, with its name in URLs.
type Run struct {
	Name, Dir string
	GoesOn    bool
}

// Serve serves a page of a run.
func (b *Browser) Serve(w http.ResponseWriter, r *http.Request, run Run) {
	x, release := b.index(run.Dir)
	defer release()
	p := &page{Run: run, ask: r.URL.Query(), view: x.View(r.Context(), patience), known: b.known, ScriptHash: display.ScriptHash(script),
		Script: template.JS(script)}
	if err := p.draw(); err != nil {
		code := http.StatusInternalServerError
		if badinput.Is(err) {
			code = http.StatusNotFound
		}
		display.HTTPError(w, r, code, err.Error())
		return
	}
	var out bytes.Buffer
	if err := layout.Execute(&out, p); err != nil {
		display.HTTPError(w, r, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(out.Bytes())
}

// page is the data of the template: one of the views.
type page struct {
	Run
	ScriptHash string
	Script     template.JS

	Title  string
	Detail string
	View   string

	Rows     []row
	Groups   []groupRow
	Problems []problemRow
	Flips    []flip
	Visits   []visit
	HeldOut  []heldFlip
	Filter   filter
	Near     *near
	Nothing  string // why there is nothing to show
	Pages    pages

	ask   url.Values
	view  *samples.View
	known Lookup
}

// draw fills the view that was asked for.
func (p *page) draw() error {
	p.View = p.ask.Get("view")
	if len(p.view.Groups) == 0 {
		p.empty()
		return nil
	}
	switch p.View {
	case "", "steps":
		p.View = "steps"
		p.steps()
	case "groups":
		p.groups()
	case "problems":
		p.problems()
	case "problem":
		p.problem()
	case "flips":
		return p.flips()
	case "group":
		return p.group()
	default:
		return badinput.Errorf("there is no view %q; expected steps, groups, problems, problem, flips or group", p.View)
	}
	return nil
}

// empty explains why a run has no completions to show.
func (p *page) empty() {
	p.Title = "No completion is recorded"
	switch {
	case p.view.Building:
		p.Title, p.Nothing = "The record is being read", "Completions appear here as they are read."
	case p.view.Err != nil:
		p.Nothing = "The record cannot be read: " + display.Visible(p.view.Err.Error()) + "."
	case p.view.Total > 0:
		p.Nothing = "The record has no complete completion yet."
	case p.GoesOn:
		p.Nothing = "The run has written none yet. With record_rollouts=none it writes none; with record_rollouts=N, those of every N-th step."
	default:
		p.Nothing = "The run wrote none: it had record_rollouts=none, or ended before its first step was complete. " +
			"With record_rollouts=all, the default, a run records all."
	}
}

// Path is the run's name as a part of a URL.
func (r Run) Path() string {
	parts := strings.Split(r.Name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// Address is the URL of a view of the run; rest are names and values in turn.
func (p *page) Address(view string, rest ...any) string {
	q := url.Values{"view": {view}}
	for i := 0; i+1 < len(rest); i += 2 {
		if v := text(rest[i+1]); v != "" {
			q.Set(text(rest[i]), v)
		}
	}
	return "/samples/" + p.Path() + "?" + q.Encode()
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case int32:
		return strconv.Itoa(int(v))
	}
	return ""
}

// number is the value of a query parameter; none if it is no number.
func (p *page) number(name string, none int) int {
	n, err := strconv.Atoi(p.ask.Get(name))
	if err != nil {
		return none
	}
	return n
}

// Called is the name of the run, for people: a folder may have any characters in its name.
func (p *page) Called() string { return display.Visible(p.Name) }

// Building reports whether the index is being built.
func (p *page) Building() bool { return p.view.Building }

// Progress is how much of the record is indexed.
func (p *page) Progress() string {
	return strconv.Itoa(int(100*p.view.Done/max(p.view.Total, 1))) + "\u00a0% of " + size(p.view.Total)
}

// Faults are the parts of the record that were skipped.
func (p *page) Faults() []samples.Fault { return p.view.Faults }

// Faulty is the number of skipped parts.
func (p *page) Faulty() int { return p.view.Faulty }

// Broken says why the rest of the record cannot be read.
func (p *page) Broken() string {
	if p.view.Err == nil || p.view.Building {
		return ""
	}
	return display.Visible(p.view.Err.Error())
}

// size formats a number of bytes.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return strconv.FormatFloat(float64(n)/1e9, 'f', 1, 64) + "\u00a0GB"
	case n >= 1e6:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + "\u00a0MB"
	}
	return strconv.FormatInt((n+999)/1000, 10) + "\u00a0kB"
}

// Here is the URL of the current view with one parameter changed.
func (p *page) Here(name string, value any) string {
	q := url.Values{}
	for key, values := range p.ask {
		q[key] = values
	}
	q.Set(name, text(value))
	return "/samples/" + p.Path() + "?" + q.Encode()
}
