package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// sample is a line of rollouts.jsonl: a recorded completion.
type sample struct {
	Step      int     `json:"step"`
	Group     int     `json:"group"`
	Sample    int     `json:"sample"`
	Problem   string  `json:"problem"`
	Finish    string  `json:"finish_reason"`
	Score     score   `json:"score"`
	Advantage float64 `json:"advantage"`

	Text json.RawMessage `json:"text"` // a string, which is rarely decoded

	Conversation *struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
		Ending string `json:"ending"`
	} `json:"conversation"` // null for a plain completion
}

// words are the text; of a conversation, each message under its role.
func (s sample) words() string {
	if s.Conversation == nil {
		var text string
		understand(s.Text, &text)
		return text
	}
	var out strings.Builder
	for i, m := range s.Conversation.Messages {
		if i > 0 {
			out.WriteString("\n\n")
		}
		fmt.Fprintf(&out, "── %s ──\n%s", m.Role, m.Content)
	}
	return out.String()
}

type score struct {
	Reward     *float64 `json:"reward"` // null if the completion is excluded
	Excluded   string   `json:"excluded"`
	Verdict    string   `json:"verdict"`
	Passed     int      `json:"passed"`
	Total      int      `json:"total"`
	Note       string   `json:"note"`
	Components struct {
		Correct float64 `json:"correct"`
	} `json:"components"`
}

// How much is read of rollouts.jsonl, which can be larger than memory, and how much is shown.
const (
	mostRollouts = 32 << 20
	mostGroups   = 4
	mostText     = 3000 // of a completion, in bytes
)

// readSamples reads the last step with recorded completions. If the run changed how it records, there are two files.
func (r *run) readSamples(dir string) error {
	if err := r.readLastStep(filepath.Join(dir, "rollouts.jsonl"), mostRollouts); err != nil {
		return err
	}
	var packed []sample
	err := jsonl.LastFrame(filepath.Join(dir, "rollouts.jsonl"+jsonl.PackedSuffix), func(line []byte) {
		if s := (sample{Advantage: nan}); understand(line, &s) {
			packed = append(packed, s)
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if len(packed) > 0 && (len(r.samples) == 0 || packed[0].Step > r.samples[0].Step) {
		r.samples = packed
	}
	return err
}

// readLastStep reads the completions of the last step, backwards from the end of the file.
func (r *run) readLastStep(path string, most int64) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for window := int64(1 << 20); ; window *= 4 {
		size := min(window, info.Size(), most)
		text := make([]byte, size)
		if _, err := f.ReadAt(text, info.Size()-size); err != nil && err != io.EOF {
			return err
		}
		if size < min(info.Size(), most) && !reaches(text) {
			continue // the step begins before this window
		}
		samples, begun := lastStep(text, size == info.Size())
		if !begun && size < most {
			continue
		}
		if !begun && len(samples) > 0 { // the first group may be incomplete
			first := samples[0].Group
			samples = slices.DeleteFunc(samples, func(s sample) bool { return s.Group == first })
		}
		r.samples = samples
		return nil
	}
}

// reaches reports whether the first complete line of a text is of another step than the last one.
func reaches(text []byte) bool {
	text = text[bytes.IndexByte(text, '\n')+1 : bytes.LastIndexByte(text, '\n')+1]
	if len(text) == 0 {
		return false
	}
	var first, last struct {
		Step int `json:"step"`
	}
	begin := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	return understand(text[:bytes.IndexByte(text, '\n')], &first) && understand(text[begin:], &last) && first.Step != last.Step
}

// lastStep returns the samples of the last step in the end of a file, in order, and whether the step begins in it.
func lastStep(text []byte, whole bool) (samples []sample, begun bool) {
	text = text[:bytes.LastIndexByte(text, '\n')+1] // drop a partly written line
	for len(text) > 0 {
		start := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
		if start == 0 && !whole {
			break
		}
		s := sample{Advantage: nan}
		if understand(text[start:], &s) {
			if len(samples) > 0 && samples[0].Step != s.Step {
				begun = true
				break
			}
			samples = append(samples, s)
		}
		text = text[:start]
	}
	slices.Reverse(samples)
	return samples, begun || whole
}

// shown is a group of the last step on the page.
type shown struct {
	Problem, Outcome string
	Statement        string // of the problem; "" if it is unknown
	Completions      []completion
}

// completion is a sample on the page.
type completion struct {
	Which, Verdict, Color, Reward, Tests, Advantage, Note, Text string
}

// groups chooses the groups of the last step whose rewards differ most, with the best and the worst completion of each.
func (r *run) groups() []shown {
	byGroup := map[int][]sample{}
	for _, s := range r.samples {
		byGroup[s.Group] = append(byGroup[s.Group], s)
	}
	type candidate struct {
		group  int
		spread float64
	}
	var chosen []candidate
	for g, samples := range byGroup {
		chosen = append(chosen, candidate{g, apartBy(samples)})
	}
	slices.SortFunc(chosen, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.spread, a.spread), cmp.Compare(a.group, b.group))
	})
	chosen = chosen[:min(len(chosen), mostGroups)]
	out := make([]shown, len(chosen))
	for i, c := range chosen {
		out[i] = showGroup(byGroup[c.group])
		if r.statement != nil {
			out[i].Statement = display.Visible(display.Truncate(r.statement(byGroup[c.group][0].Problem), mostText))
		}
	}
	return out
}

// apartBy is the range of the rewards of samples, of those that have one.
func apartBy(samples []sample) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range samples {
		if r := s.Score.Reward; r != nil {
			low, high = min(low, *r), max(high, *r)
		}
	}
	return max(high-low, 0)
}

// value is the sort key of samples; without a reward it is the lowest.
func value(s sample) float64 {
	if s.Score.Reward == nil {
		return math.Inf(-1)
	}
	return *s.Score.Reward
}

func extremes(samples []sample) (best, worst sample) {
	order := func(a, b sample) int { return cmp.Compare(value(a), value(b)) }
	return slices.MaxFunc(samples, order), slices.MinFunc(samples, order)
}

func showGroup(samples []sample) shown {
	right := 0
	for _, s := range samples {
		if s.Score.Components.Correct == 1 {
			right++
		}
	}
	g := shown{Problem: display.Visible(samples[0].Problem), Outcome: strconv.Itoa(right) + " of " + strconv.Itoa(len(samples)) + " right"}
	best, worst := extremes(samples)
	if value(best) == value(worst) {
		which := "the only one"
		if len(samples) > 1 {
			which = "one of " + strconv.Itoa(len(samples)) + ", equal in reward"
		}
		g.Completions = []completion{show(best, which)}
		return g
	}
	g.Completions = []completion{show(best, "best"), show(worst, "worst")}
	return g
}

func show(s sample, which string) completion {
	c := completion{Which: which, Verdict: display.Visible(s.Score.Verdict), Color: display.VerdictColor(s.Score.Verdict), Reward: "none",
		Text: display.Visible(display.Truncate(s.words(), mostText)), Note: display.Visible(display.Truncate(s.Score.Note, 300))}
	if c.Verdict == "" {
		c.Verdict = "not run"
	}
	if s.Score.Reward != nil {
		c.Reward = number(*s.Score.Reward)
	}
	if s.Score.Total > 0 {
		c.Tests = strconv.Itoa(s.Score.Passed) + " of " + strconv.Itoa(s.Score.Total)
	}
	if s.Advantage == s.Advantage {
		c.Advantage = signed(s.Advantage)
	}
	switch {
	case s.Score.Excluded != "":
		c.Note = "left out of its group: " + display.Visible(s.Score.Excluded) + " " + c.Note
	case s.Conversation != nil && s.Conversation.Ending != "over":
		c.Note = "ended by " + display.Visible(s.Conversation.Ending) + " " + c.Note
	case s.Finish == "length":
		c.Note = "cut off at max_tokens " + c.Note
	}
	return c
}
