package sources

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cachedir"
	"github.com/seed-7879b91d/grpo/internal/notice"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// Embedded names the model and the problems that are part of the program.
const Embedded = "tiny"

// modelFiles are the endings of the files of a model that are read.
var modelFiles = []string{".json", ".safetensors", ".jinja", ".txt"}

// ModelDir finds a model: the embedded one, a directory, or one on the Hub, which is downloaded.
func ModelDir(ctx context.Context, name string) (string, error) {
	if name == Embedded {
		dir, why, err := cachedir.Find(filepath.Join("grpo", Embedded+"-"+tiny.Fingerprint()))
		if err != nil {
			return "", badinput.Errorf("no place for the embedded model: %w", err)
		}
		notice.Warn(ctx, why)
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
	names := slices.DeleteFunc(slices.Clone(snapshot.Files), func(n string) bool { return !slices.Contains(modelFiles, filepath.Ext(n)) })
	if _, err := snapshot.DownloadAll(ctx, names); err != nil {
		return "", err
	}
	return snapshot.Dir(), nil
}
