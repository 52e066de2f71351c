// Package page is the page that a browser shows at the server's root: a chat with a model and with what was trained from it,
// side by side. It is embedded, loads nothing from other servers, and uses the public API. Calls of its own only tell what the
// run is called, how it words problems, and its report.
//
// The page itself needs no key. If the server has keys, the page asks the user for one and sends it along. The report, which a
// browser opens without a key, needs a ticket that the page gets with the key; a client that sends the key needs none.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Options of a page.
type Options struct {
	Keys           bool                       // the server has keys
	Authorized     func(context.Context) bool // whether the context's request has shown a key; nil: only a ticket opens the report
	Run            func() *Run                // nil, or returns nil: there is no run
	Report         string                     // path of the run's report; "": none
	PromptTemplate *prompt.Builder            // renders problems as the run does; nil: not offered
}

// Run is what the page shows of a run.
type Run struct {
	Name        string  `json:"name"`
	Step        int     `json:"step"` // of the policy
	Base        string  `json:"base"` // the names of the two policies to compare
	Trained     string  `json:"trained"`
	Temperature float64 `json:"temperature"` // the sampling temperature of the training
	Follows     bool    `json:"follows"`     // Step will change
	GoesOn      bool    `json:"goes_on"`     // this process is training it
}

// Page is the handler for the paths of Paths and Public.
type Page struct {
	Options
	mux     *http.ServeMux
	tickets tickets
}

//go:embed index.html page.css page.js text.js icon.svg
var files embed.FS

// policy is a Content-Security-Policy with which the page can run its own script and style, and call its own server.
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

// unknown answers paths and methods that do not exist.
func (p *Page) unknown(w http.ResponseWriter, r *http.Request) {
	if err := refusal.MethodError(w, r, refusal.Methods(p.mux, r, "/")); err != nil {
		refusal.Write(w, err)
		return
	}
	refusal.Write(w, refusal.Errorf(http.StatusNotFound, "%.100s is no part of the page", r.URL.Path))
}

// Public reports whether a path is the page's and needs no key.
func Public(path string) bool {
	return path == "/" || path == report || strings.HasPrefix(path, own) && strings.Contains(path, ".")
}

// Paths are the page's patterns for a ServeMux.
func Paths() []string { return []string{"GET /{$}", own, "GET " + report} }

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	p.mux.ServeHTTP(w, r)
}

// file serves an embedded file.
func (p *Page) file(w http.ResponseWriter, r *http.Request, name string) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "%s%.100s is no part of the page", own, name))
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	sum := sha256.Sum256(text) // the same address may be another server's later, with another page and an older start
	w.Header().Set("ETag", fmt.Sprintf("%q", hex.EncodeToString(sum[:8])))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}

// about tells the page about the run. With keys it also issues a ticket for the report.
func (p *Page) about(w http.ResponseWriter, _ *http.Request) {
	about := struct {
		Run     *Run   `json:"run,omitempty"`
		Wording bool   `json:"wording"`
		Report  string `json:"report,omitempty"`
	}{Wording: p.PromptTemplate != nil}
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

// words renders a problem as the run does.
func (p *Page) words(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Statement string `json:"statement"`
	}
	if _, err := body.Read(r, &asked); err != nil {
		refusal.Write(w, err)
		return
	}
	if p.PromptTemplate == nil {
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "no run is served, so there is no prompt template; start the server with --run DIR"))
		return
	}
	messages, err := p.PromptTemplate.Messages(&data.Problem{Statement: asked.Statement, Kind: data.Stdin})
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

// report serves the run's report as it is now.
func (p *Page) report(w http.ResponseWriter, r *http.Request) {
	known := p.Authorized != nil && p.Authorized(r.Context())
	if p.Keys && !known && !p.tickets.valid(r.URL.Query().Get("ticket")) {
		refusal.Write(w, refusal.Errorf(http.StatusUnauthorized,
			"the report opens from the page at /, which asks for a key, or with Authorization: Bearer KEY"))
		return
	}
	text, err := os.ReadFile(p.Report)
	if err != nil {
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "there is no report yet; the report of a served run is written with its first step"))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'; base-uri 'none'; form-action 'none'") // the report sets the rest itself
	w.Write(text)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
