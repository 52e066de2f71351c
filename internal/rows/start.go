package rows

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// manifest has the keys of manifest.json that are used here.
type manifest struct {
	Created  time.Time `json:"created"`
	Problems int       `json:"problems"`
	Starts   []struct {
		After    int                        `json:"after"`
		Time     time.Time                  `json:"time"`
		Settings map[string]json.RawMessage `json:"settings"`
	} `json:"starts"`
}

// past reads the identity of a run, all its starts, and the number of rows or problems. Without these files, as in a record made
// by hand, it began in 1970.
func past(dir string) (run Run, starts []Start, trained int, err error) {
	config, err := readObject(filepath.Join(dir, "config.json"))
	if err != nil {
		return run, nil, 0, err
	}
	how, err := readObject(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return run, nil, 0, err
	}
	m := manifest{Created: time.Unix(0, 0)}
	if err := json.Unmarshal(how, &m); err != nil {
		return run, nil, 0, badinput.Errorf("%s: %w", filepath.Join(dir, "manifest.json"), err)
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return run, nil, 0, err
	}
	sum := sha256.Sum256(append(fmt.Appendf(nil, "%d\n", m.Created.Unix()), config...))
	run = Run{Name: filepath.Base(whole), ID: fmt.Sprintf("%x", sum[:16]), Begun: m.Created.UTC()}
	if len(m.Starts) == 0 {
		m.Starts = append(m.Starts, struct {
			After    int                        `json:"after"`
			Time     time.Time                  `json:"time"`
			Settings map[string]json.RawMessage `json:"settings"`
		}{Time: m.Created})
	}
	for _, s := range m.Starts {
		settings, err := Flatten(config, false)
		if err != nil {
			return run, nil, 0, badinput.Errorf("%s: %w", filepath.Join(dir, "config.json"), err)
		}
		starts = append(starts, Start{After: s.After, Time: s.Time.UTC(), Settings: changed(settings, s.Settings)})
	}
	return run, starts, m.Problems, nil
}

// steps is the last step by the settings, given the number of rows or problems; -1 if they have none. A warm-up without
// max_steps ends with its last epoch.
func (s Start) steps(trained int) int {
	c := configs.Config{MaxSteps: -1}
	for name, to := range map[string]*int{"max_steps": &c.MaxSteps, "epochs": &c.Epochs, "rows_per_step": &c.RowsPerStep} {
		for _, cell := range s.Settings {
			if n, ok := cell.Number(); ok && cell.Name == name {
				*to = int(n)
			}
		}
	}
	if trained < 1 { // unknown
		return c.MaxSteps
	}
	return c.StepsOf(trained)
}

// readObject reads a JSON file; a missing one is an empty object.
func readObject(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []byte("{}"), nil
	}
	if err == nil && !bytes.HasPrefix(text, []byte("{")) {
		err = badinput.Errorf("%s: expected a JSON object", path)
	}
	return text, err
}

// changed are settings with some values replaced; new ones are appended.
func changed(settings []Cell, others map[string]json.RawMessage) []Cell {
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if at := slices.IndexFunc(settings, func(c Cell) bool { return c.Name == name }); at >= 0 {
			settings[at].JSON = others[name]
		} else {
			settings = append(settings, Cell{name, others[name]})
		}
	}
	return settings
}

// differences are the settings that differ from before.
func differences(before, now []Cell) (cells []Cell) {
	was := map[string]string{}
	for _, c := range before {
		was[c.Name] = string(c.JSON)
	}
	for _, c := range now {
		if text, known := was[c.Name]; !known || text != string(c.JSON) {
			cells = append(cells, c)
		}
	}
	return cells
}
