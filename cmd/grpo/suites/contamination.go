package suites

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/overlap"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// Contamination says which problems of the suite occur in possible training data.
type Contamination struct {
	Against []SearchedData `json:"against"`
	Same    int            `json:"same"` // problems, each counted once
	Near    int            `json:"near"`
	// Worst are the problems most like the data, identical ones first.
	Worst []Overlap `json:"worst"`
}

// SearchedData is data that was searched.
type SearchedData struct {
	Source   string `json:"source"`
	SHA256   string `json:"sha256,omitempty"`
	Problems int    `json:"problems"`
	Failed   string `json:"failed,omitempty"` // why it could not be searched
}

// Overlap is a problem of the suite that occurs in the data.
type Overlap struct {
	Problem string  `json:"problem"`
	Other   string  `json:"other"` // in the data
	Source  string  `json:"source"`
	Share   float64 `json:"share"` // of its word n-grams; 1: identical
	same    bool
}

// mostListed is how many problems a card lists.
const mostListed = 20

// contamination searches the data of --against, or of the run's training, for the problems of the suite.
func (p *Plan) contamination(ctx context.Context, e CardInput) (*Contamination, error) {
	c := &Contamination{Worst: []Overlap{}}
	var found []Overlap
	look := func(a SearchedData, others []data.Problem) {
		a.Problems = len(others)
		c.Against = append(c.Against, a)
		found = append(found, similarQuestions(a.Source, others, e.Evaluator.HeldOut())...)
	}
	switch against := p.flags.against; {
	case slices.Equal(against, []string{"none"}):
		return nil, nil
	case len(against) > 0:
		for _, source := range against {
			a, others, err := open(ctx, source, "train")
			if err != nil { // further down than checkAgainst looked: do not lose the evaluation for it
				c.Against = append(c.Against, SearchedData{Source: source, Failed: err.Error()})
				continue
			}
			look(a, others)
		}
	case e.Run != nil:
		a, others, err := open(ctx, e.Run.Data, e.Run.DataSplit)
		if err != nil { // the run's data may be gone
			c.Against = append(c.Against, SearchedData{Source: e.Run.Data, Failed: err.Error()})
			return c, nil
		}
		look(a, others)
	default:
		return nil, nil
	}
	c.count(found)
	return c, nil
}

// checkAgainst checks, before a long evaluation, that the data of --against exists and has questions.
func (f *Flags) checkAgainst(ctx context.Context) error {
	for _, source := range f.against {
		if source == configs.DefaultPreset || slices.Equal(f.against, []string{"none"}) {
			continue
		}
		enough := errors.New("a row that asks something")
		_, err := dataset.Records(ctx, source, dataset.Options{Split: "train"}, func(r dataset.Record) error {
			if questionOf(r) != "" {
				return enough
			}
			return nil
		})
		if err == nil {
			err = nothingAsked(source)
		}
		if !errors.Is(err, enough) {
			return fmt.Errorf("--against: %w", err)
		}
	}
	return nil
}

func nothingAsked(source string) error {
	return badinput.Errorf("data %s: no row says what is asked; expected one of %s, or messages", source, strings.Join(questionColumns, ", "))
}

// count counts each problem once, by its best match.
func (c *Contamination) count(found []Overlap) {
	slices.SortStableFunc(found, func(a, b Overlap) int {
		if a.same != b.same {
			return map[bool]int{true: -1, false: 1}[a.same]
		}
		return cmp.Compare(b.Share, a.Share)
	})
	seen := map[string]bool{}
	for _, a := range found {
		if seen[a.Problem] {
			continue
		}
		if seen[a.Problem] = true; a.same {
			c.Same++
		} else {
			c.Near++
		}
		if len(c.Worst) < mostListed {
			c.Worst = append(c.Worst, a)
		}
	}
}

// open reads the questions of a data set, in whatever form its rows are.
func open(ctx context.Context, source, split string) (a SearchedData, problems []data.Problem, err error) {
	a.Source = source
	if source == configs.DefaultPreset {
		problems, _, err = tiny.Problems()
		a.SHA256 = tiny.ProblemsFingerprint(false)
		return a, problems, err
	}
	origin, err := dataset.Records(ctx, source, dataset.Options{Split: split}, func(r dataset.Record) error {
		if text := questionOf(r); text != "" {
			problems = append(problems, data.Problem{ID: nameOf(r), Statement: text})
		}
		return nil
	})
	if err == nil && len(problems) == 0 {
		err = nothingAsked(source)
	}
	a.SHA256 = origin.SHA256
	return a, problems, err
}

// texts are the columns with questions, and names those with IDs.
var (
	questionColumns = []string{"prompt", "question", "problem", "question_content", "text", "instruction", "content"}
	idColumns       = []string{"id", "task_id", "question_id"}
)

// questionOf is the question of a row: a text, or the messages of a conversation that are not the assistant's.
func questionOf(r dataset.Record) (text string) {
	for _, column := range questionColumns {
		if json.Unmarshal(r.Cells[column], &text) == nil && strings.TrimSpace(text) != "" {
			return text
		}
	}
	for _, column := range append([]string{"messages"}, questionColumns...) {
		var messages []struct{ Role, Content string }
		if json.Unmarshal(r.Cells[column], &messages) != nil {
			continue
		}
		var said []string
		for _, m := range messages {
			if m.Role != "assistant" {
				said = append(said, m.Content)
			}
		}
		return strings.TrimSpace(strings.Join(said, "\n"))
	}
	return ""
}

func nameOf(r dataset.Record) (name string) {
	for _, column := range idColumns {
		if raw := r.Cells[column]; raw != nil {
			if json.Unmarshal(raw, &name) != nil {
				name = string(raw)
			}
			return name
		}
	}
	return r.Where
}

// similarQuestions compares only the questions: the rest of a prompt, and how answers are judged, is the suite's own.
func similarQuestions(source string, others, held []data.Problem) (found []Overlap) {
	statements := func(problems []data.Problem) []data.Problem {
		bare := make([]data.Problem, len(problems))
		for i := range problems {
			bare[i] = data.Problem{ID: problems[i].ID, Statement: problems[i].Statement}
		}
		return bare
	}
	r := overlap.Find(statements(others), statements(held))
	for i := range held {
		switch {
		case r.Same[i] >= 0:
			found = append(found, Overlap{Problem: held[i].ID, Other: others[r.Same[i]].ID, Source: source, Share: 1, same: true})
		case r.Near[i] >= 0:
			found = append(found, Overlap{Problem: held[i].ID, Other: others[r.Near[i]].ID, Source: source, Share: r.Like[i]})
		}
	}
	return found
}

// String is the result in a line.
func (c *Contamination) String() string {
	if c == nil {
		return "contamination: not searched; type --against SOURCE with the training data of the model"
	}
	var where []string
	for _, a := range c.Against {
		if a.Failed != "" {
			return "contamination: unknown, as " + a.Source + " cannot be read: " + a.Failed
		}
		where = append(where, fmt.Sprintf("the %d of %s", a.Problems, a.Source))
	}
	text := fmt.Sprintf("contamination: %s among %s, and %d nearly", plural.Of(c.Same, "problem")+plural.Pick(c.Same, " is", " are"),
		strings.Join(where, " and "), c.Near)
	if len(c.Worst) > 0 {
		w, share := c.Worst[0], math.Round(100*c.Worst[0].Share)
		if w.Share < 1 { // less than all is never rounded to 100 %
			share = min(share, 99)
		}
		text += fmt.Sprintf(" (%s is %.0f %% of %s)", w.Problem, share, w.Other)
	}
	return text
}
