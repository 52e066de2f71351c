// Package page is what somebody sees who opens the server in a browser: a page to talk to a model and to what was trained of it,
// side by side. It is embedded, needs nothing from elsewhere, and asks the server what any client may ask; its own are only what
// a run is called, its wording, and its report.
//
// The page itself wants no key. Where the server has keys, the page asks its reader for one and sends it along, and the report,
// which a browser opens by itself, wants a ticket that the page gets with the key; a client that shows the key needs none.
package page

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Options of a page.
type Options struct {
	Keys    bool                       // who asks shows a key
	Known   func(context.Context) bool // whether the request of a context has shown one; nil: a ticket alone opens the report
	Run     func() *Run                // nil, or what it gives is: there is no run
	Report  string                     // the file of the run's report; "": none
	Wording *prompt.Builder            // how the run words problems; nil: not at all
}

// Run is what the page knows of a run.
type Run struct {
	Name        string  `json:"name"`
	Step        int     `json:"step"` // that the policy is of
	Base        string  `json:"base"` // the names of the two that are compared
	Trained     string  `json:"trained"`
	Temperature float64 `json:"temperature"` // that completions were trained at
	Follows     bool    `json:"follows"`     // Step is another later
	GoesOn      bool    `json:"goes_on"`     // it is trained by this process
}

// Page is the handler of what Public and Mine name.
type Page struct {
	Options
	mux     *http.ServeMux
	tickets tickets
}

//go:embed index.html page.css page.js text.js icon.svg
var files embed.FS

// policy lets the page run its own script, in its own style, and ask its own server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	own    = "/page/"
	report = "/report"
)

// New makes a page.
func New(o Options) *Page {
	p := &Page{Options: o, mux: http.NewServeMux(), tickets: newTickets()}
	p.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { p.file(w, r, "index.html") })
	p.mux.HandleFunc("GET "+own+"{file}", func(w http.ResponseWriter, r *http.Request) { p.file(w, r, r.PathValue("file")) })
	p.mux.HandleFunc("GET "+own+"door.json", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]bool{"keys": p.Keys}) })
	p.mux.HandleFunc("GET "+own+"about", p.about)
	p.mux.HandleFunc("POST "+own+"wording", p.words)
	p.mux.HandleFunc("GET "+report, p.report)
	p.mux.HandleFunc("/", p.unknown)
	return p
}

// unknown answers where nothing is, or not with that method.
func (p *Page) unknown(w http.ResponseWriter, r *http.Request) {
	if err := refusal.Method(w, r, refusal.Methods(p.mux, r, "/")); err != nil {
		refusal.Write(w, err)
		return
	}
	refusal.Write(w, refusal.Errorf(http.StatusNotFound, "%.100s is no part of the page", r.URL.Path))
}

// Public reports whether a path is the page's and wants no key.
func Public(path string) bool {
	return path == "/" || path == report || strings.HasPrefix(path, own) && strings.Contains(path, ".")
}

// Paths are the patterns of a ServeMux that lead to the page.
func Paths() []string { return []string{"GET /{$}", own, "GET " + report} }

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	p.mux.ServeHTTP(w, r)
}

// file gives one that is embedded.
func (p *Page) file(w http.ResponseWriter, r *http.Request, name string) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "%s%.100s is no part of the page", own, name))
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	http.ServeContent(w, r, name, started, bytes.NewReader(text))
}

// about says what there is beside the models. With keys it hands out a ticket for the report.
func (p *Page) about(w http.ResponseWriter, _ *http.Request) {
	about := struct {
		Run     *Run   `json:"run,omitempty"`
		Wording bool   `json:"wording"`
		Report  string `json:"report,omitempty"`
	}{Wording: p.Wording != nil}
	if p.Run != nil {
		about.Run = p.Run()
	}
	if p.Report != "" {
		about.Report = report
		if p.Keys {
			about.Report += "?ticket=" + p.tickets.issue()
		}
	}
	writeJSON(w, about)
}

// words puts a problem into the words of the run.
func (p *Page) words(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Statement string `json:"statement"`
	}
	if _, err := body.Read(r, &asked); err != nil {
		refusal.Write(w, err)
		return
	}
	if p.Wording == nil {
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "no run is served, so there is no wording; start the server with --run DIR"))
		return
	}
	messages, err := p.Wording.Messages(&data.Problem{Statement: asked.Statement, Kind: data.Stdin})
	if err != nil {
		refusal.Write(w, refusal.Errorf(http.StatusBadRequest, "%v", err))
		return
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var list []message
	for _, m := range messages {
		list = append(list, message{m.Role, m.Content})
	}
	writeJSON(w, map[string]any{"messages": list})
}

// report gives the run's page as it is in its directory now.
func (p *Page) report(w http.ResponseWriter, r *http.Request) {
	known := p.Known != nil && p.Known(r.Context())
	if p.Keys && !known && !p.tickets.valid(r.URL.Query().Get("ticket")) {
		refusal.Write(w, refusal.Errorf(http.StatusUnauthorized,
			"the report opens from the page at /, which asks for a key, or with Authorization: Bearer KEY"))
		return
	}
	text, err := os.ReadFile(p.Report)
	if err != nil {
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "there is no report: it is of a run that is served, and drawn with its first step"))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'; base-uri 'none'; form-action 'none'") // it says the rest itself
	w.Write(text)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
