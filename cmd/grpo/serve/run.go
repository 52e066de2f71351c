package serve

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/page"
	"github.com/seed-7879b91d/grpo/internal/sources"
)

// servedRun is a run whose policy is served. A nil recorded is none.
type servedRun struct {
	name  string // of the policy
	dir   string // as given: of the run, or of a checkpoint, which is served without updates
	base  serving.NamedDir
	every time.Duration // interval of checks for a newer checkpoint
	seen  string        // the list of checkpoints when the served one was found

	mu    sync.Mutex
	saved *grpo.Saved // the served one
}

// checkpointPoll is the interval of checks for a newer checkpoint.
var checkpointPoll = 2 * time.Second

// openRun finds the last checkpoint of the run, and takes its prompt settings.
func (f *flags) openRun() error {
	named, err := serving.ParseNamedDir(f.runs[0])
	if err != nil {
		return err
	}
	r := &servedRun{name: named.Name, dir: named.Dir, every: checkpointPoll}
	r.seen = r.list()
	if r.saved, err = open(r.dir); err != nil {
		return err
	}
	run := r.saved.Settings
	if r.base, err = serving.DefaultName(run.Model); err != nil {
		return err
	}
	f.speech = serving.PromptOptions{Renderer: run.Renderer, ChatDate: run.ChatDate, ChatVars: run.ChatVars}
	f.recorded = r
	return nil
}

func open(dir string) (*grpo.Saved, error) {
	return grpo.OpenSaved(dir, -1, screen.New(io.Discard, os.Stderr, true, false))
}

func (r *servedRun) settings() *configs.Config {
	if r == nil {
		return nil
	}
	return r.saved.Settings
}

// full reports whether the run trained all weights.
func (r *servedRun) full() bool { return r.saved.Settings.Train == "full" }

// serve adds the model and the policy to what is served.
func (r *servedRun) serve(o *serving.Options) {
	o.Models = []serving.NamedDir{r.base}
	policy := serving.NamedDir{Name: r.name, Dir: r.saved.Trained()}
	if r.full() {
		o.Models = append(o.Models, policy)
	} else {
		o.Adapters = append(o.Adapters, serving.Adapter{NamedDir: policy, Base: r.base.Name})
	}
}

// page are the options of the page at /.
func (r *servedRun) page(keys bool) page.Options {
	o := page.Options{Keys: keys}
	if r == nil {
		return o
	}
	run := r.saved.Settings
	o.Report = filepath.Join(run.RunDir, "report.html")
	o.PromptTemplate, _ = sources.PromptTemplate(run) // its file may be gone
	o.Run = func() *page.Run {
		r.mu.Lock()
		defer r.mu.Unlock()
		return &page.Run{Name: r.name, Step: r.saved.Step(), Base: r.base.Name, Trained: r.name, Temperature: run.Temperature,
			Follows: r.follows()}
	}
	return o
}

// follows reports whether newer checkpoints replace the served one: not if a checkpoint was named, and not for fully trained
// models, which would have to be in memory twice.
func (r *servedRun) follows() bool { return r.whole() && !r.full() }

// whole reports whether a run was named, and not a checkpoint.
func (r *servedRun) whole() bool {
	run, err1 := filepath.Abs(r.saved.Settings.RunDir)
	dir, err2 := filepath.Abs(r.dir)
	return err1 == nil && err2 == nil && run == dir
}

// follow serves newer checkpoints as they appear; for fully trained models it only logs them. The channel is closed when it has
// ended, after ctx.
func (r *servedRun) follow(ctx context.Context, host *serving.Host, log *slog.Logger) <-chan struct{} {
	ended := make(chan struct{})
	if r == nil || !r.whole() {
		close(ended)
		return ended
	}
	seen, said := r.seen, ""
	go func() {
		defer close(ended)
		ticks := time.NewTicker(r.every)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			now := r.list()
			if now == seen {
				continue
			}
			if r.full() {
				log.Warn("a newer checkpoint is there, a whole model (train=full); start the server again to serve it", "model", r.name)
				seen = now
				continue
			}
			switch err := r.renew(host, log); {
			case err == nil:
				seen, said = now, ""
			case err.Error() != said: // retention may be at work: try again
				said = err.Error()
				log.Warn("a newer checkpoint is not served", "why", said)
			}
		}
	}()
	return ended
}

// list names the existing checkpoints. They appear complete, by a rename.
func (r *servedRun) list() (names string) {
	entries, _ := os.ReadDir(filepath.Join(r.dir, "checkpoints"))
	for _, e := range entries {
		names += e.Name() + "\n"
	}
	return names
}

// renew serves the last checkpoint.
func (r *servedRun) renew(host *serving.Host, log *slog.Logger) error {
	newer, err := open(r.dir)
	if err != nil || newer.Dir == r.saved.Dir {
		return err
	}
	if err := host.ReplaceAdapter(r.name, newer.Trained()); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = newer
	log.Info("a newer checkpoint is served", "model", r.name, "step", newer.Step())
	return nil
}
