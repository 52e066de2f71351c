// Package report writes a self-contained page about a run for people: report.html.
//
// It does not know the trainer. It reads the files of a run directory by their documented keys. What is missing there (in
// a run that just began, in a partly written line, in the record of an older version) is missing on the page, and is no
// error. Failing to read a file is.
package report

import (
	"bytes"
	"embed"
	"html/template"
	"strconv"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// File is the name of the page in the run directory.
const File = "report.html"

//go:embed page.html charts.html comparison.html page.js
var parts embed.FS

var (
	layout = template.Must(display.Template("page.html").ParseFS(parts, "page.html", "charts.html"))
	script = display.ReaderScript + part("page.js")
)

func part(name string) string {
	text, err := parts.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// page is the data of the template.
type page struct {
	Name, Title, ScriptHash string
	Script                  template.JS

	Verdict     verdict
	Facts       []fact
	Outcomes    []outcome
	BeforeAfter []before
	HeldOut     int
	Checks      []check
	Sections    []section
	Rules       []rule // that hold
	Once        []rule // that held once
	Deeds       []shownDeed
	Changes     []shownChange
	SampleStep  int
	Groups      []shown
	Status      *shownStatus
	Live        bool   // a server draws it, again and again
	Path        string // of the run, in a server's URLs
	Command     string // shows all completions
	Checkpoints []checkpoint
	Kept        string // how many of the checkpoints still exist
	Config      string
	Manifest    string
	Unread      []string
}

// render draws a run from its directory.
func render(dir string, now status, statement func(problem string) string) ([]byte, error) {
	r, err := read(dir)
	if err != nil {
		return nil, err
	}
	r.statement = statement
	p := r.page()
	p.Command = display.Visible("grpo samples " + display.ShellQuote(dir))
	if p.Status = now.shown(); p.Status != nil && p.Status.GoesOn {
		p.Title += ", running"
	}
	var b bytes.Buffer
	err = layout.Execute(&b, p)
	return b.Bytes(), err
}

const mostDocument = 24 << 10 // of config.json or manifest.json, in bytes

func (r *run) page() page {
	p := page{
		Name: display.Visible(r.name), Script: template.JS(script), ScriptHash: display.ScriptHash(script),
		Verdict: r.verdict(), Facts: r.facts(), Outcomes: r.outcomes(), BeforeAfter: r.beforeAfter(), Checks: r.checks(),
		Sections: r.sections(), Groups: r.groups(), Unread: r.unread,
		Config:   display.Visible(display.Truncate(string(r.config), mostDocument)),
		Manifest: display.Visible(display.Truncate(string(r.manifest), mostDocument)),
	}
	p.Rules, p.Once = r.rules()
	p.Deeds, p.Changes = r.piloted(), r.changed()
	p.Title = r.title()
	if n := len(r.evals); n > 0 {
		p.HeldOut = r.evals[n-1].Problems
	}
	if len(r.samples) > 0 {
		p.SampleStep = r.samples[0].Step
	}
	p.Checkpoints, p.Kept = r.listed()
	return p
}

func (r *run) title() string { return display.Visible(r.name) + ": " + r.progress() + " steps" }

// Columns is the number of charts side by side.
func (s section) Columns() string { return strconv.Itoa(min(len(s.Charts), 2)) }
