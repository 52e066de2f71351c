package watch

import (
	"context"
	"os"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/sources"
)

// statements are the texts of the problems of runs whose data is on this machine, read when they are first asked for.
type statements struct {
	ctx   context.Context
	mu    sync.Mutex
	known map[string]*sources.Problems // by the run's directory; nil where they are not known
}

func newStatements(ctx context.Context) *statements {
	return &statements{ctx: ctx, known: map[string]*sources.Problems{}}
}

// of is the text of a problem of a run; "" where it is not known.
func (s *statements) of(dir, problem string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, read := s.known[dir]
	if !read {
		p = s.read(dir)
		s.known[dir] = p
	}
	if p == nil {
		return ""
	}
	return p.Statement(problem)
}

// read opens the data of a run. What cannot be read leaves statements out of a page, and is no reason to fail.
func (s *statements) read(dir string) *sources.Problems {
	past, err := provenance.Read(dir)
	if err != nil || !past.Known() {
		return nil
	}
	cfg, _, err := past.Last()
	if err != nil {
		return nil
	}
	if _, err := os.Stat(cfg.Data); cfg.Data != "tiny" && err != nil {
		return nil // on the Hub: who looks at a run downloads nothing
	}
	cfg.TestData = ""
	p, err := sources.OpenAll(s.ctx, cfg, func(string) {})
	if err != nil {
		return nil
	}
	return p
}
