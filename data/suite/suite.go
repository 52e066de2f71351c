// Package suite has the evaluation sets that papers report on: their format and split, the prompts, the number of samples and the
// temperature, and how rows become problems with tests. It knows nothing of models and of judging.
package suite

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Style is how a model is prompted.
type Style string

const (
	// Chat prompts by a message; the answer has the program in a fenced block.
	Chat Style = "chat"
	// Completion prompts by a text that the model continues with the answer, as base models need it.
	Completion Style = "completion"
)

// Suite is an evaluation set.
type Suite struct {
	Name  string
	Title string
	// Source is the default source: a data set on the Hub, of which Split and Collection are read.
	Source, Split, Collection string
	Settings
	// Dated sets have a date and a difficulty for each problem, by which problems can be selected.
	Dated bool
	// Unsolved sets contain no solutions.
	Unsolved bool
	// Shots says that the prompt may have few-shot examples from the set.
	Shots bool

	// read makes a problem of a row. It returns nil for a row that is not selected.
	read func(r row, o Options) (*Item, error)
}

// Settings are the defaults of an evaluation, as papers report it.
type Settings struct {
	Samples     int // completions at the temperature, in addition to the greedy one
	K           int
	Temperature float64
	TopP        float64
	MaxTokens   int
	Shots       int // for the style Completion
	// Papers cites the papers.
	Papers string
}

// Item is one problem of a suite.
type Item struct {
	data.Problem
	Tests []any // in the format of own tasks or of a known collection
	// Canonical is a correct answer; "" if the set has none.
	Canonical string

	// shot says that the row is a few-shot example and not a problem to evaluate.
	shot bool
	// text and solution are the parts of a few-shot example.
	text, solution string
}

// About is the metadata of a problem of a suite.
type About struct {
	Suite      string `json:"suite"`
	Difficulty string `json:"difficulty,omitempty"`
	Date       string `json:"date,omitempty"` // as YYYY-MM-DD
	FuncName   string `json:"func_name,omitempty"`
	// Prefix is the text that a completion continues, if that is part of the program.
	Prefix string `json:"prefix,omitempty"`
}

// Of reads the metadata of a problem.
func Of(p *data.Problem) (a About) {
	_ = json.Unmarshal(p.Metadata, &a) // other problems have other metadata
	return a
}

// Month is the month of the date, as YYYY-MM.
func (a About) Month() string { return a.Date[:min(len(a.Date), 7)] }

// The names of the suites.
const (
	nameLiveCodeBench = "livecodebench"
	nameHumanEval     = "humaneval"
	nameMBPP          = "mbpp"
	nameSanitized     = "mbpp-sanitized"
	nameGSM8K         = "gsm8k"
)

// all are the suites, in the order of messages and help.
var all = []*Suite{&liveCodeBench, &humanEval, &mbpp, &mbppSanitized, &gsm8k}

// Names are the names of the suites.
func Names() []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// Find returns a suite by its name.
func Find(name string) (*Suite, error) {
	for _, s := range all {
		if s.Name == strings.ToLower(name) {
			return s, nil
		}
	}
	return nil, badinput.Errorf("no suite %q; type one of %s", name, strings.Join(Names(), ", "))
}

// Options select a part of a suite and the prompt.
type Options struct {
	// Source, if set, replaces the source of the suite.
	Source string
	// From and To bound the dates of problems, inclusively; zero: no bound.
	From, To time.Time
	// Difficulty, if set, selects the problems of this difficulty.
	Difficulty string
	Style      Style
	Shots      int
	// First, if above zero, selects only the first problems, this many.
	First int
	// CacheDir is where problems are written; "": a folder in the user's cache.
	CacheDir string
}

// Check refuses options that are invalid for the suite.
func (s *Suite) Check(o Options) error {
	switch {
	case o.Style != Chat && o.Style != Completion:
		return badinput.Errorf("--style %s: expected chat or completion", o.Style)
	case !s.Dated && (!o.From.IsZero() || !o.To.IsZero()):
		return badinput.Errorf("--from, --to: the problems of %s have no dates; leave them out", s.Name)
	case !s.Dated && o.Difficulty != "":
		return badinput.Errorf("--difficulty %s: the problems of %s have no difficulty; leave it out", o.Difficulty, s.Name)
	case !o.From.IsZero() && !o.To.IsZero() && o.To.Before(o.From):
		return badinput.Errorf("--to %s: it is before --from %s", o.To.Format(time.DateOnly), o.From.Format(time.DateOnly))
	case s.Dated && o.Difficulty != "" && o.Difficulty != "easy" && o.Difficulty != "medium" && o.Difficulty != "hard":
		return badinput.Errorf("--difficulty %s: expected easy, medium or hard", o.Difficulty)
	case o.Shots < 0 || o.Shots > 32:
		return badinput.Errorf("--shots: found %d, expected 0 to 32", o.Shots)
	case o.Shots > 0 && !s.Shots:
		return badinput.Errorf("--shots %d: papers prompt %s without examples; leave it out", o.Shots, s.Name)
	case s.Name == nameGSM8K && o.Style == Completion && o.Shots == 0:
		return badinput.Errorf("--shots 0: a base model needs examples to know where an answer ends; type --shots 8, or --style chat")
	}
	return nil
}

// wants reports whether the options select a problem.
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

// options returns the source and how to read it: the collection is selected on the Hub, or in a folder that has it.
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
