package grpo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tiny"
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

// nameBase has adapters name a base that was downloaded as the Hub does, and not after our copy of it.
// What is trained as a whole takes its other files from the copy.
func (s *Session) nameBase(context.Context) error {
	if name := s.Config.Model; name != embedded && name != s.baseDir && !s.Full {
		s.BaseModel, _, _ = strings.Cut(name, "@")
	}
	return nil
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
		if train, err = s.openSet(ctx, "train", cfg.Data, cfg.DataSplit, cfg.ExpectedDatasetHash); err != nil {
			return nil, nil, err
		}
	}
	switch cfg.TestData {
	case embedded:
	case "":
		held = nil
	default:
		held, err = s.openSet(ctx, "test", cfg.TestData, cfg.TestSplit, "")
	}
	return train, held, err
}

// openedSet is a data set that the run reads.
type openedSet struct {
	*dataset.Set
	copy string // where the run keeps its own, with cache_dataset
}

// openSet opens a data set: the run's own copy where it keeps one, else the source.
func (s *Session) openSet(ctx context.Context, name, source, split, hash string) ([]data.Problem, error) {
	o := openedSet{}
	var err error
	if s.Config.CacheDataset {
		o.copy = filepath.Join(s.Config.RunDir, "data", name)
	}
	if _, statErr := os.Stat(o.copy); o.copy != "" && statErr == nil {
		o.Set, err = dataset.OpenStore(o.copy)
	} else {
		_, statErr := os.Stat(source)
		o.Set, err = dataset.Open(ctx, source, dataset.Options{Split: split, Strict: statErr == nil})
	}
	if err != nil {
		return nil, err
	}
	s.sets, s.closers = append(s.sets, o), append(s.closers, o)
	if m := o.Manifest(); hash != "" {
		if err := m.CheckHash(hash); err != nil {
			return nil, err
		}
	}
	return o.Problems(), nil
}

// copySets gives the run its own copies of the data, where it keeps them.
func (s *Session) copySets(ctx context.Context) error {
	for _, o := range s.sets {
		if o.copy == "" {
			continue
		}
		if err := o.CopyTo(ctx, o.copy); err != nil {
			return fmt.Errorf("cache_dataset: %w", err)
		}
	}
	return nil
}
