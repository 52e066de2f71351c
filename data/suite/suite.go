// Package suite has the evaluation sets that papers report on: how each is laid out, which part of it is asked, in which words, how
// often and at which temperature, and how its rows become problems with tests. It knows nothing of models and of judging.
package suite

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Style is how a model is asked.
type Style string

const (
	// Chat asks in a message, and the answer has the program in a fenced block.
	Chat Style = "chat"
	// Completion gives a text that goes on with the answer, as models without a chat template take it.
	Completion Style = "completion"
)

// Suite is an evaluation set.
type Suite struct {
	Name  string
	Title string
	// Source is where it is unless another place is named: a data set on the Hub, with the splits and the collection that are read.
	Source, Split, Collection string
	Settings
	// Dated sets have a date and a difficulty for each problem, and can be cut by them.
	Dated bool
	// Unsolved sets have no solution of any problem.
	Unsolved bool
	// Shots says that examples of the set may stand in the prompt.
	Shots bool

	// read makes a problem of a row. A row that is not part of what is asked gives none.
	read func(r row, o Options) (*Item, error)
}

// Settings are how papers ask it.
type Settings struct {
	Samples     int // completions at the temperature, beside the greedy one
	K           int
	Temperature float64
	TopP        float64
	MaxTokens   int
	Shots       int // in the style Completion
	// Papers says which papers ask so.
	Papers string
}

// Item is one problem of a suite.
type Item struct {
	data.Problem
	Tests []any // as the normal form of own tasks, or a collection, writes them
	// Canonical is a text that answers the problem; "" where the set has none.
	Canonical string

	// shot says that the row is an example for prompts, and not asked.
	shot bool
	// examples of what is asked are its text and its solution.
	text, solution string
}

// About is what a problem of a suite has in its metadata.
type About struct {
	Suite      string `json:"suite"`
	Difficulty string `json:"difficulty,omitempty"`
	Date       string `json:"date,omitempty"` // as YYYY-MM-DD
	FuncName   string `json:"func_name,omitempty"`
	// Prefix is what a completion goes on from, where that is part of the program.
	Prefix string `json:"prefix,omitempty"`
}

// Of reads what a problem has in its metadata.
func Of(p *data.Problem) (a About) {
	_ = json.Unmarshal(p.Metadata, &a) // a problem of another kind has something else there
	return a
}

// Month is that of the date, as YYYY-MM.
func (a About) Month() string { return a.Date[:min(len(a.Date), 7)] }

// The names of the suites.
const (
	nameLiveCodeBench = "livecodebench"
	nameHumanEval     = "humaneval"
	nameMBPP          = "mbpp"
	nameSanitized     = "mbpp-sanitized"
	nameGSM8K         = "gsm8k"
)

// all are the suites, in the order that people are told of them.
var all = []*Suite{&liveCodeBench, &humanEval, &mbpp, &mbppSanitized, &gsm8k}

// Names are the names of the suites.
func Names() []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// Find gives the suite of that name.
func Find(name string) (*Suite, error) {
	for _, s := range all {
		if s.Name == strings.ToLower(name) {
			return s, nil
		}
	}
	return nil, badinput.Errorf("no suite %q; type one of %s", name, strings.Join(Names(), ", "))
}

// Options say which part of a suite is asked, and how.
type Options struct {
	// Source takes the place of the suite's own.
	Source string
	// From and To bound the dates of problems, both included; zero: all.
	From, To time.Time
	// Difficulty, where set, is the only one.
	Difficulty string
	Style      Style
	Shots      int
	// First, above zero, asks the first so many problems alone.
	First int
	// CacheDir is where problems are written; "" means a folder of the user's cache.
	CacheDir string
}

// Check refuses what cannot be meant of the suite.
func (s *Suite) Check(o Options) error {
	switch {
	case o.Style != Chat && o.Style != Completion:
		return badinput.Errorf("--style %s: expected chat or completion", o.Style)
	case !s.Dated && (!o.From.IsZero() || !o.To.IsZero()):
		return badinput.Errorf("--from, --to: the problems of %s have no dates; leave them out", s.Name)
	case !s.Dated && o.Difficulty != "":
		return badinput.Errorf("--difficulty %s: the problems of %s have none; leave it out", o.Difficulty, s.Name)
	case !o.From.IsZero() && !o.To.IsZero() && o.To.Before(o.From):
		return badinput.Errorf("--to %s: it is before --from %s", o.To.Format(time.DateOnly), o.From.Format(time.DateOnly))
	case s.Dated && o.Difficulty != "" && o.Difficulty != "easy" && o.Difficulty != "medium" && o.Difficulty != "hard":
		return badinput.Errorf("--difficulty %s: expected easy, medium or hard", o.Difficulty)
	case o.Shots < 0 || o.Shots > 32:
		return badinput.Errorf("--shots: found %d, expected 0 to 32", o.Shots)
	case o.Shots > 0 && !s.Shots:
		return badinput.Errorf("--shots %d: papers ask %s without examples; leave it out", o.Shots, s.Name)
	case s.Name == nameGSM8K && o.Style == Completion && o.Shots == 0:
		return badinput.Errorf("--shots 0: without an example nothing tells a model how to end an answer; type --shots 8, or --style chat")
	}
	return nil
}

// wants tells whether a problem is in the part that is asked.
func (o *Options) wants(a About) (bool, error) {
	if o.Difficulty != "" && a.Difficulty != o.Difficulty {
		return false, nil
	}
	if o.From.IsZero() && o.To.IsZero() {
		return true, nil
	}
	day, err := time.Parse(time.DateOnly, a.Date)
	if err != nil {
		return false, refuse(`"contest_date": found %q, expected a date such as 2024-08-01`, a.Date)
	}
	return !day.Before(o.From) && (o.To.IsZero() || !day.After(o.To)), nil
}

// options are how the source is read: a folder or a data set of the Hub by the splits and the collection, a file as it is.
func (s *Suite) options(o Options) (source string, opt dataset.Options) {
	opt = dataset.Options{Split: s.Split, Collections: nil}
	if o.Source == "" || s.Collection != "" && hasCollection(o.Source, s.Collection) {
		opt.Collections = collections(s.Collection)
	}
	if source = o.Source; source == "" {
		source = s.Source
	}
	return source, opt
}
