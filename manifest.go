package grpo

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/version"
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
	Own        []string           `json:"own,omitempty"` // parts that a Go program brought: grader, advantage, loss
	Datasets   []dataset.Manifest `json:"datasets,omitempty"`
	Problems   int                `json:"problems"`
	HeldOut    int                `json:"held_out"`
	Seed       uint64             `json:"seed"`
	KV         string             `json:"kv"`
	Parameters int                `json:"trainable_parameters"`
}

// writeManifest writes the resolved configuration and the manifest. Of a run that goes on it first tells
// what is not as it was.
func (t *Trainer) writeManifest() (err error) {
	now, o := time.Now().UTC().Format(time.RFC3339), t.origin
	m := manifest{
		Created: now, Version: version.Program(), Git: version.Checkout(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.NumCPU(), Backend: t.backend.Name(), Sandbox: t.judging.Sandbox, Own: t.custom.names(),
		Problems: t.pool.Len(), HeldOut: len(t.HeldOut()), Seed: t.cfg.Seed, KV: t.sampling.engine.Plan.String(),
		Parameters: t.policy.TrainableCount(),
	}
	for _, set := range t.problems.Sets {
		m.Datasets = append(m.Datasets, set.Manifest())
	}
	switch {
	case o.fork:
		if m.Origin, err = filepath.Abs(o.checkpoint); err != nil {
			return err
		}
	case o.checkpoint != "":
		before, err := t.compareManifest(m)
		if err != nil {
			return err
		}
		m.Created, m.Origin, m.Resumed = before.Created, before.Origin, append(before.Resumed, now)
	}
	if err := errors.Join(t.record.WriteJSON(configFile, t.cfg), t.record.WriteJSON(manifestFile, m)); err != nil {
		return badinput.Errorf("run_dir: %w", err)
	}
	return nil
}

// compareManifest reads the manifest and the settings that the run had before, and tells of what has changed.
func (t *Trainer) compareManifest(now manifest) (before manifest, err error) {
	if err := rundir.ReadJSON(filepath.Join(t.record.Path, manifestFile), &before); err != nil {
		return before, err
	}
	for i := range min(len(before.Datasets), len(now.Datasets)) {
		if drift := now.Datasets[i].Drift(before.Datasets[i]); drift != "" {
			t.watcher.Warn("the data changed since the run began: " + drift)
		}
	}
	var settings configs.Config
	if err := rundir.ReadJSON(filepath.Join(t.record.Path, configFile), &settings); err != nil {
		return before, err
	}
	changed := slices.DeleteFunc(configs.Changed(&settings, t.cfg), func(c string) bool {
		return strings.HasPrefix(c, "run_dir:") || strings.HasPrefix(c, "resume:") // say where, not what
	})
	if settings.Version != 0 && len(changed) > 0 {
		t.watcher.Warn("settings changed since the run began: " + strings.Join(changed, ", "))
	}
	return before, nil
}
