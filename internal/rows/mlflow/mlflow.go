// Package mlflow writes the record of a run into a file store of MLflow: a folder for each run with a file for each setting,
// metric and tag.
package mlflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/rows"
)

// Store is a rows.Sink.
type Store struct {
	run        rows.Run
	dir        string // of the run
	experiment string
	metrics    map[string]*rows.DerivedFile
	settled    bool // End was called: all was written, and leftovers removed
}

// States of a run.
const (
	running  = 1
	finished = 3
)

// New adds a run to a store, which is created if necessary; an existing run is rewritten. experiment is the name of the
// experiment; "" is grpo.
func New(root string, r rows.Run, experiment string) (*Store, error) {
	id, err := settle(root, cmp.Or(experiment, "grpo"), r.Begun)
	if err != nil {
		return nil, err
	}
	s := &Store{run: r, experiment: id, dir: filepath.Join(root, id, r.ID), metrics: map[string]*rows.DerivedFile{}}
	for _, name := range []string{"metrics", "params", "tags", "artifacts"} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{"mlflow.runName": r.Name, "mlflow.user": "grpo", "mlflow.source.name": "grpo",
		"mlflow.source.type": "LOCAL"} {
		if err := s.put("tags", name, text); err != nil {
			return nil, err
		}
	}
	return s, s.about(running, nil)
}

// settle finds an experiment by its name, or adds it.
func settle(root, name string, begun time.Time) (id string, err error) {
	known, err := below(root, "meta.yaml")
	if err != nil {
		return "", err
	}
	for _, file := range known {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(text)) {
			if key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key == "name" && strings.Trim(value, `'"`) == name {
				return filepath.Base(filepath.Dir(file)), nil
			}
		}
	}
	sum := sha256.Sum256([]byte(name))
	id = fmt.Sprintf("%018d", 1e17+binary.BigEndian.Uint64(sum[:])%8e17)
	dir := filepath.Join(root, id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	place, err := address(dir)
	if err != nil {
		return "", err
	}
	at := begun.UnixMilli()
	return id, atomicfile.WriteBytes(filepath.Join(dir, "meta.yaml"), yaml("artifact_location", place, "creation_time", at,
		"experiment_id", id, "last_update_time", at, "lifecycle_stage", "active", "name", name))
}

// address is a folder as a URI.
func address(dir string) (string, error) {
	whole, err := filepath.Abs(dir)
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(whole)}).String(), err
}

// yaml writes keys and values; strings are quoted as in JSON, which is valid YAML.
func yaml(pairs ...any) []byte {
	var out []byte
	for i := 0; i < len(pairs); i += 2 {
		value, _ := json.Marshal(pairs[i+1]) // strings, numbers and nil
		out = fmt.Appendf(out, "%s: %s\n", pairs[i], value)
	}
	return out
}

// about writes the run's metadata. end is in milliseconds, nil if it has not ended.
func (s *Store) about(state int, end any) error {
	place, err := address(filepath.Join(s.dir, "artifacts"))
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(s.dir, "meta.yaml"), yaml("artifact_uri", place, "end_time", end, "entry_point_name", "",
		"experiment_id", s.experiment, "lifecycle_stage", "active", "run_id", s.run.ID, "run_name", s.run.Name, "run_uuid", s.run.ID,
		"source_name", "grpo", "source_type", 4, "source_version", "", "start_time", s.run.Begun.UnixMilli(), "status", state,
		"tags", []string{}, "user_id", "grpo"))
}

// put writes a setting or a tag. A partly written one is rewritten the next time.
func (s *Store) put(kind, name, text string) error {
	path := filepath.Join(s.dir, kind, filepath.FromSlash(Key(name)))
	if there, err := os.ReadFile(path); err == nil && string(there) == text {
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// Key replaces the characters of a name that not every MLflow allows: pass@1 becomes pass_at_1, others an underscore. As the
// name is a file name, only the slash after steps, timing or evaluations stays.
func Key(name string) string {
	prefix, rest, has := strings.Cut(name, "/")
	if !has {
		prefix, rest = "", name
	}
	rest = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-. ", r) {
			return r
		}
		return '_'
	}, strings.ReplaceAll(rest, "@", "_at_"))
	if strings.Trim(rest, ".") == "" { // not valid as a file name
		rest = strings.Repeat("_", max(1, len(rest)))
	}
	rest = rest[:min(len(rest), 200)]
	if has {
		return prefix + "/" + rest
	}
	return rest
}

// Start writes the settings, replacing earlier ones.
func (s *Store) Start(start rows.Start) error {
	var errs []error
	for _, c := range start.Changed {
		errs = append(errs, s.put("params", c.Name, c.Text()))
	}
	return errors.Join(errs...)
}

// Row adds a line to the file of each metric.
func (s *Store) Row(r rows.Row) error {
	for _, c := range r.Cells {
		if _, ok := c.Number(); !ok {
			continue
		}
		value := string(c.JSON)
		switch value {
		case "true":
			value = "1"
		case "false":
			value = "0"
		}
		file, err := s.metric(Key(c.Name))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(file, "%d %s %d\n", r.Time.UnixMilli(), value, r.Step); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) metric(name string) (file *rows.DerivedFile, err error) {
	if file = s.metrics[name]; file != nil {
		return file, nil
	}
	path := filepath.Join(s.dir, "metrics", filepath.FromSlash(name))
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if file, err = rows.OpenDerived(path); err == nil {
		s.metrics[name] = file
	}
	return file, err
}

// End removes what the store has of the run beyond its record.
func (s *Store) End() error {
	if s.settled {
		return nil
	}
	s.settled = true
	var errs []error
	for _, file := range s.metrics {
		errs = append(errs, file.End())
	}
	all := filepath.Join(s.dir, "metrics")
	return errors.Join(append(errs, filepath.WalkDir(all, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(all, path)
		if err != nil || d.IsDir() || s.metrics[filepath.ToSlash(name)] != nil {
			return err
		}
		return os.Remove(path)
	}))...)
}

// Done marks the run as finished.
func (s *Store) Done(at time.Time) error { return s.about(finished, at.UnixMilli()) }

// Close closes the files.
func (s *Store) Close() error {
	var errs []error
	for _, file := range s.metrics {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// Folders are the folders of a run in a store.
func Folders(root string, r rows.Run) ([]string, error) {
	return below(root, r.ID)
}

// below are the paths of a name in the folders of a store, without interpreting characters as patterns.
func below(root, name string) (paths []string, err error) {
	paths, err = fs.Glob(os.DirFS(root), "*/"+name)
	for i := range paths {
		paths[i] = filepath.Join(root, paths[i])
	}
	return paths, err
}

// Check refuses a folder that is not a store.
func Check(root string) error {
	entries, err := os.ReadDir(root)
	if unread := display.TildeHint("", root); unread != "" && errors.Is(err, os.ErrNotExist) {
		return badinput.Errorf("%s: %s", root, unread)
	}
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return badinput.Errorf("%w; expected a folder of MLflow, such as mlruns", err)
	}
	known, err := below(root, "meta.yaml")
	if err == nil && len(known) == 0 {
		return badinput.Errorf("%s is no store of MLflow: it has other things and no experiment; choose another folder, such as %s",
			root, filepath.Join(root, "mlruns"))
	}
	return err
}
