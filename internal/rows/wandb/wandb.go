// Package wandb writes the record of a run as the log of an offline run of Weights & Biases: protobuf records, framed as in
// LevelDB's log. The client's own command sends such a run to a server.
package wandb

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/rows"
)

// About is the part of a run's description that the client takes from environment variables.
type About struct {
	Project, Entity, Name, Group, JobType, Notes string
	Tags                                         []string
}

// Environment reads WANDB_PROJECT and the like; get is os.Getenv.
func Environment(get func(string) string) About {
	a := About{Project: get("WANDB_PROJECT"), Entity: get("WANDB_ENTITY"), Name: get("WANDB_NAME"), Group: get("WANDB_RUN_GROUP"),
		JobType: get("WANDB_JOB_TYPE"), Notes: get("WANDB_NOTES")}
	for tag := range strings.SplitSeq(get("WANDB_TAGS"), ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			a.Tags = append(a.Tags, tag)
		}
	}
	return a
}

// ID is the run's ID on the server.
func ID(r rows.Run) string { return r.ID[:8] }

// Folder is the directory of an offline run, and Path its log file.
func Folder(r rows.Run) string {
	return "offline-run-" + r.Begun.UTC().Format("20060102_150405") + "-" + ID(r)
}

func Path(r rows.Run) string { return filepath.Join(Folder(r), "run-"+ID(r)+".wandb") }

// Writer is a rows.Sink. Each record is one Write.
type Writer struct {
	to    log
	run   rows.Run
	about About
	begun bool
	rows  int
}

// New starts a log.
func New(to io.Writer, r rows.Run, a About) (*Writer, error) {
	w := &Writer{to: log{to: to}, run: r, about: a}
	if err := w.to.header(); err != nil {
		return nil, err
	}
	const producer, least = "0.28.3", "0.6.0" // the client version whose format this is, and the least server version
	version := text(text(nil, 1, producer), 2, least)
	return w, w.record(21, member(nil, 1, version))
}

// Field numbers of the client's records.
const (
	history = 2
	summary = 3
	config  = 5
	metric  = 12
	run     = 17
	exit    = 18
)

// Start writes the run at first, and later the changed settings.
func (w *Writer) Start(s rows.Start) error {
	settings, err := items(nil, 1, s.Changed)
	if err != nil {
		return err
	}
	if w.begun {
		if len(settings) == 0 {
			return nil
		}
		return w.record(config, settings)
	}
	w.begun = true
	about := text(nil, 1, ID(w.run))
	about = text(about, 2, w.about.Entity)
	about = text(about, 3, w.about.Project)
	about = member(about, 4, settings)
	about = text(about, 6, w.about.Group)
	about = text(about, 7, w.about.JobType)
	about = text(about, 8, cmp.Or(w.about.Name, w.run.Name))
	about = text(about, 9, w.about.Notes)
	for _, tag := range w.about.Tags {
		about = text(about, 10, tag)
	}
	about = member(about, 17, varint(nil, 1, uint64(w.run.Begun.Unix())))
	if err := w.record(run, about); err != nil {
		return err
	}
	// Charts use the run's own steps as their axis, as a step and an evaluation may have the same step.
	for _, prefix := range []string{rows.Steps, rows.Timing, rows.Evaluations} {
		axis := text(text(nil, 2, prefix+"*"), 4, "step")
		if err := w.record(metric, axis); err != nil {
			return err
		}
	}
	return nil
}

// Row writes a line of the history, and updates the summary.
func (w *Writer) Row(r rows.Row) error {
	cells := append([]rows.Cell{number("step", r.Step)}, r.Cells...)
	latest, err := items(nil, 1, cells)
	if err != nil {
		return err
	}
	line, err := items(nil, 1, append(cells, number("_step", w.rows),
		decimal("_timestamp", float64(r.Time.UnixMicro())/1e6), decimal("_runtime", r.Time.Sub(w.run.Begun).Seconds())))
	if err != nil {
		return err
	}
	if err := w.record(history, member(line, 2, varint(nil, 1, uint64(w.rows)))); err != nil {
		return err
	}
	w.rows++
	return w.record(summary, latest)
}

// Done marks the run as successful.
func (w *Writer) Done(at time.Time) error {
	return w.record(exit, varint(nil, 2, uint64(max(0, at.Sub(w.run.Begun)/time.Second))))
}

func (w *Writer) record(field protowire.Number, body []byte) error {
	w.to.records++
	return w.to.append(member(varint(nil, 1, w.to.records), field, body))
}

func number(name string, v int) rows.Cell { return rows.Cell{Name: name, JSON: fmt.Append(nil, v)} }

func decimal(name string, v float64) rows.Cell {
	value, _ := json.Marshal(v)
	return rows.Cell{Name: name, JSON: value}
}

// items are cells in the client's form: a key, and its value as JSON, without nulls.
func items(to []byte, field protowire.Number, cells []rows.Cell) ([]byte, error) {
	for _, c := range cells {
		if string(c.JSON) == "null" {
			continue
		}
		value, err := jsonl.Marshal(c.JSON)
		if err != nil {
			return nil, err
		}
		to = member(to, field, member(text(nil, 1, c.Name), 16, value))
	}
	return to, nil
}

func text(to []byte, number protowire.Number, body string) []byte {
	if body == "" {
		return to
	}
	return protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), body)
}

func member(to []byte, number protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), body)
}

func varint(to []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), v)
}
