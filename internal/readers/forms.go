// Package readers writes the record of a run in the forms that other programs read: while it goes on, beside its page, and
// afterwards from its directory. Both are the same code, and the same bytes.
package readers

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/look"
	"github.com/seed-7879b91d/grpo/internal/rows"
	"github.com/seed-7879b91d/grpo/internal/rows/mlflow"
	"github.com/seed-7879b91d/grpo/internal/rows/tfevents"
	"github.com/seed-7879b91d/grpo/internal/rows/wandb"
)

// Form is one that a whole run is written in, below a folder.
type Form struct {
	Name string
	// Check refuses a folder that holds something else.
	Check func(dir string) error
	// Reads is the command that reads it.
	Reads func(dir string, r rows.Run) string

	open func(dir string, r rows.Run) (*writer, error)
	// alone refuses a folder in which another run would be taken for a part of this one; nil: each has a folder of its own below.
	alone func(dir string, r rows.Run) error
	// files are what a run has below the folder, and what no other run has.
	files func(dir string, r rows.Run) (names []string, err error)
}

// Forms are those that there are.
var Forms = []Form{
	{Name: "tensorboard", Check: anything, alone: noOther, open: openEvents, files: one(tfevents.Name),
		Reads: func(dir string, _ rows.Run) string { return "tensorboard --logdir " + look.Word(dir) }},
	{Name: "wandb", Check: anything, open: openLog, files: one(wandb.Folder),
		Reads: func(dir string, r rows.Run) string {
			return "wandb sync " + look.Word(filepath.Join(dir, wandb.Folder(r)))
		}},
	{Name: "mlflow", Check: mlflow.Check, open: openStore, files: mlflow.Folders,
		Reads: func(dir string, _ rows.Run) string { return "mlflow ui --backend-store-uri " + look.Word(dir) }},
}

func anything(string) error { return nil }

// noOther refuses a folder with events of another run: TensorBoard shows the files of one folder as one run.
func noOther(dir string, r rows.Run) error {
	found, _ := os.ReadDir(dir) // which need not be there
	for _, f := range found {
		if name := f.Name(); strings.HasPrefix(name, "events.out.tfevents.") && name != tfevents.Name(r) {
			return badinput.Errorf("%s: it has events of another run, %s, and TensorBoard shows a folder as one run; choose a folder for each, "+
				"such as %s", dir, name, look.Word(filepath.Join(dir, r.Name)))
		}
	}
	return nil
}

// one is the file or folder of that name.
func one(name func(rows.Run) string) func(dir string, r rows.Run) ([]string, error) {
	return func(dir string, r rows.Run) ([]string, error) { return []string{filepath.Join(dir, name(r))}, nil }
}

// remove removes a run.
func (f Form) remove(dir string, r rows.Run) error {
	all, err := f.files(dir, r)
	for _, path := range all {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// form is the one of a name that there is.
func form(name string) Form {
	for _, f := range Forms {
		if f.Name == name {
			return f
		}
	}
	panic("readers: no form " + name)
}

// Write writes what the directory of a run has on record below another one. A record that cannot be read is found before
// anything is written.
func (f Form) Write(run, dir string) (r rows.Run, err error) {
	whole, err := rows.Open(run)
	if err == nil {
		err = whole.Follow(nobody{})
	}
	if err == nil && whole.Empty() {
		err = badinput.Errorf("%s has no steps on record yet", run)
	}
	if err == nil && f.alone != nil {
		err = f.alone(dir, whole.Run)
	}
	if err != nil {
		return r, err
	}
	l := live{Form: f, run: run, dir: dir}
	if err = l.follow(); err != nil {
		return r, err
	}
	err = l.follower.Done(l.to)
	return whole.Run, errors.Join(err, l.close())
}

// nobody writes nothing.
type nobody struct{}

func (nobody) Start(rows.Start) error { return nil }
func (nobody) Row(rows.Row) error     { return nil }
func (nobody) Done(time.Time) error   { return nil }

// writer writes below a folder. What was there besides is cut off by end, and what is said from then on is added.
type writer struct {
	rows.Sink
	end, close func() error
}

func openEvents(dir string, r rows.Run) (*writer, error) {
	return keep(filepath.Join(dir, tfevents.Name(r)), func(to io.Writer) (rows.Sink, error) { return tfevents.New(to, r) })
}

func openLog(dir string, r rows.Run) (*writer, error) {
	about := wandb.Environment(os.Getenv)
	return keep(filepath.Join(dir, wandb.Path(r)), func(to io.Writer) (rows.Sink, error) { return wandb.New(to, r, about) })
}

func openStore(dir string, r rows.Run) (*writer, error) {
	s, err := mlflow.New(dir, r, os.Getenv("MLFLOW_EXPERIMENT_NAME"))
	if err != nil {
		return nil, err
	}
	return &writer{s, s.End, s.Close}, nil
}

// keep is a writer of one file.
func keep(path string, open func(io.Writer) (rows.Sink, error)) (*writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	k, err := rows.Keep(path)
	if err != nil {
		return nil, err
	}
	to, err := open(k)
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return &writer{to, k.End, k.Close}, nil
}
