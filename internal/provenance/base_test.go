package provenance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// checkpointOf writes the checkpoint of a run over the model in a directory, and gives its adapter.
func checkpointOf(t *testing.T, model string) (adapter string) {
	t.Helper()
	part, err := OfModel(model)
	require.NoError(t, err)
	part.Commit = "1111111111111111111111111111111111111111"
	text, err := rundir.Seal(struct {
		Version int    `json:"version"`
		Parts   Parts  `json:"parts"`
		Seal    string `json:"seal"`
	}{newestState, Parts{"model": part}, ""})
	require.NoError(t, err)
	checkpoint := filepath.Join(t.TempDir(), "step_000001")
	adapter = filepath.Join(checkpoint, AdapterDir)
	for _, dir := range []string{adapter, filepath.Join(checkpoint, ModelDir)} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(checkpoint, rundir.StateFile), text, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(adapter, "adapter_config.json"), nil, 0o644))
	return adapter
}

// What an adapter was trained over is known of its checkpoint, and what it hangs on of that model is compared.
func TestWhatIsBelowAnAdapter(t *testing.T) {
	model := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(model, name), []byte(text), 0o644))
	}
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors", "generation_config.json"} {
		put(name, name)
	}
	adapter, copied, link := checkpointOf(t, model), filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.CopyFS(copied, os.DirFS(adapter)))
	require.NoError(t, os.Symlink(adapter, link))
	require.NoError(t, CheckBase(adapter, model), "of another commit, with the same bytes")
	put("generation_config.json", "other")
	put("chat_template.jinja", "new")
	require.NoError(t, CheckBase(adapter, model))
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
		put(name, "other")
		for _, named := range []string{adapter, link} {
			err := CheckBase(named, model)
			require.True(t, badinput.Is(err))
			require.ErrorContains(t, err, "adapter "+named+" was trained over another model: model: "+name+" has the SHA-256 ")
			require.ErrorContains(t, err, "(the one before is NAME@1111111111111111111111111111111111111111); bring that one back")
			require.ErrorContains(t, err, "cp -r "+named+" COPY")
		}
		for _, free := range []string{"", copied, filepath.Join(filepath.Dir(adapter), ModelDir), filepath.Join(model, "none")} {
			require.NoError(t, CheckBase(free, model), free)
		}
		put(name, name)
	}
	t.Chdir(adapter)
	put("config.json", "other")
	require.ErrorContains(t, CheckBase(".", model), "config.json has the SHA-256")
	state := filepath.Join("..", rundir.StateFile)
	text, err := os.ReadFile(state)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(state, append(text, ' '), 0o644))
	require.ErrorContains(t, CheckBase(adapter, model), "state.json is damaged")
}
