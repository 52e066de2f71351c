package grpo

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo/data/hub"
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
