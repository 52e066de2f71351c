package provenance

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// model is a directory with a file of weights that a sample does not cover, with one byte changed.
func model(t *testing.T, dir string, at int) Part {
	t.Helper()
	text := append([]byte{2, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, bytes.Repeat([]byte("0123456789abcdef"), 1<<16)...)
	text[at] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), text, 0o644))
	p, err := OfModel(dir)
	require.NoError(t, err)
	return p
}

// began starts a process that trains in a run, and gives what becomes of its weights' fingerprint.
func began(t *testing.T, run string, cfg *configs.Config, past Past, start Start, weights string) error {
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

// A sample notices other weights at once; what it leaves out is noticed when all of them have been read.
func TestWeightsAreKnownAgain(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	is := model(t, weights, 20)
	require.NotEqual(t, is.SHA256, model(t, weights, 21).SHA256, "in a block of the sample")
	require.Equal(t, is.SHA256, model(t, weights, 20).SHA256)

	cfg := configs.Defaults()
	cfg.RunDir = run
	require.NoError(t, began(t, run, &cfg, Past{}, Start{Parts: Parts{"model": is}}, weights))
	past, err := Read(run)
	require.NoError(t, err)
	require.Len(t, past.Manifest.Starts[0].Parts["model"].Full, 64)

	text, err := os.ReadFile(filepath.Join(weights, "model.safetensors"))
	require.NoError(t, err)
	text[10+6<<10] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(weights, "model.safetensors"), text, 0o644))
	same, err := OfModel(weights)
	require.NoError(t, err)
	require.Equal(t, is.SHA256, same.SHA256, "between two blocks of the sample")
	goOn := Past{Checkpoint: filepath.Join(run, rundir.Checkpoints, rundir.Name(4))}
	require.NoError(t, goOn.Check(&cfg, 4, ""))
	err = began(t, run, &cfg, goOn, Start{After: 4, Parts: Parts{"model": same}}, weights)
	require.ErrorContains(t, err, "model: its weights have the SHA-256")
}

// Settings are those that were in force at a step, also after somebody went back.
func TestSettingsInForce(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	model(t, weights, 20)
	cfg := configs.Defaults()
	cfg.RunDir, cfg.Seed = run, 1<<64-1
	require.NoError(t, began(t, run, &cfg, Past{}, Start{}, weights))
	for _, c := range []struct {
		after int
		rate  float64
	}{{8, 2}, {4, 3}, {6, 4}} {
		cfg.LearningRate, cfg.Stop = c.rate, []string{"x"}
		past := Past{Checkpoint: "any"}
		require.NoError(t, past.Check(&cfg, c.after, ""))
		require.NoError(t, began(t, run, &cfg, past, Start{After: c.after}, weights))
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
	last := Past{Checkpoint: "any"}
	require.ErrorContains(t, last.Check(&cfg, 8, ""), "loss: importance_sampling → ppo; leave it out")
	cfg.AllowChange = []string{"loss"}
	require.NoError(t, last.Check(&cfg, 8, ""))
}

// A backend whose bits cannot be those of the run is refused, unless that is allowed or the run of before there was a
// choice.
func TestSumsInAnotherOrderAreRefused(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	model(t, weights, 20)
	cfg := configs.Defaults()
	cfg.RunDir = run
	require.NoError(t, began(t, run, &cfg, Past{}, Start{}, weights))
	goOn := func(order string) error { return (&Past{Checkpoint: "any"}).Check(&cfg, 4, order) }
	require.NoError(t, goOn("in series"))

	past := Past{Checkpoint: "any"}
	require.NoError(t, past.Check(&cfg, 4, "in series"))
	require.NoError(t, began(t, run, &cfg, past, Start{After: 4, Order: "in series"}, weights))
	require.NoError(t, goOn("in series"))
	err := goOn("in tiles")
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "another order than this backend (in tiles, before in series)")
	require.NotContains(t, err.Error(), "\n")
	cfg.AllowChange = []string{"device"}
	require.NoError(t, cfg.Validate())
	require.NoError(t, goOn("in tiles"))
}

// What a backend may choose is what it has chosen for the run already.
func TestAutoIsWhatTheRunHas(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	model(t, weights, 20)
	cfg := configs.Defaults()
	cfg.RunDir, cfg.Precision, cfg.KVCacheDtype = run, "bf16", "" // nothing is f32
	require.NoError(t, began(t, run, &cfg, Past{}, Start{}, weights))
	cfg.Precision, cfg.KVCacheDtype = "auto", "auto"
	require.NoError(t, (&Past{Checkpoint: "any"}).Check(&cfg, 4, ""))
	require.Equal(t, []string{"bf16", "f32"}, []string{cfg.Precision, cfg.KVCacheDtype})
	cfg.Precision = "auto"
	require.NoError(t, (&Past{Checkpoint: "any", Fork: true}).Check(&cfg, 4, ""))
	require.Equal(t, "auto", cfg.Precision, "a fork is a run of its own")
}

func TestACommitOfTheHubIsPartOfAModel(t *testing.T) {
	before := Parts{"model": {SHA256: "a", Commit: "c1"}, "data": {SHA256: "d", Commit: "c1"}}
	now := Parts{"model": {SHA256: "a", Commit: "c2"}, "data": {SHA256: "d", Commit: "c2"}, "blocklist": {SHA256: "new"}}
	require.Equal(t, map[string]string{"model": "model: commit c2 of the Hub, was c1 (the one before is NAME@c1)"}, now.Differences(before))
}
