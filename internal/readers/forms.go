// Package readers writes the record of a run in the formats of other programs: during the run, beside its page, and
// afterwards from its directory. Both use the same code, and give the same bytes.
package readers

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/rows"
	"github.com/seed-7879b91d/grpo/internal/rows/mlflow"
	"github.com/seed-7879b91d/grpo/internal/rows/tfevents"
	"github.com/seed-7879b91d/grpo/internal/rows/wandb"
)

// Format is a format for a whole run, written below a folder.
type Format struct {
	Name string
	// Check refuses a folder that holds something else.
	Check func(dir string) error
	// ReadCommand is the command that reads the format.
	ReadCommand func(dir string, r rows.Run) string

	open func(dir string, r rows.Run) (*writer, error)
	// alone refuses a folder with another run, if both would be read as one; nil: each run has a folder of its own below.
	alone func(dir string, r rows.Run) error
	// files are the names of this run's files below the folder.
	files func(dir string, r rows.Run) (names []string, err error)
}

// Formats are the formats.
var Formats = []Format{
	{Name: "tensorboard", Check: acceptAny, alone: refuseOtherRun, open: openEvents, files: singleFile(tfevents.Name),
		ReadCommand: func(dir string, _ rows.Run) string { return "tensorboard --logdir " + display.ShellQuote(dir) }},
	{Name: "wandb", Check: acceptAny, open: openLog, files: singleFile(wandb.Folder),
		ReadCommand: func(dir string, r rows.Run) string {
			return "wandb sync " + display.ShellQuote(filepath.Join(dir, wandb.Folder(r)))
		}},
	{Name: "mlflow", Check: mlflow.Check, open: openStore, files: mlflow.Folders,
		ReadCommand: func(dir string, _ rows.Run) string { return "mlflow ui --backend-store-uri " + display.ShellQuote(dir) }},
}

func acceptAny(string) error { return nil }

// refuseOtherRun refuses a folder with events of another run, as TensorBoard shows all files of a folder as one run.
func refuseOtherRun(dir string, r rows.Run) error {
	found, _ := os.ReadDir(dir) // need not exist
	for _, f := range found {
		if name := f.Name(); strings.HasPrefix(name, "events.out.tfevents.") && name != tfevents.Name(r) {
			return badinput.Errorf("%s: it has events of another run, %s, and TensorBoard shows a folder as one run; choose a folder for each, "+
				"such as %s", dir, name, display.ShellQuote(filepath.Join(dir, r.Name)))
		}
	}
	return nil
}

// singleFile returns a files function for a single name.
func singleFile(name func(rows.Run) string) func(dir string, r rows.Run) ([]string, error) {
	return func(dir string, r rows.Run) ([]string, error) { return []string{filepath.Join(dir, name(r))}, nil }
}

// remove removes the files of a run.
func (f Format) remove(dir string, r rows.Run) error {
	all, err := f.files(dir, r)
	for _, path := range all {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// form returns the format of a name, which must exist.
func form(name string) Format {
	for _, f := range Formats {
		if f.Name == name {
			return f
		}
	}
	panic("readers: no form " + name)
}

// Write writes the record of a run directory below another folder. It first reads the record completely, so that nothing
// is written if it is damaged.
func (f Format) Write(run, dir string) (r rows.Run, err error) {
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
	l := liveForm{Format: f, run: run, dir: dir}
	if err = l.follow(); err != nil {
		return r, err
	}
	err = l.follower.Done(l.to)
	return whole.Run, errors.Join(err, l.close())
}

// nobody is a sink that writes nothing.
type nobody struct{}

func (nobody) Start(rows.Start) error { return nil }
func (nobody) Row(rows.Row) error     { return nil }
func (nobody) Done(time.Time) error   { return nil }

// writer writes below a folder. end removes what was there before and was not written again; from then on it appends.
type writer struct {
	rows.Sink
	end, close func() error
}

func openEvents(dir string, r rows.Run) (*writer, error) {
	return newWriter(filepath.Join(dir, tfevents.Name(r)), func(to io.Writer) (rows.Sink, error) { return tfevents.New(to, r) })
}

func openLog(dir string, r rows.Run) (*writer, error) {
	about := wandb.Environment(os.Getenv)
	return newWriter(filepath.Join(dir, wandb.Path(r)), func(to io.Writer) (rows.Sink, error) { return wandb.New(to, r, about) })
}

func openStore(dir string, r rows.Run) (*writer, error) {
	s, err := mlflow.New(dir, r, os.Getenv("MLFLOW_EXPERIMENT_NAME"))
	if err != nil {
		return nil, err
	}
	return &writer{s, s.End, s.Close}, nil
}

// newWriter makes a writer of one file.
func newWriter(path string, open func(io.Writer) (rows.Sink, error)) (*writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	k, err := rows.OpenDerived(path)
	if err != nil {
		return nil, err
	}
	to, err := open(k)
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return &writer{to, k.End, k.Close}, nil
}
