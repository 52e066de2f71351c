package samples

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// Sample is a recorded completion: a line of the record.
type Sample struct {
	Step       int           `json:"step"`
	Group      int           `json:"group"`
	Sample     int           `json:"sample"`
	Problem    string        `json:"problem"`
	Prompt     []int32       `json:"prompt"`
	Tokens     []int32       `json:"tokens"`
	LogProbs   []float32     `json:"logprobs"`
	Text       string        `json:"text"`
	Finish     string        `json:"finish_reason"`
	Score      Score         `json:"score"`
	Advantage  *float64      `json:"advantage"`
	Advantages []float64     `json:"advantages"` // by token, if tokens differ in them
	Talk       *Conversation `json:"conversation"`
}

// Score is the score of a completion.
type Score struct {
	Reward     *float64 `json:"reward"` // nil if the completion is excluded
	Excluded   string   `json:"excluded"`
	Verdict    string   `json:"verdict"`
	Passed     int      `json:"passed"`
	Total      int      `json:"total"`
	Tests      []string `json:"tests"`
	Note       string   `json:"note"`
	CPU        float64  `json:"cpu_ms"`
	Cached     bool     `json:"cached"`
	Components struct {
		Correct float64 `json:"correct"`
	} `json:"components"`
}

// Conversation is a conversation. Its turns are the model's own tokens.
type Conversation struct {
	Turns    []Turn `json:"turns"`
	Messages []struct {
		Role      string `json:"role"`
		Name      string `json:"name"`
		Content   string `json:"content"`
		ToolCalls []struct {
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Ending string `json:"ending"`
	Judged []struct {
		Turn    int     `json:"turn"`
		Reward  float64 `json:"reward"`
		Verdict string  `json:"verdict"`
	} `json:"judged"`
}

// Turn is a range of tokens that the model sampled.
type Turn struct{ Start, End int }

// Drawn are the ranges of tokens that the model sampled: all tokens, or its turns in a conversation.
func (s *Sample) Drawn() []Turn {
	if s.Talk == nil {
		return []Turn{{0, len(s.Tokens)}}
	}
	return s.Talk.Turns
}

// length is the number of tokens in ranges.
func length(turns []Turn) (n int) {
	for _, t := range turns {
		n += max(0, t.End-t.Start)
	}
	return n
}

// Length is the number of tokens that the model sampled.
func (s *Sample) Length() int { return length(s.Drawn()) }

// MeanLogProb is the mean log-probability of these tokens; false if it is not recorded.
func (s *Sample) MeanLogProb() (mean float64, known bool) {
	n := 0
	for _, t := range s.Drawn() {
		for i := max(0, t.Start); i < min(t.End, len(s.LogProbs)); i++ {
			mean += float64(s.LogProbs[i])
			n++
		}
	}
	return mean / float64(max(n, 1)), n > 0
}

// Right reports whether the completion counts as correct.
func (s *Sample) Right() bool { return s.Score.Excluded == "" && s.Score.Components.Correct == 1 }

// mostRead is how many bytes of lines of a group are read at most.
const mostRead = 128 << 20

// Read reads the completions of a group. If a group is too large only the first ones are read, and whole is false.
func (v *View) Read(g Group) (all []Sample, whole bool, err error) {
	read, whole := int64(0), true
	err = v.index.lines(g, func(line []byte) bool {
		if read += int64(len(line)) + 1; read > mostRead && len(all) > 0 {
			whole = false
			return false
		}
		var s Sample
		if err := json.Unmarshal(line, &s); err != nil {
			var kind *json.UnmarshalTypeError
			if !errors.As(err, &kind) {
				return true // Faults lists it
			}
		}
		all = append(all, s)
		return true
	})
	if err == nil && (len(all) == 0 || all[0].Step != int(g.Step) || all[0].Group != int(g.Number)) {
		err = badinput.Errorf("%s: group %d of step %d is not where it was: the file was written anew; load the page again", files[g.File],
			g.Number, g.Step)
	}
	return all, whole, err
}

// lines calls fn with the lines of a group until fn returns false.
func (x *Index) lines(g Group, fn func(line []byte) bool) error {
	f, err := os.Open(filepath.Join(x.dir, files[g.File]))
	if err != nil {
		return badinput.Errorf("%w", err)
	}
	defer f.Close()
	var from io.Reader = io.NewSectionReader(f, g.At, g.Size)
	if g.File == packed {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		end, err := jsonl.FrameEnd(f, g.Frame, info.Size())
		if err != nil {
			return fmt.Errorf("%s: %w", files[g.File], err)
		}
		u, err := jsonl.NewUnpacker()
		if err != nil {
			return err
		}
		defer u.Close()
		if err := u.Reset(io.NewSectionReader(f, g.Frame, end-g.Frame)); err != nil {
			return fmt.Errorf("%s: %w", files[g.File], err)
		}
		if _, err := io.CopyN(io.Discard, u, g.At); err != nil {
			return fmt.Errorf("%s: %w", files[g.File], err)
		}
		from = io.LimitReader(u, g.Size)
	}
	for in := bufio.NewReaderSize(from, 1<<20); ; {
		line, _, why, err := next(in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", files[g.File], err)
		}
		if why == "" && !fn(line) {
			return nil
		}
	}
}
