package provenance

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/reward"
)

// The files of a run directory that record how the run came to be.
const (
	ConfigFile   = "config.json" // the settings that the run began with; never changed
	ManifestFile = "manifest.json"
)

// Manifest records how a run came to be, besides its settings.
type Manifest struct {
	Created    string             `json:"created"`
	Origin     string             `json:"origin,omitempty"` // the checkpoint that a fork started from
	Resumed    []string           `json:"resumed,omitempty"`
	Version    string             `json:"version"`
	Git        string             `json:"git,omitempty"` // commit of the directory that the run was started in
	Go         string             `json:"go"`
	Platform   string             `json:"platform"`
	Cores      int                `json:"cores"`
	Backend    string             `json:"backend"`
	Precision  string             `json:"precision"` // resolved, never auto
	Order      string             `json:"order"`     // resolved, never auto
	Sandbox    reward.Backend     `json:"sandbox"`
	Own        []string           `json:"own,omitempty"` // parts that the caller's Go program brought, at the last start
	Datasets   []dataset.Manifest `json:"datasets,omitempty"`
	Problems   int                `json:"problems"`
	HeldOut    int                `json:"held_out"`
	LeftOut    []string           `json:"held_out_left_out,omitempty"` // problems of test_data that are left out, as they are trained on
	Seed       uint64             `json:"seed"`
	KV         string             `json:"kv"`
	Parameters int                `json:"trainable_parameters"`
	Starts     []Start            `json:"starts,omitempty"` // the first start, and each resume and rollback
	Began      json.RawMessage    `json:"began,omitempty"`  // a copy of ConfigFile, in case that is lost; older runs have none
}

// Start is a process that started to train: its settings, inputs and device. They are in force for the steps after After.
type Start struct {
	After int    `json:"after"`
	Time  string `json:"time"`
	Order string `json:"order"` // the backend's summation order
	Parts Parts  `json:"parts"`
	// Own are the parts that the caller's program brought; they cannot be fingerprinted.
	Own []string `json:"own,omitempty"`
	// Settings are those that differ from the run's first.
	Settings map[string]json.RawMessage `json:"settings,omitempty"`
}

// Run is the record of a run, read from its directory.
type Run struct {
	Dir      string
	Manifest Manifest
	first    json.RawMessage // its configuration; nil: none
	lost     bool            // first is the manifest's copy, as the file is missing or damaged
}

// Read reads the record in a directory. If it holds no run, the record is empty.
func Read(dir string) (*Run, error) {
	r := &Run{Dir: dir}
	if err := rundir.ReadJSON(filepath.Join(dir, ManifestFile), &r.Manifest); rundir.IsDamaged(err) {
		return nil, badinput.Errorf("%w, with the settings of %s: type the changes since the run began with run_dir=%s again", err,
			ConfigFile, display.ShellQuote(dir))
	} else if err != nil {
		return nil, err
	}
	err := rundir.ReadJSON(filepath.Join(dir, ConfigFile), &r.first)
	if err == nil && r.first != nil {
		var known bool
		if _, known, err = r.settings(nil); !known {
			r.first = nil
		}
	}
	switch {
	case r.Manifest.Began == nil:
		return r, err
	case err != nil || r.first == nil:
		r.first, r.lost = r.Manifest.Began, true
		return r, nil
	}
	return r, r.checkFirst()
}

// Recorded is Read, but fails unless the run recorded steps in the file of that name.
func Recorded(dir, steps string) (*Run, error) {
	const expected = "expected the directory of a run, as its run_dir names it"
	if _, err := os.Stat(filepath.Join(dir, steps)); errors.Is(err, fs.ErrNotExist) {
		if err := rundir.RefuseCheckpoint(dir); err != nil {
			return nil, err
		}
		if !isDir(dir) {
			return nil, badinput.Errorf("%s: there is none; %s, such as --run runs/first", dir, expected)
		}
		return nil, badinput.Errorf("%s: found no %s there; %s, and steps that it has taken", dir, steps, expected)
	}
	return Read(dir)
}

// checkFirst refuses a config.json that was edited: it must be as the run began.
func (r *Run) checkFirst() error {
	now, _, err := r.settings(nil)
	if err != nil {
		return err
	}
	was, _, err := (&Run{Dir: r.Dir, first: r.Manifest.Began}).settings(nil)
	if err != nil {
		return err
	}
	if changed := Changes(was, now); len(changed) > 0 {
		path := filepath.Join(r.Dir, ConfigFile)
		return badinput.Errorf("%s was edited since the run began: %s; remove it (it is rewritten from %s), and type the changes "+
			"beside run_dir=%s", path, list(changed), ManifestFile, display.ShellQuote(r.Dir))
	}
	return nil
}

// settings are the run's first settings with changes applied. Settings that an older release lacked get the values that it
// behaved by, as configs.Former has them. known is false if there are none: a model's configuration is also called config.json.
func (r *Run) settings(changes map[string]json.RawMessage) (cfg *configs.Config, known bool, err error) {
	d := configs.Former()
	d.Version = 0
	text, err := json.Marshal(changes)
	if err == nil && r.first != nil {
		if err = json.Unmarshal(r.first, &d); err == nil && changes != nil {
			err = json.Unmarshal(text, &d)
		}
	}
	if err != nil {
		return nil, false, badinput.Errorf("%s: %w; remove it to continue without it", filepath.Join(r.Dir, ConfigFile), err)
	}
	if d.MaxRows == 0 {
		d.MaxRows = rowsBefore
	}
	return &d, d.Version != 0, nil
}

// rowsBefore is what max_rows=0 meant for runs that did not record its value yet.
const rowsBefore = 512

// Known reports whether the settings of the run are known.
func (r *Run) Known() bool { return r.first != nil }

// Last returns the settings of the last start.
func (r *Run) Last() (*configs.Config, Start, error) {
	return r.of(r.lastStart())
}

func (r *Run) lastStart() Start {
	return slices.Concat([]Start{{}}, r.Manifest.Starts)[len(r.Manifest.Starts)]
}

// At returns the settings that a step was made with. If a step was repeated after a rollback, the last start that made it
// counts.
func (r *Run) At(step int) (*configs.Config, Start, error) { return r.of(r.startOf(step)) }

func (r *Run) startOf(step int) Start {
	for _, s := range slices.Backward(r.Manifest.Starts) {
		if s.After < step {
			return s
		}
	}
	return slices.Concat(r.Manifest.Starts, []Start{{}})[0]
}

func (r *Run) of(s Start) (*configs.Config, Start, error) {
	if !r.Known() {
		return nil, s, badinput.Errorf("%s is not the directory of a run: it has no %s of one; type the DIR that the run's run_dir=DIR named",
			r.Dir, ConfigFile)
	}
	cfg, _, err := r.settings(s.Settings)
	return cfg, s, err
}

// placeKeys are settings that say where a run is, or apply to one start only.
var placeKeys = []string{"run_dir", "resume", "init_from", "allow_change", "serve", "serve_keys", "watch"}

// Changes lists the settings that differ, except placeKeys.
func Changes(before, now *configs.Config) []configs.Change {
	return slices.DeleteFunc(configs.Changed(before, now), func(c configs.Change) bool { return slices.Contains(placeKeys, c.Key) })
}

// list formats changes as "key: before → after, …".
func list(changes []configs.Change) string {
	text := make([]string, len(changes))
	for i, c := range changes {
		text[i] = c.String()
	}
	return strings.Join(text, ", ")
}

// Resumes is how often the run was resumed after an interruption. Starting a finished run again does not count.
func (r *Run) Resumes() int {
	n := len(r.Manifest.Resumed)
	for i, s := range r.Manifest.Starts {
		cfg, _, err := r.of(s)
		if i > 0 && err == nil && cfg.StepsOf(r.Manifest.Problems) >= 0 && s.After >= cfg.StepsOf(r.Manifest.Problems) {
			n--
		}
	}
	return max(n, 0)
}

// Since returns the settings that differ from the run's first.
func (r *Run) Since(now *configs.Config) (map[string]json.RawMessage, error) {
	first, _, err := r.settings(nil)
	if err != nil {
		return nil, err
	}
	changed := map[string]json.RawMessage{}
	for _, c := range Changes(first, now) {
		if changed[c.Key], err = json.Marshal(now.Setting(c.Key)); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// write writes the manifest, and if first is not nil the configuration.
func write(d *rundir.Dir, m *Manifest, first json.RawMessage) error {
	if first != nil {
		if err := d.WriteJSON(ConfigFile, first); err != nil {
			return rundir.WithOtherDirHint(err)
		}
	}
	if err := d.WriteJSON(ManifestFile, m); err != nil {
		return rundir.WithOtherDirHint(err)
	}
	return nil
}

// Equal reports whether two starts have the same settings, order and parts.
func (s Start) Equal(other Start) bool {
	a, _ := json.Marshal(s.Settings) // marshalling raw JSON that was read cannot fail
	b, _ := json.Marshal(other.Settings)
	return bytes.Equal(a, b) && s.Order == other.Order && slices.Equal(s.Own, other.Own) && len(s.Parts.Differences(other.Parts)) == 0
}
