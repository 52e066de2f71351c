package watch

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/samples/browser"
	"github.com/seed-7879b91d/grpo/internal/sources"
)

// runSources has the problems and tokenizers of runs whose data and model are on this machine, opened on first use.
type runSources struct {
	ctx  context.Context
	mu   sync.Mutex
	runs map[string]*runSource // by directory
}

// runSource has those of one run; nil if unknown. Opening it only blocks requests about this run.
type runSource struct {
	sync.Mutex
	problems *sources.Problems
	words    *tokenizer.Tokenizer

	opened, loaded bool
}

func newRunSources(ctx context.Context) *runSources {
	return &runSources{ctx: ctx, runs: map[string]*runSource{}}
}

func (k *runSources) of(dir string) *runSource {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.runs[dir]
	if r == nil {
		r = &runSource{}
		k.runs[dir] = r
	}
	return r
}

// find returns a problem of a run; nil if it is unknown.
func (k *runSources) find(dir, problem string) *data.Problem {
	r := k.of(dir)
	r.Lock()
	defer r.Unlock()
	if !r.opened {
		r.problems, r.opened = k.open(dir), true
	}
	if r.problems == nil {
		return nil
	}
	return r.problems.Find(problem)
}

// statement is the text of a problem of a run; "" if it is unknown.
func (k *runSources) statement(dir, problem string) string {
	if p := k.find(dir, problem); p != nil {
		return p.Statement
	}
	return ""
}

// problem is a problem with its tests.
func (k *runSources) problem(dir, name string) *browser.Problem {
	if p := k.find(dir, name); p != nil {
		return browserProblem(k.ctx, p)
	}
	return nil
}

// browserProblem is a problem in the form of the browser.
func browserProblem(ctx context.Context, p *data.Problem) *browser.Problem {
	out := &browser.Problem{Statement: p.Statement}
	tests, err := p.Tests(ctx)
	if err != nil {
		return out
	}
	for _, t := range tests {
		out.Tests = append(out.Tests, browserTest(p, &t))
	}
	return out
}

func browserTest(p *data.Problem, t *data.Test) browser.Test {
	switch p.Kind {
	case data.Call:
		args := make([]string, len(t.Args))
		for i, a := range t.Args {
			args[i] = string(a)
		}
		return browser.Test{Input: p.FuncName + "(" + strings.Join(args, ", ") + ")", Expected: string(bytes.TrimSpace(t.Returns))}
	case data.Answer:
		return browser.Test{Expected: t.Match.Want}
	case data.Assert:
		return browser.Test{Input: t.Assert}
	}
	return browser.Test{Input: t.Stdin, Expected: t.Stdout}
}

// pieces are the texts of tokens, by the tokenizer of the run's model; nil if that is unknown.
func (k *runSources) pieces(dir string, tokens []int32) []string {
	r := k.of(dir)
	r.Lock()
	if !r.loaded {
		r.words, r.loaded = k.load(dir), true
	}
	r.Unlock()
	return tokenTexts(r.words, tokens)
}

// tokenTexts returns the text of each token; nil without a tokenizer.
func tokenTexts(words *tokenizer.Tokenizer, tokens []int32) []string {
	if words == nil {
		return nil
	}
	stream := words.NewStream(false)
	texts := make([]string, len(tokens))
	for i, id := range tokens {
		if id < 0 || int(id) >= words.VocabSize() {
			return nil // they are of another model
		}
		texts[i] = stream.Push(id)
	}
	if n := len(texts); n > 0 {
		texts[n-1] += stream.Flush()
	}
	return texts
}

func settings(dir string) (*configs.Config, provenance.Parts) {
	past, err := provenance.Read(dir)
	if err != nil || !past.Known() {
		return nil, nil
	}
	cfg, start, err := past.Last()
	if err != nil {
		return nil, nil
	}
	cfg.RunDir = dir // the run may have been moved, with its copies of the data
	return cfg, start.Parts
}

// open opens the data of a run. If it cannot be read, or has changed, statements are missing from pages, which is no error.
func (k *runSources) open(dir string) *sources.Problems {
	cfg, parts := settings(dir)
	if cfg == nil {
		return nil
	}
	if _, err := os.Stat(cfg.Data); cfg.Data != sources.Embedded && err != nil {
		return nil // on the Hub: do not download for this
	}
	cfg.TestData = ""
	p, err := sources.OpenAll(k.ctx, cfg, func(string) {})
	if err != nil {
		return nil
	}
	for _, set := range p.Sets {
		if was, known := parts[set.Key]; known && was.SHA256 != set.Manifest().SHA256 {
			p.Close()
			return nil
		}
	}
	return p
}

// load opens the tokenizer of a run's model, if it is on this machine.
func (k *runSources) load(dir string) *tokenizer.Tokenizer {
	cfg, _ := settings(dir)
	if cfg == nil {
		return nil
	}
	model, err := sources.LocalModelDir(k.ctx, cfg.Model)
	if err != nil {
		return nil
	}
	words, err := tokenizer.Load(model)
	if err != nil {
		return nil
	}
	return words
}
