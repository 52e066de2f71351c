package suite

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cachedir"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/notice"
)

// Built is the selected part of a suite, written as own tasks.
type Built struct {
	Suite   *Suite
	Options Options
	// Tasks is the file of problems in normal form, Template that of the prompt; "": the default prompt is used.
	Tasks, Template string
	// Source is the data set that was read, and Origin its fingerprint.
	Source string
	Origin dataset.Origin
	// Prompt is the text of the prompt template.
	Prompt string
	// Refused are the problems whose tests have no known shape; they are left out.
	Refused []dataset.Refused
}

// layout must change whenever the problems are written differently.
const layout = 1

// Build writes the selected problems and the prompt template, unless an earlier call wrote them for the same source and options.
func (s *Suite) Build(ctx context.Context, o Options) (*Built, error) {
	if err := s.Check(o); err != nil {
		return nil, err
	}
	source, opt := s.options(o)
	b := &Built{Suite: s, Options: o, Source: source}
	var err error
	if b.Origin, err = dataset.OriginOf(ctx, source, opt); err != nil {
		if o.Source == "" {
			err = fmt.Errorf("--suite %s: %w; or type --data with a copy of it", s.Name, err)
		}
		return nil, err
	}
	dir := o.CacheDir
	if dir == "" {
		var why string
		if dir, why, err = cachedir.Find(filepath.Join("grpo", "suites")); err != nil {
			return nil, badinput.Errorf("no folder for the problems of %s: %w", s.Name, err)
		}
		notice.Warn(ctx, why)
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, badinput.Errorf("no folder for the problems of %s: %w", s.Name, err)
	}
	shots, err := s.shots(ctx, o)
	if err != nil {
		return nil, err
	}
	b.Prompt = s.wording(o, shots)
	key := fmt.Sprintf("%d %s %s %q %q %s %s %s %d %q", layout, s.Name, b.Origin.SHA256, o.From.Format(time.DateOnly),
		o.To.Format(time.DateOnly), o.Difficulty, o.Style, source, o.First, b.Prompt)
	stem := filepath.Join(dir, fmt.Sprintf("%s-%.16x", s.Name, sha256.Sum256([]byte(key))))
	b.Tasks = stem + ".jsonl"
	if b.Prompt != "" {
		b.Template = stem + ".tmpl"
		if err := atomicfile.WriteBytes(b.Template, []byte(b.Prompt+"\n")); err != nil {
			return nil, err
		}
	}
	if text, err := os.ReadFile(stem + ".json"); err == nil && json.Unmarshal(text, &b.Refused) == nil {
		if _, err := os.Stat(b.Tasks); err == nil {
			return b, nil
		}
	}
	if b.Refused, err = s.normalise(ctx, b.Tasks, o); err != nil {
		return nil, err
	}
	text, err := json.Marshal(b.Refused)
	if err != nil {
		return nil, err
	}
	return b, atomicfile.WriteBytes(stem+".json", append(text, '\n')) // written last: without it all files are made again
}

// normalise writes the problems in normal form, and returns those that it refused.
func (s *Suite) normalise(ctx context.Context, path string, o Options) (refused []dataset.Refused, err error) {
	dir, done, err := atomicfile.TempDir(filepath.Join(filepath.Dir(path), "suite")) // also removes what killed processes left
	if err != nil {
		return nil, err
	}
	defer done()
	rows := filepath.Join(dir, s.Name+".jsonl")
	var unread error
	if err := atomicfile.Write(rows, func(w io.Writer) error {
		unread = s.write(ctx, w, o)
		return unread
	}); err != nil {
		return nil, cmp.Or(unread, err) // a fault of a row without the name of the temporary file
	}
	set, err := dataset.Open(ctx, rows, dataset.Options{CacheDir: dir, Empty: true})
	if err != nil {
		return nil, badinput.Errorf("--suite %s: %w", s.Name, err)
	}
	defer set.Close()
	refused = append([]dataset.Refused{}, set.Manifest().Refused...)
	for i := range refused {
		refused[i].Where = "problem " + strings.TrimPrefix(refused[i].Where, rows+":")
	}
	if len(set.Problems()) == 0 {
		return nil, badinput.Errorf("--suite %s: no problem is left to ask; the first of %d refused: %w", s.Name, len(refused), &refused[0])
	}
	return refused, atomicfile.Result(path, func(w io.Writer) error { return set.WriteNormal(ctx, w) })
}

// line is a problem as a line of own tasks.
type line struct {
	ID       string          `json:"id"`
	Source   string          `json:"source,omitempty"`
	Prompt   string          `json:"prompt"`
	Starter  string          `json:"starter_code,omitempty"`
	FuncName string          `json:"fn_name,omitempty"`
	Metadata json.RawMessage `json:"metadata"`
	Tests    []any           `json:"tests"`
}

func (s *Suite) write(ctx context.Context, w io.Writer, o Options) error {
	out, n := bufio.NewWriterSize(w, 1<<20), 0
	err := s.Each(ctx, o, func(p Item) error {
		n++
		text, err := jsonl.Marshal(line{p.ID, p.Source, p.Statement, p.StarterCode, p.FuncName, p.Metadata, p.Tests})
		if err != nil {
			return err
		}
		out.Write(append(text, '\n')) // Flush reports the first error
		return nil
	})
	if err == nil && n == 0 {
		err = badinput.Errorf("--suite %s: none of the problems is asked; look at --from, --to and --difficulty", s.Name)
	}
	return cmp.Or(err, out.Flush())
}

// errStopReading stops the reading of a set early.
var errStopReading = errors.New("enough")

// Each calls fn with every selected problem, in the order of the set. A row that cannot be read is an error.
func (s *Suite) Each(ctx context.Context, o Options, fn func(Item) error) error {
	source, opt := s.options(o)
	n, seen := 0, map[string]string{}
	_, err := dataset.Records(ctx, source, opt, func(r dataset.Record) error {
		item, err := s.read(newRow(r), o)
		if err != nil {
			return badinput.Errorf("--suite %s: %w; name the set with --data", s.Name, located(r, err))
		}
		if item == nil || item.shot {
			return nil
		}
		if n++; item.ID == "" {
			item.ID = fmt.Sprintf("%s/%d", s.Name, n)
		}
		if first, twice := seen[item.ID]; twice {
			return badinput.Errorf("--suite %s: %s: the problem %s is there twice, first in %s", s.Name, r.Where, item.ID, first)
		}
		seen[item.ID] = r.Where
		if err := fn(*item); err != nil {
			return err
		}
		if n == o.First {
			return errStopReading
		}
		return nil
	})
	if errors.Is(err, errStopReading) {
		err = nil
	}
	return err
}

// shots are the few-shot examples of the prompt: for MBPP tasks outside the test split, for other sets the start of the train split.
func (s *Suite) shots(ctx context.Context, o Options) (shots []Item, err error) {
	if o.Shots == 0 {
		return nil, nil
	}
	source, opt := s.options(o)
	apart := s.Split != "all"
	if apart {
		opt.Split = "train"
	}
	if info, err := os.Stat(source); apart && err == nil && !info.IsDir() {
		return nil, badinput.Errorf("--shots %d: examples come from the train split, but %s is one file; name the folder with both splits, "+
			"or type --shots 0 --style chat", o.Shots, source)
	}
	_, err = dataset.Records(ctx, source, opt, func(r dataset.Record) error {
		item, err := s.read(newRow(r), o)
		if err != nil {
			return located(r, err)
		}
		if item != nil && (apart || item.shot) {
			shots = append(shots, *item)
		}
		if apart && len(shots) == o.Shots {
			return errStopReading
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStopReading) {
		return nil, badinput.Errorf("--shots %d: %w; or type --shots 0 --style chat", o.Shots, err)
	}
	slices.SortStableFunc(shots, func(a, b Item) int { return cmp.Compare(exampleOrder(a), exampleOrder(b)) })
	if len(shots) < o.Shots {
		return nil, badinput.Errorf("--shots %d: %s has only %d examples besides the problems; type --shots "+
			"%d", o.Shots, source, len(shots), len(shots))
	}
	return shots[:o.Shots], nil
}

// exampleOrder sorts the examples that papers use first.
func exampleOrder(p Item) int {
	for i, task := range exampleTasks {
		if p.ID == fmt.Sprintf("%s/%d", nameMBPP, task) || p.ID == fmt.Sprintf("%s/%d", nameSanitized, task) {
			return i
		}
	}
	return len(exampleTasks)
}
