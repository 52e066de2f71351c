package grpo

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward"
)

const (
	configFile   = "config.json"
	manifestFile = "manifest.json"
)

// manifest is what a run directory says of how the run came to be. The settings are beside it, in
// config.json.
type manifest struct {
	Created    string             `json:"created"`
	Origin     string             `json:"origin,omitempty"` // the checkpoint that a fork began at
	Resumed    []string           `json:"resumed,omitempty"`
	Version    string             `json:"version"`
	Git        string             `json:"git,omitempty"` // of the directory that the run was started in
	Go         string             `json:"go"`
	Platform   string             `json:"platform"`
	Cores      int                `json:"cores"`
	Backend    string             `json:"backend"`
	Sandbox    reward.Backend     `json:"sandbox"`
	Datasets   []dataset.Manifest `json:"datasets,omitempty"`
	Problems   int                `json:"problems"`
	HeldOut    int                `json:"held_out"`
	Seed       uint64             `json:"seed"`
	KV         string             `json:"kv"`
	Parameters int                `json:"trainable_parameters"`
}

// writeManifest writes the resolved configuration and the manifest. Of a run that goes on it first tells
// what is not as it was.
func (s *Session) writeManifest(o origin) (err error) {
	now := time.Now().UTC().Format(time.RFC3339)
	m := manifest{
		Created: now, Version: version(), Git: gitState(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.NumCPU(), Backend: s.backend.Name(), Sandbox: s.Judge.Backend(),
		Problems: s.Problems.Len(), HeldOut: len(s.HeldOut), Seed: s.Seed, KV: s.Engine.Plan.String(), Parameters: s.Policy.TrainableCount(),
	}
	for _, set := range s.sets {
		m.Datasets = append(m.Datasets, set.Manifest())
	}
	switch {
	case o.fork:
		if m.Origin, err = filepath.Abs(o.checkpoint); err != nil {
			return err
		}
	case o.checkpoint != "":
		before, err := s.compare(m)
		if err != nil {
			return err
		}
		m.Created, m.Origin, m.Resumed = before.Created, before.Origin, append(before.Resumed, now)
	}
	for name, v := range map[string]any{configFile: s.Config, manifestFile: m} {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(s.Config.RunDir, name), append(text, '\n')); err != nil {
			return badinput.Errorf("run_dir: %w", err)
		}
	}
	return nil
}

// compare reads the manifest and the settings that the run had before, and tells of what has changed.
func (s *Session) compare(now manifest) (before manifest, err error) {
	if err := readJSON(filepath.Join(s.Config.RunDir, manifestFile), &before); err != nil {
		return before, err
	}
	for i := range min(len(before.Datasets), len(now.Datasets)) {
		if drift := now.Datasets[i].Drift(before.Datasets[i]); drift != "" {
			s.Watcher.Warn("the data changed since the run began: " + drift)
		}
	}
	var settings configs.Config
	if err := readJSON(filepath.Join(s.Config.RunDir, configFile), &settings); err != nil {
		return before, err
	}
	changed := slices.DeleteFunc(configs.Changed(&settings, s.Config), func(c string) bool {
		return strings.HasPrefix(c, "run_dir:") || strings.HasPrefix(c, "resume:") // say where, not what
	})
	if settings.Version != 0 && len(changed) > 0 {
		s.Watcher.Warn("settings changed since the run began: " + strings.Join(changed, ", "))
	}
	return before, nil
}

// readJSON reads a file that may be missing: a run that was killed early, or made by hand.
func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return badinput.Errorf("%s: %w; remove it to go on without", path, err)
	}
	return nil
}

// version is the program's, with the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	version := info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			version += " " + setting.Value
		}
	}
	return version
}

// gitState is the commit that is checked out here, and whether files differ from it; "" without git.
func gitState() string {
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return ""
	}
	state := strings.TrimSpace(string(commit))
	if changes, err := exec.Command("git", "status", "--porcelain").Output(); err == nil && len(changes) > 0 {
		state += " with changes"
	}
	return state
}
