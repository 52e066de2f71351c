package provenance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// A run resumed from a named checkpoint has the settings at that checkpoint; one resumed by its directory has the latest.
func TestACheckpointIsGoneOnWithAsItWasMade(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	model(t, weights, 20)
	cfg := configs.Defaults()
	cfg.RunDir, cfg.MaxRows = run, 777
	require.NoError(t, beginRun(t, run, &cfg, ResumeOrigin{}, Start{Own: []string{OwnLoss}}, weights))
	cfg.Loss, cfg.AllowChange = "ppo", []string{"loss"}
	past := ResumeOrigin{Checkpoint: "any"}
	require.NoError(t, past.Check(&cfg, 8, sums{}))
	require.NoError(t, beginRun(t, run, &cfg, past, Start{After: 8}, weights))

	at := filepath.Join(run, rundir.Checkpoints, rundir.Name(4))
	require.NoError(t, os.MkdirAll(at, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(at, rundir.StateFile), nil, 0o644))
	for _, c := range []struct {
		resume, loss string
		own          []string
	}{{at, "importance_sampling", []string{OwnLoss}}, {"auto", "ppo", nil}} {
		cfg := configs.Defaults()
		cfg.RunDir, cfg.Resume, cfg.Loss, cfg.MaxRows = run, c.resume, c.loss, 0
		past := ResumeOrigin{Checkpoint: at}
		require.NoError(t, past.Check(&cfg, 4, sums{}), c.resume)
		require.Equal(t, 777, cfg.MaxRows, "what nobody says is as it was")
		require.NoError(t, past.CheckOwn(&cfg, 4, c.own, func(string) {}), c.resume)
		err := past.CheckOwn(&cfg, 4, []string{OwnAdvantage}, func(string) {})
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, "advantage: the program's own advantage (WithAdvantage), before that of the settings")
		cfg.Loss = map[string]string{"ppo": "importance_sampling", "importance_sampling": "ppo"}[c.loss]
		require.ErrorContains(t, past.Check(&cfg, 4, sums{}), "loss: "+c.loss+" → "+cfg.Loss)
	}
}

// Whether runs of older releases had parts of the program's own is unknown.
func TestOwnPartsOfOlderRuns(t *testing.T) {
	for _, c := range []struct {
		manifest Manifest
		known    bool
	}{
		{Manifest{}, false}, {Manifest{Starts: []Start{{}}}, true}, {Manifest{Own: []string{OwnLoss}, Starts: []Start{{}}}, false},
		{Manifest{Own: []string{OwnLoss}, Starts: []Start{{}, {Own: []string{OwnLoss}}}}, true},
	} {
		_, known := (&Run{Manifest: c.manifest}).Own(Start{})
		require.Equal(t, c.known, known, "%+v", c.manifest)
	}
}

// Two starts are the same if everything that affects a step is.
func TestStartsThatTrainAlike(t *testing.T) {
	start := func() Start {
		return Start{After: 3, Order: "o", Own: []string{OwnLoss}, Parts: Parts{"data": {SHA256: "a"}},
			Settings: map[string]json.RawMessage{"loss": json.RawMessage(`"ppo"`)}}
	}
	other := start()
	other.After, other.Time = 5, "later"
	require.True(t, start().Equal(other))
	for _, change := range []func(*Start){
		func(s *Start) { s.Order = "p" }, func(s *Start) { s.Own = nil }, func(s *Start) { s.Settings = nil },
		func(s *Start) { s.Parts = Parts{"data": {SHA256: "b"}} },
	} {
		other := start()
		change(&other)
		require.False(t, start().Equal(other), "%+v", other)
	}
}

// Steps repeated by another process are on record with its settings.
func TestGoingBackIsOnRecord(t *testing.T) {
	run := t.TempDir()
	cfg := configs.Defaults()
	cfg.RunDir = run
	require.NoError(t, beginRun(t, run, &cfg, ResumeOrigin{}, Start{}, ""))
	cfg.LearningRate = 7
	past := ResumeOrigin{Checkpoint: "any"}
	require.NoError(t, past.Check(&cfg, 8, sums{}))
	d, err := rundir.Claim(run)
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Begin(nil, rundir.Point{Step: 8})
	require.NoError(t, err)
	l, err := Open(d, &cfg, past, Manifest{}, Start{After: 8}, "", func(string) {})
	require.NoError(t, err)
	defer l.weighing.Close()
	rate := func(step int) float64 {
		r, err := Read(run)
		require.NoError(t, err)
		at, _, err := r.At(step)
		require.NoError(t, err)
		return at.LearningRate
	}
	require.NoError(t, l.RecordRollback(8), "they were made by this one")
	require.Len(t, l.Manifest.Starts, 2)
	require.Equal(t, []float64{4e-5, 7}, []float64{rate(8), rate(9)})
	require.NoError(t, l.RecordRollback(5))
	require.Len(t, l.Manifest.Starts, 3)
	require.Equal(t, []float64{4e-5, 7, 7}, []float64{rate(5), rate(6), rate(9)})
}

// If a change of the weights was allowed, they are compared with the new ones from then on.
func TestWeightsThatWereChangedAsAllowed(t *testing.T) {
	weights, run := t.TempDir(), t.TempDir()
	cfg := configs.Defaults()
	cfg.RunDir = run
	require.NoError(t, beginRun(t, run, &cfg, ResumeOrigin{}, Start{Parts: Parts{"model": model(t, weights, 20)}}, weights))
	other := Start{After: 2, Parts: Parts{"model": model(t, weights, 21)}}
	past := ResumeOrigin{Checkpoint: "any"}
	require.NoError(t, past.Check(&cfg, 2, sums{}))
	d, err := rundir.Claim(run)
	require.NoError(t, err)
	l, err := Open(d, &cfg, past, Manifest{}, other, weights, func(string) {})
	require.NoError(t, err)
	require.NoError(t, l.weighing.Close(), "the process ends before all of them are read")
	require.NoError(t, d.Close())
	require.NoError(t, past.Check(&cfg, 2, sums{}))
	require.NoError(t, beginRun(t, run, &cfg, past, other, weights))
}

// A fork takes over the settings of a run, but not those of where it began.
func TestWhereARunBeganIsNotHandedOn(t *testing.T) {
	run, adapter := t.TempDir(), filepath.Join(t.TempDir(), "adapter")
	cfg := configs.Defaults()
	cfg.RunDir, cfg.InitFrom, cfg.Adapter, cfg.LearningRate = run, "elsewhere", adapter, 7
	require.NoError(t, beginRun(t, run, &cfg, ResumeOrigin{}, Start{}, ""))
	for _, word := range []string{"resume=" + run, "init_from=" + run} {
		base, err := namedRun([]string{word})
		require.NoError(t, err)
		require.Equal(t, []any{"", 7.0}, []any{base.InitFrom, base.LearningRate}, word)
		require.Equal(t, word == "init_from="+run, base.Adapter == "", "the checkpoint takes its place")
	}
	now := cfg
	require.NoError(t, CheckSettings(run, &cfg, &now))
	now.InitFrom = "another"
	require.ErrorContains(t, CheckSettings(run, &cfg, &now), "already has a run, which began elsewhere")
}

// A checkpoint of an older release that has only one hash of its model cannot be compared.
func TestABaseWithoutFilesIsNotKnown(t *testing.T) {
	adapter := checkpointOf(t, t.TempDir())
	text, err := rundir.Seal(struct {
		Version int    `json:"version"`
		Parts   Parts  `json:"parts"`
		Seal    string `json:"seal"`
	}{newestState, Parts{"model": {SHA256: "a"}}, ""})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(adapter), rundir.StateFile), text, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(adapter, adapterFiles[0]), nil, 0o644))
	_, known, err := BaseOf(adapter)
	require.NoError(t, err)
	require.False(t, known)
}
