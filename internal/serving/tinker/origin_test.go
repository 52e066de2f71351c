package tinker

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
)

// otherModel is the embedded model with one weight changed, as if the server was started with another model of the same name.
func otherModel(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.CopyFS(dir, os.DirFS(modelDir())))
	file := filepath.Join(dir, "model.safetensors")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text[len(text)-2] ^= 1
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return dir
}

// saveBothWays saves a model in both ways, and returns the paths and the session.
func saveBothWays(t *testing.T, store string) (n *client.Session, paths []string) {
	t.Run("saved", func(t *testing.T) {
		s := serve(t, store)
		n = s.connect(t)
		m := train(t, n, 1)
		awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
		stepped(t, m, 1e-2)
		for _, save := range []func() (string, error){
			func() (string, error) { return m.Save(t.Context(), "one") },
			func() (string, error) { return m.SaveSampler(t.Context(), "two") }} {
			path, err := save()
			require.NoError(t, err)
			paths = append(paths, path)
			require.NoError(t, m.Load(t.Context(), path, false))
		}
	})
	return n, paths
}

// A saved adapter names the weights that it was trained on, and is refused over others of the same name; an older one without that record
// is accepted over any, and logged once.
func TestAdaptersKnowTheirBase(t *testing.T) {
	store := t.TempDir()
	var log bytes.Buffer
	over := func(dir string) func(*Options) {
		return func(o *Options) {
			base := *o.Bases[0]
			base.Dir = dir
			o.Bases, o.Log = []*Base{&base}, slog.New(slog.NewTextHandler(&log, nil))
		}
	}
	n, paths := saveBothWays(t, store)
	load := func(t *testing.T, s *site, path string) error {
		n.Client = s.Client
		return train(t, n, 1).Load(t.Context(), path, false)
	}
	sample := func(t *testing.T, s *site, path string) error {
		n.Client = s.Client
		v, err := n.Sampling(t.Context(), "", path)
		require.NoError(t, err)
		_, err = v.Sample(t.Context(), tokens1, client.SampleParams{Params: map[string]any{"max_tokens": 2}})
		return err
	}
	t.Run("another model", func(t *testing.T) {
		s := serve(t, store, over(otherModel(t)))
		for _, path := range paths {
			for _, use := range []func(*testing.T, *site, string) error{load, sample} {
				err := use(t, s, path)
				require.ErrorContains(t, err, "user: "+path+" was trained on another model than tiny is now: model: model.safetensors changed")
			}
		}
		m := &client.Training{Session: n, ID: strings.Split(strings.TrimPrefix(paths[0], "tinker://"), "/")[0], Seq: 100}
		_, err := m.Save(t.Context(), "three")
		require.ErrorContains(t, err, "was trained on another model than tiny is now", "the state of a model does not continue over it")
	})
	records, err := filepath.Glob(filepath.Join(store, "runs", "*", "*", "*", "base_model.json"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(records), 3, "two checkpoints, and the state of the model")
	for _, file := range records {
		require.NoError(t, os.Remove(file))
	}
	log.Reset()
	t.Run("not known", func(t *testing.T) {
		s := serve(t, store, over(otherModel(t)))
		for range 2 {
			for _, path := range paths {
				require.NoError(t, load(t, s, path))
			}
		}
	})
	require.Equal(t, len(paths), strings.Count(log.String(), "are not recorded"), log.String())
	require.Contains(t, log.String(), "of="+paths[0])
}
