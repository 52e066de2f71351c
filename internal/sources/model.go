package sources

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cachedir"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/notice"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// Embedded names the embedded model and problems.
const Embedded = "tiny"

// wordFiles are the extensions of a model's files besides its weights.
var wordFiles = []string{".json", ".jinja", ".txt"}

// ModelDir finds a model: the embedded one, a directory, or one on the Hub, which it downloads.
func ModelDir(ctx context.Context, name string) (string, error) {
	precondition.NotNil("grpo.ModelDir", "ctx", ctx)
	if name == Embedded {
		dir, why, err := cachedir.Find(filepath.Join("grpo", Embedded+"-"+tiny.Fingerprint()))
		if err != nil {
			return "", badinput.Errorf("no room for the built-in model: %w", err)
		}
		notice.Warn(ctx, why)
		return dir, tiny.Extract(dir)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return name, isModel(name)
	} else if err == nil { // it may look like a name on the Hub
		return "", badinput.Errorf("model %q: found a file, expected a Hugging Face model directory", name)
	} else if errors.Is(err, fs.ErrPermission) {
		return "", badinput.Errorf("model %q: you may not read it; get permission, or choose another model", name)
	}
	if home := display.ExpandTilde(name); home != "" {
		return "", badinput.Errorf("model %q: no such directory; the shell did not replace ~ by your home directory: type %s", name, home)
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
	err = download(ctx, snapshot)
	return snapshot.Dir(), err // in the cache
}

// isModel refuses a directory that is a run's or no model, by files that no model has.
func isModel(dir string) error {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err != nil
		})
	}
	word := display.ShellQuote(dir)
	switch {
	case has("tokenizer.json"):
	case has("manifest.json", "checkpoints"), has("state.json", "optimizer.safetensors"):
		return badinput.Errorf("model %q is a run, not a model; type --run %s to use its policy, init_from=%[2]s to train it further, or "+
			"grpo export-model %[2]s --out DIR to make a model of it", dir, word)
	case has("adapter_config.json") && !has("config.json"):
		return badinput.Errorf("model %q is an adapter, not a model; name the model that it was trained on, and the adapter as well: "+
			"--adapter %s, or adapter=%[2]s in a run", dir, word)
	}
	return nil
}

// downloaded matches paths in Hub caches: of a model at a commit. Names with two consecutive hyphens are ambiguous there.
var downloaded = regexp.MustCompile(`(?:^|/)models--((?:[^/-]|-[^/-])+)--((?:[^/-]|-[^/-])+)/snapshots/[0-9a-f]{40}$`)

// BaseName is the name of a model in adapters over it: its name on the Hub if it is a copy from there, which is valid on other
// machines too, else the directory as given.
func BaseName(dir string) string {
	if found := downloaded.FindStringSubmatch(filepath.ToSlash(filepath.Clean(dir))); found != nil {
		return found[1] + "/" + found[2]
	}
	return dir
}

// LocalModelDir is ModelDir without network access: a model on the Hub must have been downloaded before.
func LocalModelDir(ctx context.Context, name string) (string, error) {
	if _, err := os.Stat(name); name == Embedded || err == nil {
		return ModelDir(ctx, name)
	}
	client, err := hub.FromEnv()
	if err != nil {
		return "", err
	}
	client.Offline = true
	id, revision, _ := strings.Cut(name, "@")
	snapshot, err := client.Snapshot(ctx, hub.Repo{Type: hub.Model, ID: id, Revision: revision})
	if err != nil {
		return "", err
	}
	return snapshot.Dir(), nil
}

// download downloads the needed files of a model. It skips the same weights in other formats, which many repositories
// have too.
func download(ctx context.Context, s *hub.Snapshot) error {
	words := slices.DeleteFunc(slices.Clone(s.Files), func(n string) bool {
		spoken := path.Dir(n) == "additional_chat_templates" && path.Ext(n) == ".jinja"
		return !spoken && (strings.Contains(n, "/") || !slices.Contains(wordFiles, path.Ext(n)))
	})
	weights := []string{tensorfile.SingleName}
	switch {
	case slices.Contains(s.Files, tensorfile.SingleName):
	case slices.Contains(s.Files, tensorfile.IndexName):
		index, err := s.Download(ctx, tensorfile.IndexName)
		if err != nil {
			return err
		}
		if weights, err = tensorfile.Shards(index); err != nil {
			return err
		}
	default:
		return badinput.Errorf("%s holds neither %s nor %s%s; name a repository with safetensors",
			s, tensorfile.SingleName, tensorfile.IndexName, otherForms(s.Files))
	}
	_, err := s.DownloadAll(ctx, append(words, weights...))
	return err
}

// otherForms names the other formats of the weights.
func otherForms(files []string) string {
	var found []string
	for _, form := range []string{".gguf", ".bin", ".pth", ".onnx", ".h5", ".msgpack"} {
		if slices.ContainsFunc(files, func(n string) bool { return filepath.Ext(n) == form }) {
			found = append(found, form)
		}
	}
	if found == nil {
		return ""
	}
	return ", only " + strings.Join(found, ", ")
}
