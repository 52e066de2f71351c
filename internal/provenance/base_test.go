package provenance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// checkpointOf writes the checkpoint of a run of a model, and returns its adapter.
func checkpointOf(t *testing.T, model string) (adapter string) {
	t.Helper()
	part, err := FingerprintModel(model)
	require.NoError(t, err)
	part.Commit = "1111111111111111111111111111111111111111"
	checkpoint := filepath.Join(t.TempDir(), "step_000001")
	adapter = filepath.Join(checkpoint, AdapterDir)
	for _, dir := range []string{adapter, filepath.Join(checkpoint, ModelDir)} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(adapter, "adapter_config.json"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(checkpoint, "optimizer.safetensors"), nil, 0o644))
	sums, err := rundir.Checksums(checkpoint)
	require.NoError(t, err)
	text, err := rundir.Seal(struct {
		Version  int               `json:"version"`
		Parts    Parts             `json:"parts"`
		Checksum map[string]string `json:"sha256"`
		Seal     string            `json:"seal"`
	}{newestState, Parts{"model": part}, sums, ""})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(checkpoint, rundir.StateFile), text, 0o644))
	return adapter
}

// The base of an adapter is known from its checkpoint, and is compared with the model in use.
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
			require.ErrorContains(t, err, "adapter "+named+" was trained on another model: model: "+name+" changed (fingerprint")
			require.ErrorContains(t, err, "(the one before is NAME@1111111111111111111111111111111111111111); use that one")
			require.ErrorContains(t, err, "cp -r "+named+" COPY")
		}
		for _, free := range []string{"", copied, filepath.Join(filepath.Dir(adapter), ModelDir), filepath.Join(model, "none")} {
			require.NoError(t, CheckBase(free, model), free)
		}
		put(name, name)
	}
	t.Chdir(adapter)
	put("config.json", "other")
	require.ErrorContains(t, CheckBase(".", model), "config.json changed (fingerprint")
	state := filepath.Join("..", rundir.StateFile)
	text, err := os.ReadFile(state)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(state, append(text, ' '), 0o644))
	require.ErrorContains(t, CheckBase(adapter, model), "state.json is damaged")
}

// A copy of an adapter with a record of its base is checked in the same way.
func TestWhatStandsBesideAnAdapter(t *testing.T) {
	model := t.TempDir()
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
		require.NoError(t, os.WriteFile(filepath.Join(model, name), []byte(name), 0o644))
	}
	adapter, copied := checkpointOf(t, model), filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(adapter)))
	require.NoError(t, CopyBase(adapter, copied))
	require.NoError(t, CheckBase(copied, model))
	require.NoError(t, os.WriteFile(filepath.Join(model, "model.safetensors"), []byte("other"), 0o644))
	err := CheckBase(copied, model)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "adapter "+copied+" was trained on another model: model: model.safetensors changed (fingerprint")
	require.ErrorContains(t, err, "delete "+filepath.Join(copied, BaseFile))
	require.NoError(t, os.WriteFile(filepath.Join(copied, BaseFile), []byte("{"), 0o644))
	require.ErrorContains(t, CheckBase(copied, model), BaseFile+": ")
	require.NoError(t, os.Remove(filepath.Join(copied, BaseFile)))
	require.NoError(t, CheckBase(copied, model))
	require.NoError(t, CopyBase(copied, copied), "of what nothing is known nothing is written")
	require.NoFileExists(t, filepath.Join(copied, BaseFile))
}

// A 4-bit model and the model that it was made from count as the same base, until one of them is changed.
func TestAQuantisedBase(t *testing.T) {
	model, four := t.TempDir(), t.TempDir()
	put := func(dir, name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
		put(model, name, name)
		put(four, name, name+" in four bits")
	}
	of, ofFour := checkpointOf(t, model), checkpointOf(t, four)
	require.ErrorContains(t, CheckBase(of, four), "trained on another model")
	require.NoError(t, WriteQuantised(model, four))
	known := checkpointOf(t, four)
	require.NoError(t, CheckBase(of, four))
	require.NoError(t, CheckBase(known, model))
	require.ErrorContains(t, CheckBase(ofFour, model), "trained on another model", "it was saved before the record of the quantised model")
	put(four, "model.safetensors", "other")
	require.ErrorContains(t, CheckBase(of, four), "trained on another model", "the record is of other weights")
	require.ErrorContains(t, CheckBase(known, four), "model.safetensors changed (fingerprint")
}

// An adapter in a checkpoint must be as the run saved it; other files of the checkpoint do not matter.
func TestAnAdapterIsAsItWasSaved(t *testing.T) {
	adapter, copied, link := checkpointOf(t, t.TempDir()), filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(adapter, link))
	config := filepath.Join(adapter, "adapter_config.json")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(adapter), "optimizer.safetensors"), []byte("other"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(adapter, "README.md"), nil, 0o644))
	require.NoError(t, CheckIntact(adapter))
	require.NoError(t, os.WriteFile(config, []byte("other"), 0o644))
	require.NoError(t, os.CopyFS(copied, os.DirFS(adapter)))
	for _, named := range []string{adapter, link} {
		err := CheckIntact(named)
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, "adapter/adapter_config.json is damaged: its sha256 is ")
		require.ErrorContains(t, err, "cp -r "+named+" COPY")
	}
	for _, free := range []string{"", copied, filepath.Join(adapter, "none")} {
		require.NoError(t, CheckIntact(free), free)
	}
	require.NoError(t, os.WriteFile(config, nil, 0o644))
	require.NoError(t, CheckIntact(adapter))
	other := filepath.Join(filepath.Dir(adapter), "another")
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, CheckIntact(other), "a folder without a checkpoint's files is not checked")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(adapter), rundir.StateFile), []byte("{"), 0o644))
	require.ErrorContains(t, CheckIntact(adapter), rundir.StateFile+": ")
}

// The first evaluation is no reference once other problems are held out, even under the same ids.
func TestWhatWasFoundFirst(t *testing.T) {
	r := &Run{Dir: t.TempDir(), Manifest: Manifest{Starts: []Start{{Parts: Parts{"test_data": {SHA256: "one"}}},
		{After: 2, Parts: Parts{"test_data": {SHA256: "two"}}}}}}
	require.NoError(t, os.WriteFile(filepath.Join(r.Dir, JudgedFile), []byte(`{"step":0,"problems":["a"],"correct":[1]}`+"\n"), 0o644))
	for step, want := range map[int]int{0: 1, 2: 1, 3: 0} {
		found, err := r.First(step)
		require.NoError(t, err)
		require.Len(t, found.Problems, want, "step %d", step)
	}
}
