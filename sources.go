package grpo

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tiny"
	"github.com/seed-7879b91d/grpo/reward"
)

// embedded names the model and the problems that are part of the program.
const embedded = "tiny"

// modelDir finds a model: the embedded one, a directory, or one on the Hub, which is downloaded.
func modelDir(ctx context.Context, name string) (string, error) {
	if name == embedded {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir := filepath.Join(cache, "grpo", embedded+"-"+tiny.Fingerprint())
		return dir, tiny.Extract(dir)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return name, nil
	}
	id, revision, _ := strings.Cut(name, "@")
	if strings.Count(id, "/") != 1 || strings.HasPrefix(id, ".") || strings.HasPrefix(id, "/") {
		return "", badinput.Errorf("model %q: no such directory, and not the name of a model on the Hub (owner/name)", name)
	}
	client, err := hub.FromEnv()
	if err != nil {
		return "", err
	}
	snapshot, err := client.Snapshot(ctx, hub.Repo{Type: hub.Model, ID: id, Revision: revision})
	if err != nil {
		return "", err
	}
	for _, file := range snapshot.Files {
		if strings.HasSuffix(file, ".json") || strings.HasSuffix(file, ".safetensors") || strings.HasSuffix(file, ".jinja") || strings.HasSuffix(file, ".txt") {
			if _, err := snapshot.Download(ctx, file); err != nil {
				return "", err
			}
		}
	}
	return snapshot.Dir(), nil
}

// wording is how problems are put into words.
func wording(cfg *configs.Config) (*prompt.Builder, error) {
	switch {
	case cfg.PromptTemplate != "":
		return prompt.Load(cfg.PromptTemplate)
	case cfg.Model == embedded:
		return tiny.Wording()
	}
	return prompt.Default(), nil
}

// problems gives what to train on and what is held out.
func (s *Session) problems(ctx context.Context) (train, held []data.Problem, err error) {
	cfg := s.Config
	if cfg.Data == embedded || cfg.TestData == embedded {
		if train, held, err = tiny.Problems(); err != nil {
			return nil, nil, err
		}
	}
	if cfg.Data != embedded {
		if train, err = s.openSet(ctx, cfg.Data, cfg.DataSplit, cfg.ExpectedDatasetHash); err != nil {
			return nil, nil, err
		}
	}
	switch cfg.TestData {
	case embedded:
	case "":
		held = nil
	default:
		held, err = s.openSet(ctx, cfg.TestData, cfg.TestSplit, "")
	}
	return train, held, err
}

func (s *Session) openSet(ctx context.Context, source, split, hash string) ([]data.Problem, error) {
	_, statErr := os.Stat(source)
	set, err := dataset.Open(ctx, source, dataset.Options{Split: split, Strict: statErr == nil})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, set)
	m := set.Manifest()
	s.manifests = append(s.manifests, m)
	if hash != "" {
		if err := m.CheckHash(hash); err != nil {
			return nil, err
		}
	}
	return set.Problems(), nil
}

// manifest is what a run directory says of how the run came to be.
type manifest struct {
	Created    string             `json:"created"`
	Version    string             `json:"version"`
	Go         string             `json:"go"`
	Platform   string             `json:"platform"`
	Cores      int                `json:"cores"`
	Backend    string             `json:"backend"`
	Sandbox    reward.Backend     `json:"sandbox"`
	Datasets   []dataset.Manifest `json:"datasets,omitempty"`
	Problems   int                `json:"problems"`
	HeldOut    int                `json:"held_out"`
	KV         string             `json:"kv"`
	Parameters int                `json:"trainable_parameters"`
}

// writeManifest writes the resolved configuration and the manifest, once for a run directory.
func (s *Session) writeManifest() error {
	dir := s.Config.RunDir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return badinput.Errorf("run_dir: %w", err)
	}
	m := manifest{
		Created: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.NumCPU(), Backend: s.backend.Name(), Sandbox: s.Judge.Backend(), Datasets: s.manifests,
		Problems: s.Problems.Len(), HeldOut: len(s.HeldOut), KV: s.Engine.Plan.String(), Parameters: s.Policy.TrainableCount(),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		m.Version = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				m.Version += " " + setting.Value
			}
		}
	}
	for name, v := range map[string]any{"config.json": s.Config, "manifest.json": m} {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(dir, name), append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}
