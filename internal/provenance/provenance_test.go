package provenance

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/kernels"
)

// sums is a backend with its own order of summation.
type sums struct {
	kernels.Backend
	order string
}

func (s sums) Order() string { return s.order }
func (s sums) Name() string  { return "sums" }

// orderedBackend is a backend with a choice of orders, of which tiles are the fastest.
type orderedBackend struct {
	kernels.Backend
	now kernels.Order
}

func (c *orderedBackend) Order() string           { return "in " + c.now.String() }
func (c *orderedBackend) Name() string            { return "choosing" }
func (c *orderedBackend) Sums() kernels.Order     { return c.now }
func (c *orderedBackend) SetSums(o kernels.Order) { c.now = o }
func (c *orderedBackend) Fastest() kernels.Order  { return kernels.Tiles }

// model is a directory with a weights file that is larger than the sample that is hashed, with one byte changed.
func model(t *testing.T, dir string, at int) Part {
	t.Helper()
	text := append([]byte{2, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, bytes.Repeat([]byte("0123456789abcdef"), 1<<16)...)
	text[at] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), text, 0o644))
	p, err := FingerprintModel(dir)
	require.NoError(t, err)
	return p
}

// beginRun starts a process that trains in a run, and returns the fingerprint of the weights.
func beginRun(t *testing.T, run string, cfg *configs.Config, past ResumeOrigin, start Start, weights string) error {
	t.Helper()
	d, err := rundir.Claim(run)
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Begin(nil, rundir.Point{})
	require.NoError(t, err)
	l, err := Open(d, cfg, past, Manifest{}, start, weights, func(string) {})
	require.NoError(t, err)
	<-l.weighing.done
	return l.Close()
}

// The hash of a sample notices other weights at once; changes elsewhere are noticed when all weights have been hashed.
func TestWeightsAreKnownAgain(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	is := model(t, weights, 20)
	require.NotEqual(t, is.SHA256, model(t, weights, 21).SHA256, "in a block of the sample")
	require.Equal(t, is.SHA256, model(t, weights, 20).SHA256)
	require.NoError(t, os.WriteFile(filepath.Join(weights, "._model.safetensors"), nil, 0o644)) // other systems leave such files
	require.Equal(t, is.SHA256, model(t, weights, 20).SHA256)
	full, err := FullHash(t.Context(), weights)
	require.NoError(t, err)
	// The fingerprint in the records of other releases.
	require.Equal(t, "081e5fcfaa63a7865f9fb3397513245526e6da3805bc83c1ef29a934b9c35aad", is.SHA256)
	require.Equal(t, "675f7b0993443c776aec989471e6adbe9bd852f21eedebdbd50ef911128e8ce6", full)
	require.Empty(t, Parts{"model": {SHA256: "a", Full: full}}.Differences(Parts{"model": {SHA256: "a"}}),
		"a hash that only one of them has is no difference")

	cfg := configs.Defaults()
	cfg.RunDir = run
	require.NoError(t, beginRun(t, run, &cfg, ResumeOrigin{}, Start{Parts: Parts{"model": is}}, weights))
	past, err := Read(run)
	require.NoError(t, err)
	require.Equal(t, full, past.Manifest.Starts[0].Parts["model"].Full)

	text, err := os.ReadFile(filepath.Join(weights, "model.safetensors"))
	require.NoError(t, err)
	text[10+6<<10] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(weights, "model.safetensors"), text, 0o644))
	same, err := FingerprintModel(weights)
	require.NoError(t, err)
	require.Equal(t, is.SHA256, same.SHA256, "between two blocks of the sample")
	for range 2 { // the warning is repeated at every start
		goOn := ResumeOrigin{Checkpoint: filepath.Join(run, rundir.Checkpoints, rundir.Name(4))}
		require.NoError(t, goOn.Check(&cfg, 4, sums{}))
		err = beginRun(t, run, &cfg, goOn, Start{After: 4, Parts: Parts{"model": same}}, weights)
		require.ErrorContains(t, err, "model: its weights have the SHA-256")
	}
}

// The settings in force at a step, also after the run went back.
func TestSettingsInForce(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	model(t, weights, 20)
	cfg := configs.Defaults()
	cfg.RunDir, cfg.Seed = run, 1<<64-1
	require.NoError(t, beginRun(t, run, &cfg, ResumeOrigin{}, Start{}, weights))
	for _, c := range []struct {
		after int
		rate  float64
	}{{8, 2}, {4, 3}, {6, 4}} {
		cfg.LearningRate, cfg.Stop = c.rate, []string{"x"}
		past := ResumeOrigin{Checkpoint: "any"}
		require.NoError(t, past.Check(&cfg, c.after, sums{}))
		require.NoError(t, beginRun(t, run, &cfg, past, Start{After: c.after}, weights))
	}
	past, err := Read(run)
	require.NoError(t, err)
	for step, rate := range map[int]float64{1: 4e-5, 4: 4e-5, 5: 3, 6: 3, 7: 4, 20: 4} {
		at, _, err := past.At(step)
		require.NoError(t, err)
		require.Equal(t, rate, at.LearningRate, "step %d", step)
		require.Equal(t, uint64(1<<64-1), at.Seed)
	}
	cfg.Loss = "ppo"
	last := ResumeOrigin{Checkpoint: "any"}
	require.ErrorContains(t, last.Check(&cfg, 8, sums{}), "loss: importance_sampling → ppo; leave it out")
	cfg.AllowChange = []string{"loss"}
	require.NoError(t, last.Check(&cfg, 8, sums{}))
}

// If a manifest is damaged, the error says what would be lost without it.
func TestADamagedManifestSaysWhatIsLost(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ManifestFile)
	require.NoError(t, os.WriteFile(path, []byte(`{"starts": [`), 0o644))
	_, err := Read(dir)
	require.EqualError(t, err, path+": unexpected end of JSON input; remove it to continue without it, with the settings of config.json: "+
		"type the changes since the run began with run_dir="+dir+" again")
	require.True(t, badinput.Is(err))
}

// A backend that cannot reproduce the run's bits is refused, unless that is allowed, or the run is older than the choice of orders.
func TestSumsInAnotherOrderAreRefused(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	model(t, weights, 20)
	cfg := configs.Defaults()
	cfg.RunDir = run
	require.NoError(t, beginRun(t, run, &cfg, ResumeOrigin{}, Start{}, weights))
	goOn := func(order string) error { return (&ResumeOrigin{Checkpoint: "any"}).Check(&cfg, 4, sums{order: order}) }
	require.NoError(t, goOn("in series"))

	past := ResumeOrigin{Checkpoint: "any"}
	require.NoError(t, past.Check(&cfg, 4, sums{order: "in series"}))
	require.NoError(t, beginRun(t, run, &cfg, past, Start{After: 4, Order: "in series"}, weights))
	require.NoError(t, goOn("in series"))
	err := goOn("in tiles")
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "another order than this backend (in tiles, before in series)")
	require.NotContains(t, err.Error(), "\n")
	cfg.AllowChange = []string{"order"}
	require.ErrorContains(t, goOn("in tiles"), "another order than this backend",
		"allow_change=order does not allow an order that was not set")
	cfg.AllowChange = []string{"device"}
	require.NoError(t, cfg.Validate())
	require.NoError(t, goOn("in tiles"))
}

// auto means what was chosen when the run began.
func TestAutoIsWhatTheRunHas(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	model(t, weights, 20)
	cfg := configs.Defaults()
	cfg.RunDir, cfg.Precision, cfg.KVCacheDtype, cfg.AdapterPrecision = run, "bf16", "", "" // "" is f32
	require.NoError(t, beginRun(t, run, &cfg, ResumeOrigin{}, Start{}, weights))
	cfg.Precision, cfg.KVCacheDtype, cfg.AdapterPrecision = "auto", "auto", "auto"
	require.NoError(t, (&ResumeOrigin{Checkpoint: "any"}).Check(&cfg, 4, sums{}))
	require.Equal(t, []string{"bf16", "f32", "f32"}, []string{cfg.Precision, cfg.KVCacheDtype, cfg.AdapterPrecision})
	require.NoError(t, (&ResumeOrigin{Checkpoint: "any"}).Check(&cfg, 4, sums{}), "settings that repeat those of the checkpoint are no change")
	for key, setting := range map[string]*string{"precision": &cfg.Precision, "kv_cache_dtype": &cfg.KVCacheDtype,
		"adapter_precision": &cfg.AdapterPrecision} {
		was, other := *setting, map[string]string{"bf16": "f32", "f32": "bf16"}[*setting]
		*setting = other
		err := (&ResumeOrigin{Checkpoint: "any"}).Check(&cfg, 4, sums{})
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, key+": "+was+" → "+other)
		cfg.AllowChange = []string{key}
		require.NoError(t, (&ResumeOrigin{Checkpoint: "any"}).Check(&cfg, 4, sums{}))
		*setting, cfg.AllowChange = was, nil
	}
	cfg.Precision = "auto"
	require.NoError(t, (&ResumeOrigin{Checkpoint: "any", Fork: true}).Check(&cfg, 4, sums{}))
	require.Equal(t, "auto", cfg.Precision, "a fork is a run of its own")
}

// A run keeps its order of summation when it is resumed elsewhere, whatever is the fastest there; it begins with the fastest.
func TestARunKeepsItsOrder(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	model(t, weights, 20)
	set := func(order string, allowed ...string) *configs.Config {
		cfg := configs.Defaults()
		cfg.RunDir, cfg.Order, cfg.AllowChange = run, order, allowed
		return &cfg
	}
	b := &orderedBackend{}
	cfg := set("auto")
	require.NoError(t, new(ResumeOrigin).Check(cfg, 0, b))
	require.Equal(t, []string{"tiles", "in tiles"}, []string{cfg.Order, b.Order()})
	cfg = set("serial")
	require.NoError(t, new(ResumeOrigin).Check(cfg, 0, b))
	require.Equal(t, "in serial", b.Order())
	require.NoError(t, beginRun(t, run, cfg, ResumeOrigin{}, Start{Order: b.Order()}, weights))

	goOn := func(cfg *configs.Config, b kernels.Backend) error {
		return (&ResumeOrigin{Checkpoint: "any"}).Check(cfg, 4, b)
	}
	b.now, cfg = kernels.Tiles, set("auto")
	require.NoError(t, goOn(cfg, b))
	require.Equal(t, []string{"serial", "in serial"}, []string{cfg.Order, b.Order()})
	err := goOn(set("tiles"), b)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "order: serial → tiles; leave it out, type init_from="+run)
	require.ErrorContains(t, err, "or allow_change=order to change this one")
	require.NoError(t, goOn(set("tiles", "order"), b))
	require.Equal(t, "in tiles", b.Order())

	// A run on a backend with an order of its own can continue on another only if that is allowed.
	card := sums{order: "as a card does"}
	require.ErrorContains(t, goOn(set("auto"), card), "another order than this backend (as a card does, before in serial)")
	cfg = set("auto", "device")
	require.NoError(t, goOn(cfg, card))
	require.Equal(t, "auto", cfg.Order)
	require.EqualError(t, new(ResumeOrigin).Check(set("tiles"), 0, card),
		"order: found tiles, and sums takes its sums in an order of its own; expected auto")
}

// If only a checkpoint is left of a run, the order is taken from it.
func TestACheckpointKnowsItsOrder(t *testing.T) {
	cfg, b := configs.Defaults(), &orderedBackend{now: kernels.Tiles}
	cfg.RunDir = t.TempDir()
	past := ResumeOrigin{Checkpoint: "any", Order: "serial"}
	require.NoError(t, past.Check(&cfg, 4, b))
	require.Equal(t, []string{"serial", "in serial"}, []string{cfg.Order, b.Order()})
	cfg.Order = "tiles"
	require.ErrorContains(t, past.Check(&cfg, 4, b), "order: serial → tiles")
}

// Settings missing in the records of an older release have the values of that release.
func TestOlderRunsSayLess(t *testing.T) {
	run := t.TempDir()
	for _, c := range []struct {
		text, order string
		rows        int
	}{{`{"version":1,"max_rows":0}`, "serial", 512}, {`{"version":1,"max_rows":700,"order":"tiles"}`, "tiles", 700}} {
		require.NoError(t, os.WriteFile(filepath.Join(run, ConfigFile), []byte(c.text), 0o644))
		was, err := SettingsOf(run)
		require.NoError(t, err)
		require.Equal(t, c.order, was.Order)
		require.Equal(t, c.rows, was.MaxRows)
	}
}

// A run of a later release is refused: settings unknown to this program would be ignored.
func TestSettingsThatNobodyKnowsAreNotPassedOver(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	model(t, weights, 20)
	cfg := configs.Defaults()
	cfg.RunDir = run
	require.NoError(t, beginRun(t, run, &cfg, ResumeOrigin{}, Start{}, weights))
	require.NoError(t, (&ResumeOrigin{Checkpoint: "any"}).Check(&cfg, 4, sums{}))
	for name, add := range map[string]func(string) string{
		ConfigFile: func(s string) string { return strings.Replace(s, "{", `{"from_tomorrow": 1,`, 1) },
		ManifestFile: func(s string) string {
			return strings.Replace(s, `"parts"`, `"settings": {"from_tomorrow": 1}, "parts"`, 1)
		},
	} {
		path := filepath.Join(run, name)
		was, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(add(string(was))), 0o644))
		err = (&ResumeOrigin{Checkpoint: "any"}).Check(&cfg, 4, sums{})
		require.True(t, badinput.Is(err), name)
		require.ErrorContains(t, err, "has a setting that this program does not know (from_tomorrow): another release of grpo wrote it")
		require.NoError(t, (&ResumeOrigin{Checkpoint: "any", Fork: true}).Check(&cfg, 4, sums{}), "a fork is a run of its own")
		require.NoError(t, os.WriteFile(path, was, 0o644))
	}
}

func TestACommitOfTheHubIsPartOfAModel(t *testing.T) {
	before := Parts{"model": {SHA256: "a", Commit: "c1"}, "data": {SHA256: "d", Commit: "c1"}}
	now := Parts{"model": {SHA256: "a", Commit: "c2"}, "data": {SHA256: "d", Commit: "c2"}, "blocklist": {SHA256: "new"}}
	require.Equal(t, map[string]string{"model": "model: commit c2 of the Hub, was c1 (the one before is NAME@c1)"}, now.Differences(before))
}

// A setting without effect in an older run does not prevent resuming it; in a new run it is refused.
func TestARunGoesOnWithSettingsWithoutEffect(t *testing.T) {
	run := t.TempDir()
	old, err := configs.Load(configs.Source{Preset: "tiny"})
	require.NoError(t, err)
	old.MaxTurns, old.InfraThreshold, old.RunDir = 5, 300, run
	require.NoError(t, beginRun(t, run, old, ResumeOrigin{}, Start{}, ""))
	for _, words := range [][]string{{"run_dir=" + run}, {"run_dir=" + run, "max_turns=5", "infra_threshold=300"},
		{"resume=" + run, "max_turns=5"}} {
		for _, preset := range []string{"", "tiny"} {
			cfg, err := Resolve(configs.Source{Preset: preset, Overrides: append(words, "max_steps=300")})
			require.NoError(t, err, words)
			require.True(t, preset != "" || cfg.MaxTurns == 5)
		}
	}
	cfg, err := Resolve(configs.Source{Overrides: []string{"init_from=" + run, "run_dir=" + t.TempDir()}})
	require.NoError(t, err)
	require.Equal(t, 5, cfg.MaxTurns)
	for _, words := range [][]string{{"max_turns=5"}, {"max_turns=5", "run_dir=" + t.TempDir()},
		{"max_turns=5", "run_dir=" + run, "resume=never"}} {
		_, err = Resolve(configs.Source{Preset: "tiny", Overrides: words})
		require.EqualError(t, err, "max_turns: env=none does not use it; type env=heal or env=tools, or leave it out")
	}
}

// A checkpoint that could not be read is not reported as one of another model.
func TestWhyACheckpointWasNotTakenOver(t *testing.T) {
	broken := &fs.PathError{Op: "read", Path: "a", Err: syscall.EIO}
	for _, err := range []error{broken, badinput.Errorf("%w", broken), errors.New("no room")} {
		said := LoadError("c", err)
		require.EqualError(t, said, "checkpoint c could not be read: "+err.Error()+"; fix that, then type the same again to resume")
		require.ErrorIs(t, said, err)
	}
	said := LoadError("c", badinput.Errorf("a: tensor \"m\" has shape [1], expected [2]"))
	require.ErrorContains(t, said, "checkpoint c does not fit the model and the trained weights: a: tensor")
	require.ErrorContains(t, said, "give the settings that the run began with, as in its config.json, or another run_dir")
	require.True(t, badinput.Is(said))

	full := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(full, ModelDir), 0o755))
	said = LoadError(full, &fs.PathError{Op: "stat", Path: filepath.Join(full, AdapterDir, "adapter_config.json"), Err: syscall.ENOENT})
	require.ErrorContains(t, said, "no adapter; type train=full, or another run_dir")
	require.True(t, badinput.Is(said))
}
