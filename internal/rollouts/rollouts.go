// Package rollouts is the record of a run's completions: a line of JSON for each.
package rollouts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/conversation"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// The files of a run directory that completions may be in. There are both if the run changed its setting.
const (
	PlainFile      = "rollouts.jsonl"
	CompressedFile = PlainFile + jsonl.PackedSuffix // a zstd frame for each step
)

// Line is the record of one completion.
type Line struct {
	Step      int                  `json:"step"`
	Group     int                  `json:"group"`
	Sample    int                  `json:"sample"`
	Problem   string               `json:"problem"`
	Prompt    []int32              `json:"prompt"`
	Tokens    []int32              `json:"tokens"`
	LogProbs  []float32            `json:"logprobs"`
	Text      string               `json:"text"`
	Finish    sampler.FinishReason `json:"finish_reason"`
	Score     reward.Score         `json:"score"`
	Advantage float64              `json:"advantage"`
	// Advantages are by token, if tokens differ in them.
	Advantages []float64 `json:"advantages,omitempty"`
	// Conversation is nil for a plain completion.
	Conversation *conversation.Record `json:"conversation,omitempty"`
}

// Logs are the files that a run in dir with these settings writes completions to, or that an earlier process wrote.
func Logs(cfg *configs.Config, dir string) (names []string) {
	for _, name := range []string{PlainFile, CompressedFile} {
		_, err := os.Lstat(filepath.Join(dir, name))
		if err == nil || cfg.RecordEvery() > 0 && name == writesTo(cfg) {
			names = append(names, name)
		}
	}
	return names
}

func writesTo(cfg *configs.Config) string {
	if cfg.CompressRollouts {
		return CompressedFile
	}
	return PlainFile
}

// Writer records the completions of a step, all or none as the settings say.
type Writer struct {
	to     io.Writer // nil: nothing is recorded
	packed *jsonl.Frame
	err    error // the first error
}

// NewWriter starts a step. log returns the log of that name.
func NewWriter(cfg *configs.Config, step int, log func(name string) io.Writer) *Writer {
	w := &Writer{}
	if every := cfg.RecordEvery(); every == 0 || step%every != 0 {
		return w
	}
	w.to = log(writesTo(cfg))
	if cfg.CompressRollouts {
		w.packed, w.err = jsonl.NewFrame(w.to)
	}
	return w
}

// Add writes a completion. End returns the error, if any.
func (w *Writer) Add(l Line) {
	switch {
	case w.to == nil || w.err != nil:
	case w.packed != nil:
		w.err = w.packed.Append(l)
	default:
		w.err = appendLine(w.to, l)
	}
}

func appendLine(to io.Writer, l Line) error {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = to.Write(append(text, '\n'))
	}
	return err
}

// End ends the step, and returns the first error.
func (w *Writer) End() error {
	if w.packed == nil || w.err != nil {
		return w.err
	}
	return w.packed.Close()
}

// Steps has the recorded completions of some steps: by step, by group, by sample.
type Steps struct {
	Groups   map[int][][]Line
	recorded []int // all steps on record
}

// Read reads the completions of the steps from to to of the run in dir.
func Read(dir string, from, to int) (s Steps, err error) {
	s.Groups = map[int][][]Line{}
	err = Each(dir, func(line []byte) error {
		step, err := stepOf(line)
		if n := len(s.recorded); n == 0 || s.recorded[n-1] != step {
			s.recorded = append(s.recorded, step)
		}
		if err != nil || step < from || step > to {
			return err
		}
		return s.add(line)
	})
	return s, err
}

func (s Steps) add(line []byte) error {
	var l Line
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	groups := s.Groups[l.Step]
	if l.Group == len(groups) {
		groups = append(groups, nil)
	}
	if l.Group < 0 || l.Group != len(groups)-1 || l.Sample != len(groups[l.Group]) {
		return badinput.Errorf("sample %d of group %d of step %d is not in its place", l.Sample, l.Group, l.Step)
	}
	if err := l.check(); err != nil {
		return badinput.Errorf("sample %d of group %d of step %d: %w", l.Sample, l.Group, l.Step, err)
	}
	groups[l.Group] = append(groups[l.Group], l)
	s.Groups[l.Step] = groups
	return nil
}

// check validates a line before it is trained on: turns and mask are within its tokens, and each token has its numbers.
func (l *Line) check() error {
	if len(l.Prompt) == 0 {
		return errors.New("the prompt is empty")
	}
	drawn := 0
	for _, s := range l.Conversation.Spans(0, len(l.Tokens)) {
		if s[0] < 0 || s[1] < s[0] || s[1] > len(l.Tokens) {
			return fmt.Errorf("the turns of its conversation do not stand in its %d tokens", len(l.Tokens))
		}
		drawn += s[1] - s[0]
	}
	if n := len(l.Advantages); len(l.LogProbs) != len(l.Tokens) || n > 0 && n != drawn {
		return fmt.Errorf("%d tokens, %d of them drawn, have %d log-probabilities and %d advantages, expected as many", len(l.Tokens), drawn,
			len(l.LogProbs), n)
	}
	return nil
}

// MissingError is the error for a step without completions on record. It names the setting, and the steps that have some.
func (s Steps) MissingError(step int, cfg *configs.Config) error {
	if cfg.Warmup() {
		return badinput.Errorf("step %d is one of a warm-up, which records nothing to take again; the same command with another run_dir "+
			"comes to the same bytes", step)
	}
	return badinput.Errorf("step %d has no recorded rollouts (record_rollouts=%s); recorded: %s; a step is taken again from the "+
		"checkpoint before it, and needs those of every step since", step, cfg.RecordRollouts, list(s.recorded))
}

// list formats steps as "1 to 4, 10, 20", shortened in the middle if there are many.
func list(steps []int) string {
	var parts []string
	for i := 0; i < len(steps); {
		k := i
		for k+1 < len(steps) && steps[k+1] == steps[k]+1 {
			k++
		}
		if k < i+2 {
			k = i
			parts = append(parts, fmt.Sprint(steps[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d to %d", steps[i], steps[k]))
		}
		i = k + 1
	}
	if len(parts) == 0 {
		return "none"
	}
	if n := len(parts); n > 8 {
		parts = append(append(parts[:4:4], "…"), parts[n-3:]...)
	}
	return strings.Join(parts, ", ")
}
