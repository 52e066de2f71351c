package grpo

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/tiny"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/fusion/fusiontest"
)

func TestAModelIsTrainedAsAWholeAndResumed(t *testing.T) {
	race.SkipCovered(t)
	whole, parts := t.TempDir(), t.TempDir()
	words := []string{"train=full", "learning_rate=1e-5", "eval_every=-1"}
	run(t, open(t, nil, append(words, "run_dir="+whole)...))
	run(t, open(t, nil, append(words, "run_dir="+parts, "max_steps=1")...))
	q := &listener{}
	run(t, open(t, q, append(words, "resume="+parts)...))
	require.Len(t, q.metrics, 1)
	require.Contains(t, q.warnings[0], "max_steps: 1 → 2")

	for _, name := range []string{"model/model.safetensors", "model/tokenizer.json", momentsFile} {
		want, err := os.ReadFile(filepath.Join(checkpoint(whole, 2), name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(checkpoint(parts, 2), name))
		require.NoError(t, err)
		require.True(t, string(want) == string(got), name)
	}
	steps := lines(t, whole, metricsFile)
	require.NotEqual(t, steps[1]["policy_sha256"], steps[1]["trained_sha256"])
}

func TestAForkGoesOnInItsOwnDirectory(t *testing.T) {
	race.SkipCovered(t)
	parent, child := t.TempDir(), filepath.Join(t.TempDir(), "child")
	run(t, open(t, nil, "run_dir="+parent))
	before := lines(t, parent, metricsFile)

	q, latest := &listener{}, filepath.Join(t.TempDir(), "latest") // which may become another run
	require.NoError(t, os.Symlink(parent, latest))
	s := open(t, q, "run_dir="+child, "init_from="+latest, "max_steps=3", "learning_rate=1e-5")
	require.Zero(t, s.advisor, "a fork may have other data and rewards, so the earlier steps are no reference")
	run(t, s)
	require.Len(t, q.metrics, 1)
	require.Equal(t, 3, q.metrics[0].Step)
	require.Equal(t, before[len(before)-2]["trained_sha256"], q.metrics[0].Policy, "the last line is an evaluation")
	require.Len(t, q.evals, 2, "evaluations before the first and after the last step")
	require.Equal(t, before, lines(t, parent, metricsFile))
	var m provenance.Manifest
	require.NoError(t, rundir.ReadJSON(filepath.Join(child, provenance.ManifestFile), &m))
	require.Equal(t, checkpoint(parent, 2), m.Origin)
}

// A run keeps a copy of its data, and can be resumed when the source is gone or has changed.
func TestARunOutlivesItsData(t *testing.T) {
	race.SkipCovered(t)
	dir, source := t.TempDir(), filepath.Join(t.TempDir(), "tasks.jsonl")
	task := `{"id":"%","prompt":"Write a program that reads a number and prints it, %.","tests":[{"input":"1\n","output":"1\n"}]}` + "\n"
	problems := strings.ReplaceAll(task, "%", "a") + strings.ReplaceAll(task, "%", "b") + strings.ReplaceAll(task, "%", "c")
	require.NoError(t, os.WriteFile(source, []byte(problems), 0o644))
	with, half := []string{"run_dir=" + dir, "data=" + source, "cache_dataset=true", "eval_every=-1"}, filepath.Join(dir, "data", "train")
	require.NoError(t, errors.Join(os.MkdirAll(half, 0o755), os.WriteFile(filepath.Join(half, "problems.jsonl"), nil, 0o644))) // by a kill
	run(t, open(t, nil, append(with, "max_steps=1")...))
	require.NoError(t, os.Remove(source))
	q := &listener{}
	run(t, open(t, q, with...))
	require.Len(t, q.metrics, 1)
	require.Len(t, q.warnings, 1, "%v", q.warnings)
	require.Contains(t, q.warnings[0], "settings changed since the last start of the run: max_steps: 1 → 2")

	// A run that may continue with other data keeps its copy all the same, and refused data is not on record.
	manifest := filepath.Join(dir, provenance.ManifestFile)
	was, err := os.ReadFile(manifest)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other.jsonl")
	require.NoError(t, os.WriteFile(other, []byte(strings.ReplaceAll(task, "%", "z")), 0o644))
	changed := open(t, nil, "run_dir="+dir, "data="+other, "cache_dataset=true", "eval_every=-1", "allow_change=data", "max_steps=3")
	require.ErrorContains(t, changed.Run(t.Context()), "holds another data set")
	is, err := os.ReadFile(manifest)
	require.NoError(t, err)
	require.Equal(t, string(was), string(is))
	require.NoError(t, changed.Close())

	// Without a copy a change is noticed.
	require.NoError(t, os.WriteFile(source, []byte(problems), 0o644))
	dir = t.TempDir()
	with = []string{"run_dir=" + dir, "data=" + source, "eval_every=-1"}
	run(t, open(t, nil, append(with, "max_steps=1")...))
	require.NoError(t, os.WriteFile(source, []byte(problems+strings.ReplaceAll(task, "%", "d")), 0o644))
	_, err = tryOpen(t, nil, with...)
	require.ErrorContains(t, err, "data: has the SHA-256")
	require.ErrorContains(t, err, "allow_change=data to accept the change")
	q = &listener{}
	run(t, open(t, q, append(with, "allow_change=data")...))
	require.Len(t, q.warnings, 4, "%v", q.warnings)
	require.Contains(t, q.warnings[0], "changed since the run began, as allowed: data")
	require.Contains(t, q.warnings[1], "the problems differ from those of the checkpoint")
	require.Contains(t, q.warnings[2], "the data changed since the run began")
}

func TestBlockedCompletionsAreCounted(t *testing.T) {
	race.SkipCovered(t)
	list := filepath.Join(t.TempDir(), "blocked.txt")
	require.NoError(t, os.WriteFile(list, []byte("def \n"), 0o644))
	q := &listener{}
	s := open(t, q, "run_dir="+t.TempDir(), "blocklist="+list, "reject_blocklisted=true", "eval_every=-1")
	run(t, s)
	blocked := 0
	for _, r := range lines(t, s.RunDir(), rollouts.PlainFile) {
		score := r["score"].(map[string]any)
		if strings.Contains(r["text"].(string), "def ") {
			require.Equal(t, "def ", score["blocked"])
			require.Zero(t, score["reward"])
			blocked++
		} else {
			require.NotContains(t, score, "blocked")
		}
	}
	require.Positive(t, blocked)
	require.Equal(t, blocked, q.metrics[0].Blocked+q.metrics[1].Blocked)
}

func TestWhatHappenedIsLoggedAndDrawn(t *testing.T) {
	dir := t.TempDir()
	run(t, open(t, nil, "run_dir="+dir))
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "2 steps")
	text, err := os.ReadFile(filepath.Join(dir, logFile))
	require.NoError(t, err)
	for _, want := range []string{"a new run in " + dir, "held-out at step 0: pass@1", "step   1  reward", "saved " + checkpoint(dir, 2)} {
		require.Contains(t, string(text), want)
	}
}

// An adapter of a downloaded model names the model as others can find it; other saved files give the paths of theirs.
func TestAnAdapterNamesItsBase(t *testing.T) {
	race.SkipCovered(t)
	const commit = "0123456789abcdef0123456789abcdef01234567"
	home, local := t.TempDir(), filepath.Join(t.TempDir(), "mine")
	repo := filepath.Join(home, "hub", "models--us--small")
	snapshot := filepath.Join(repo, "snapshots", commit)
	for _, dir := range []string{snapshot, local} {
		require.NoError(t, tiny.Extract(dir))
	}
	require.NoError(t, os.Mkdir(filepath.Join(repo, "refs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(repo, "refs", "v1"), []byte(commit), 0o644))
	t.Setenv("HF_HOME", home)
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("HF_HUB_OFFLINE", "1")
	for _, c := range []struct{ words, want string }{{"model=us/small@v1", "us/small"}, {"model=" + local, local},
		{"model=" + snapshot, "us/small"}} {
		s, out := open(t, nil, c.words), t.TempDir()
		require.NoError(t, s.policy.Save(out, s.policy.Base))
		text, err := os.ReadFile(filepath.Join(out, "adapter_config.json"))
		require.NoError(t, err)
		var config map[string]any
		require.NoError(t, json.Unmarshal(text, &config))
		require.Equal(t, c.want, config["base_model_name_or_path"])
	}
	s, out := open(t, nil, "model=us/small@v1", "train=full", "learning_rate=1e-5"), t.TempDir()
	require.NoError(t, s.policy.Save(out, s.policy.Base))
	require.FileExists(t, filepath.Join(out, "config.json"))
}

// If SANDBOX_URL sets the judge in the environment, Deterministic takes that into account.
func TestASandboxElsewhereIsNotDeterministic(t *testing.T) {
	race.SkipCovered(t)
	t.Setenv("SANDBOX_URL", fusiontest.NewServer(t).URL)
	_, err := tryOpen(t, nil, "deterministic=true", "run_dir="+t.TempDir())
	require.EqualError(t, err, "deterministic: a sandbox on another machine may judge differently; set sandbox=local, or deterministic=false")
}

// A disproportionate reward is reported before the update that fails because of it.
func TestAHugeRewardIsTold(t *testing.T) {
	race.SkipCovered(t)
	huge := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		s, err := vowels(ctx, c)
		s.Reward *= 1e35
		return s, err
	}
	tr, q := setup{words: []string{"max_steps=1", "eval_every=-1"}, options: []Option{WithGrader(reward.GraderFunc(huge))}}.open(t)
	require.NoError(t, tr.Run(t.Context()), "a step with a non-finite gradient is left out")
	require.Contains(t, q.warnings[0], "so far from the others that the gradient will hardly be finite")
	require.Contains(t, q.warnings[1], "step 1: no update: ")
}
