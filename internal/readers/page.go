package readers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/rows"
)

// Page writes the page of a run, and its record in other formats beside it. A failure to write them does not end the run:
// it is reported once, and tried again.
type Page struct {
	report.Page
	live []*liveForm
}

// Open prepares what the settings of a run ask for. It writes nothing. Call it before the run starts or resumes.
func Open(cfg *configs.Config, dir, verb string) (*Page, error) {
	p := &Page{Page: report.Page{Dir: dir, Verb: verb}}
	var before rows.Run
	if f, err := rows.Open(dir); err == nil {
		before = f.Run
	}
	for _, w := range wanted(cfg, dir) {
		w.before = before
		if err := w.Check(w.dir); err != nil {
			return p, badinput.Errorf("%s: %w", w.Name, err)
		}
		p.live = append(p.live, w)
	}
	return p, nil
}

// wanted are the formats that a run's settings ask for, and where to write them.
func wanted(cfg *configs.Config, dir string) (all []*liveForm) {
	if cfg.TensorBoard {
		all = append(all, &liveForm{Format: form("tensorboard"), run: dir, dir: filepath.Join(dir, "tensorboard")})
	}
	if cfg.MLflow != "" {
		all = append(all, &liveForm{Format: form("mlflow"), run: dir, dir: cfg.MLflow})
	}
	if os.Getenv("WANDB_PROJECT") != "" && os.Getenv("WANDB_MODE") != "disabled" {
		all = append(all, &liveForm{Format: form("wandb"), run: dir, dir: filepath.Join(cmp.Or(os.Getenv("WANDB_DIR"), dir), "wandb")})
	}
	return all
}

// Update draws the page of a run that continues, and writes what is new.
func (p *Page) Update() error { return p.write(p.Page.Update()) }

// UpdateIfDue is Update, but skips the page if it was just drawn.
func (p *Page) UpdateIfDue() error { return p.write(p.Page.UpdateIfDue()) }

// Finish writes everything for the last time; because is the error that ended the run, or nil.
func (p *Page) Finish(because error) error {
	err := p.write(p.Page.Finish(because))
	for _, l := range p.live {
		if l.follower != nil {
			err = errors.Join(err, l.tell(l.follower.Done(l.to)), l.close())
		}
	}
	return err
}

func (p *Page) write(page error) error {
	if page != nil {
		page = fmt.Errorf("%s: %w", report.File, page)
	}
	for _, l := range p.live {
		page = errors.Join(page, l.tell(l.follow()))
	}
	return page
}

// liveForm is a format that is written during the run.
type liveForm struct {
	Format
	run, dir string
	before   rows.Run // the run in the directory when this process started

	follower *rows.Follower // nil: not open
	to       *writer
	said     string // the last error
}

// follow writes what is new; at first, and after a rollback, everything.
func (l *liveForm) follow() (err error) {
	if l.follower != nil {
		if err = l.follower.Follow(l.to); !errors.Is(err, rows.ErrTruncated) {
			return l.closed(err)
		}
		if err = l.close(); err != nil {
			return err
		}
	}
	f, err := rows.Open(l.run)
	if err != nil {
		return err
	}
	if l.before.ID != "" && l.before.ID != f.ID { // the earlier run was killed before its first checkpoint, and this one started anew
		if err := l.remove(l.dir, l.before); err != nil {
			return err
		}
	}
	to, err := l.open(l.dir, f.Run)
	if err != nil {
		return err
	}
	l.follower, l.to = f, to
	if err = f.Follow(to); err == nil {
		err = to.end()
	}
	return l.closed(err)
}

// closed closes after an error: next time everything is written again.
func (l *liveForm) closed(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, l.close())
}

func (l *liveForm) close() error {
	to := l.to
	l.follower, l.to = nil, nil
	return to.close()
}

// tell returns an error unless it was reported before.
func (l *liveForm) tell(err error) error {
	if err == nil || err.Error() == l.said {
		return nil
	}
	l.said = err.Error()
	return fmt.Errorf("%s: %w", l.Name, err)
}
