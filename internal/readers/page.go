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

// Page is the page of a run, and the files beside it for other readers. A run is not ended because one of them cannot be
// written: what is wrong is told once, and tried again.
type Page struct {
	report.Page
	live []*live
}

// Open readies what the settings of a run ask for. Nothing is written yet. It is called before the run is begun, anew or again.
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

// wanted are the forms that a run is to be written in, and where.
func wanted(cfg *configs.Config, dir string) (all []*live) {
	if cfg.TensorBoard {
		all = append(all, &live{Form: form("tensorboard"), run: dir, dir: filepath.Join(dir, "tensorboard")})
	}
	if cfg.MLflow != "" {
		all = append(all, &live{Form: form("mlflow"), run: dir, dir: cfg.MLflow})
	}
	if os.Getenv("WANDB_PROJECT") != "" && os.Getenv("WANDB_MODE") != "disabled" {
		all = append(all, &live{Form: form("wandb"), run: dir, dir: filepath.Join(cmp.Or(os.Getenv("WANDB_DIR"), dir), "wandb")})
	}
	return all
}

// GoesOn draws the page of a run that goes on, and writes what is new.
func (p *Page) GoesOn() error { return p.write(p.Page.GoesOn()) }

// Follow is GoesOn, but that the page is left as it is if it was just drawn.
func (p *Page) Follow() error { return p.write(p.Page.Follow()) }

// Ends is the last of them, because of an error or of none.
func (p *Page) Ends(because error) error {
	err := p.write(p.Page.Ends(because))
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

// live is a form that a run is written in while it goes on.
type live struct {
	Form
	run, dir string
	before   rows.Run // that the directory had when this process began

	follower *rows.Follower // nil: nothing is open
	to       *writer
	said     string // the last error
}

// follow writes what is new, all of it at first and after the run went back.
func (l *live) follow() (err error) {
	if l.follower != nil {
		if err = l.follower.Follow(l.to); !errors.Is(err, rows.ErrCut) {
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
	if l.before.ID != "" && l.before.ID != f.ID { // it was killed before its first checkpoint, and begins anew
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

// closed closes what an error broke: next time it is written from its beginning.
func (l *live) closed(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, l.close())
}

func (l *live) close() error {
	to := l.to
	l.follower, l.to = nil, nil
	return to.close()
}

// tell is an error that was not told before.
func (l *live) tell(err error) error {
	if err == nil || err.Error() == l.said {
		return nil
	}
	l.said = err.Error()
	return fmt.Errorf("%s: %w", l.Name, err)
}
