package report

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"net/url"
	"path"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/display"
)

//go:embed list.html live.js
var liveParts embed.FS

var (
	listLayout = template.Must(display.Template("list.html").ParseFS(liveParts, "list.html"))
	liveScript = func() string {
		text, err := liveParts.ReadFile("live.js")
		if err != nil {
			panic(err) // it is embedded
		}
		return script + display.FollowScript + string(text)
	}()
)

// State is whether a process trains a run.
type State string

const (
	Running  State = "Running"
	Idle     State = "Not running"
	Complete State = "Finished" // it has done all its steps
)

// at is the state of a run, given whether a process trains it.
func (r *run) at(state State) State {
	if n := len(r.steps); state == Idle && n > 0 && r.steps[n-1].Step == r.lastStep() {
		return Complete
	}
	return state
}

// LivePage draws the page of a run for a server. A browser reloads it when the server says that something is new. name is the run's
// name in URLs. statement returns the text of a problem by its name; it may be nil.
func LivePage(dir, name string, state State, statement func(problem string) string) ([]byte, error) {
	r, err := read(dir)
	if err != nil {
		return nil, err
	}
	r.name, r.statement = name, statement
	p := r.page()
	p.Live, p.Path, p.Status = true, pathOf(name), &shownStatus{Word: string(r.at(state)), Tone: "open"}
	switch r.at(state) {
	case Idle:
		p.Status.Command = display.Visible(r.verb() + " run_dir=" + display.ShellQuote(dir))
	case Complete:
		p.Status.Tone = "good"
	}
	p.Script, p.ScriptHash = template.JS(liveScript), display.ScriptHash(liveScript)
	var b bytes.Buffer
	err = layout.Execute(&b, p)
	return b.Bytes(), err
}

// ListedRun is a run in a list of runs.
type ListedRun struct {
	Name  string
	State State
	run   *run
	why   string // why it cannot be read; "": it can
}

// ReadRun reads a run for a list.
func ReadRun(dir, name string, state State) (ListedRun, error) {
	r, err := read(dir)
	if err != nil {
		return ListedRun{}, err
	}
	return ListedRun{Name: name, State: r.at(state), run: r}, nil
}

// UnreadableRun is a run that cannot be read, for a list.
func UnreadableRun(name string, err error) ListedRun {
	return ListedRun{Name: name, State: "Cannot be read", run: &run{}, why: display.Visible(err.Error())}
}

// Path is its name as a part of a URL.
func (l ListedRun) Path() string { return pathOf(l.Name) }

func pathOf(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// Progress, Sentence and Tone are those of the headline of its page.
func (l ListedRun) Progress() string {
	if l.why != "" {
		return ""
	}
	text := l.run.progress()
	if text == "1" || strings.HasSuffix(text, " of 1") {
		return text + " step"
	}
	return text + " steps"
}

func (l ListedRun) Sentence() string { return cmp.Or(l.why, l.run.verdict().Sentence) }
func (l ListedRun) Tone() string     { return l.run.verdict().Tone }

// HeldOut is the first and the last pass rate on held-out problems; "" if there is none.
func (l ListedRun) HeldOut() string {
	var known []string
	evals, _ := l.run.alike()
	for _, e := range evals {
		known = append(known, rate(e.Greedy))
	}
	if len(known) < 2 {
		return strings.Join(known, "")
	}
	return known[0] + " → " + known[len(known)-1]
}

// Chart shows its mean reward, or of a warm-up its loss.
func (l ListedRun) Chart() *chart {
	steps := make([]int, len(l.run.steps))
	for i, s := range l.run.steps {
		steps[i] = s.Step
	}
	if len(steps) < 2 {
		return nil
	}
	p := plot{title: "Mean reward", series: []series{l.run.line("reward", "c1", earned, func(s *step) float64 { return s.Reward })}}
	if l.run.warmup() {
		p = plot{title: "Loss", series: []series{l.run.line("loss", "c1", number, func(s *step) float64 { return s.Loss })}}
	}
	if c := p.draw(evenly(steps)); c != nil && !c.Still {
		return c
	}
	return nil
}

// List draws the list of runs below some folders, as LivePage draws one.
func List(where []string, runs []ListedRun) ([]byte, error) {
	going := 0
	for _, l := range runs {
		if l.State == Running {
			going++
		}
	}
	title := count(len(runs), "run")
	if going > 0 {
		title += ", " + grouped(int64(going)) + " running"
	}
	command := ""
	if len(runs) == 0 {
		dir := path.Join(strings.Join(where[:min(len(where), 1)], ""), "first")
		title, command = "No run yet", display.Visible("grpo run_dir="+display.ShellQuote(dir))
	}
	var b bytes.Buffer
	err := listLayout.Execute(&b, struct {
		Title, Where, Command, ScriptHash string
		Script                            template.JS
		Runs                              []ListedRun
	}{title, display.Visible(strings.Join(where, ", ")), command, display.ScriptHash(liveScript), template.JS(liveScript), runs})
	return b.Bytes(), err
}
