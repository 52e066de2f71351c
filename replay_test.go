package grpo

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/reward"
)

// replayed replays a step of a run, and returns the numbers of the steps that this took.
func replayed(t *testing.T, run string, step int) (steps []int, after *Replayed, err error) {
	t.Helper()
	after, err = Replay(t.Context(), run, step, backend(t, 3), func(m Metrics) { steps = append(steps, m.Step) })
	return steps, after, err
}

// The first kind and conversations are runs of the embedded model in a real sandbox, the others of a smaller model.
func TestRecordedStepsComeOutTheSame(t *testing.T) {
	for i, kind := range race.FirstOnly(testvariants.EveryNth(2, [][]string{
		{"pipeline=full", "refill=true", "max_refills=1", "loss=ppo", "clip_dual=3", "kl_coef=0.1", "entropy_coef=0.01", "tis=token"},
		{"pipeline=score", "num_iterations=2"},
		{"env=heal", "advantage=batch", "kl_coef=0.05", "kl_in=reward", "max_conversation_tokens=240"},
		{"train=full", "lora_rank=0", "learning_rate=1e-5"},
		{"precision=bf16", "kv_cache_dtype=bf16", "quantize=nf4"},
		{"share_prefixes=false"},
		{"train=full", "lora_rank=0", "learning_rate=1e-5", "precision=bf16", "order=tiles"},
		{"loss=gspo_token", "advantage=batch", "kl_coef=0.05", "kl_in=reward", "positive_only=true"},
	}...)...) {
		dir := t.TempDir()
		words := append(kind, "max_steps=3", "save_every=2", "eval_every=-1")
		if i == 0 || kind[0] == "env=heal" {
			run(t, open(t, nil, append(words, "run_dir="+dir)...))
		} else {
			tr, _ := setup{dir: dir, words: words}.open(t)
			run(t, tr)
		}
		for step, want := range map[int][]int{2: {1, 2}, 3: {3}} {
			steps, after, err := replayed(t, dir, step)
			require.NoError(t, err)
			require.Equal(t, want, steps)
			if step == 3 { // it saves the run's own last checkpoint
				out := t.TempDir()
				require.NoError(t, after.Save(out))
				files, err := filepath.Glob(filepath.Join(out, "*.safetensors"))
				require.NoError(t, err)
				require.Len(t, files, 1)
				got, err := os.ReadFile(files[0])
				require.NoError(t, err)
				want, err := os.ReadFile(filepath.Join(checkpoint(dir, 3), provenance.TrainedDir(after.policy.full), filepath.Base(files[0])))
				require.NoError(t, err)
				require.True(t, string(want) == string(got))
			}
		}
	}
}

// The adapter that a run began with is needed only to replay steps before the first checkpoint.
func TestAReplayWithoutTheFirstAdapter(t *testing.T) {
	race.SkipCovered(t)
	few := []string{"max_steps=3", "save_every=2", "eval_every=-1"}
	first, dir := t.TempDir(), t.TempDir()
	run(t, open(t, nil, append(few, "run_dir="+first)...))
	adapter := filepath.Join(checkpoint(first, 3), provenance.AdapterDir)
	run(t, open(t, nil, append(few, "run_dir="+dir, "adapter="+adapter)...))
	require.NoError(t, os.RemoveAll(adapter))
	steps, _, err := replayed(t, dir, 3)
	require.NoError(t, err)
	require.Equal(t, []int{3}, steps)
	_, _, err = replayed(t, dir, 2)
	require.EqualError(t, err, "adapter: stat "+adapter+"/adapter_config.json: no such file or directory; expected a PEFT adapter directory")
}

func TestAChangedRecordIsNoticed(t *testing.T) {
	race.SkipCovered(t)
	dir := t.TempDir()
	run(t, open(t, nil, "run_dir="+dir, "max_steps=2", "eval_every=-1"))
	_, _, err := replayed(t, dir, 3)
	require.ErrorContains(t, err, "step 3 is not recorded; its metrics are of steps 1 to 2")

	path := filepath.Join(dir, rollouts.PlainFile)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for changed, want := range map[string]string{
		`"logprobs":[-0.`: "step 1: sampler and trainer disagree by",
		`"advantage":-0.`: "step 1: the policy after has SHA-256",
	} {
		require.Contains(t, string(text), changed)
		other := strings.Replace(string(text), changed, strings.Replace(changed, "-0.", "-1.", 1), 1)
		require.NoError(t, os.WriteFile(path, []byte(other), 0o644))
		_, _, err = replayed(t, dir, 1)
		require.ErrorContains(t, err, want)
	}

	require.NoError(t, os.WriteFile(path, text, 0o644))
	steps, err := os.ReadFile(filepath.Join(dir, metricsFile))
	require.NoError(t, err)
	other := regexp.MustCompile(`"policy_sha256":"..`).ReplaceAllString(string(steps), `"policy_sha256":"xx`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, metricsFile), []byte(other), 0o644))
	_, _, err = replayed(t, dir, 1)
	require.ErrorContains(t, err, "step 1: the policy before has SHA-256")
	require.NoError(t, os.WriteFile(filepath.Join(dir, metricsFile), steps[bytes.IndexByte(steps, '\n')+1:], 0o644)) // as of a fork
	_, _, err = replayed(t, dir, 1)
	require.ErrorContains(t, err, "step 1 is not recorded; its metrics are of steps 2 to 2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, metricsFile), steps, 0o644))

	all := strings.SplitAfter(string(text), "\n")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(append(all[:1], all[2:]...), "")), 0o644))
	_, _, err = replayed(t, dir, 1)
	require.ErrorContains(t, err, "rollouts.jsonl:2: sample 2 of group 0 of step 1 is not in its place")

	for what, want := range map[string]string{
		`"group":-1`:         "sample 0 of group -1 of step 1 is not in its place",
		`"prompt":[]`:        "the prompt is empty",
		`"logprobs":[-0.5]`:  " have 1 log-probabilities and 0 advantages, expected as many",
		`"advantages":[1,1]`: "and 2 advantages, expected as many",
		`"conversation":{"turns":[{"start":0,"end":99999}]}`: "the turns of its conversation do not stand in its",
	} {
		first := strings.TrimSuffix(all[0], "}\n") + "," + what + "}\n" // of a duplicate key the last value counts
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), all[0], first, 1)), 0o644))
		_, _, err = replayed(t, dir, 1)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "rollouts.jsonl:1: ")
	}
}

// A run whose settings changed is replayed with those in force at each step; a directory that is no run is refused.
func TestWhatIsNoRunIsNotReplayed(t *testing.T) {
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: []string{"max_steps=1", "eval_every=-1", "save_every=1"}}.open(t)
	run(t, tr)
	empty, none, checkpoint := t.TempDir(), filepath.Join(t.TempDir(), "none"), tr.record.Checkpoint(1)
	for dir, want := range map[string]string{
		none: none + ": there is none; expected the directory of a run, as its run_dir names it, such as --run runs/first",
		empty: empty + ": found no metrics.jsonl there; expected the directory of a run, as its run_dir names it, " +
			"and steps that it has taken",
		checkpoint: checkpoint + " is a checkpoint; type the directory of its run, " + dir,
	} {
		_, err := Replay(t.Context(), dir, 1, backend(t, 0), nil)
		require.EqualError(t, err, want)
		require.True(t, badinput.Is(err))
	}
}

func TestStepsAreReplayedWithTheirOwnSettings(t *testing.T) {
	race.SkipCovered(t)
	dir := t.TempDir()
	for _, words := range [][]string{{"max_steps=2"}, {"max_steps=4", "reduction=token_mean", "allow_change=reduction", "adam_beta1=0.5"}} {
		tr, _ := setup{dir: dir, words: append(words, "eval_every=-1", "keep_best=0", "order=serial")}.open(t)
		run(t, tr)
	}
	require.NoError(t, os.RemoveAll(checkpoint(dir, 2)))
	steps, _, err := replayed(t, dir, 4)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3, 4}, steps)
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	_, _, err = replayed(t, dir, 4)
	require.ErrorContains(t, err, "step 3 began with other settings, and changing them takes a temporary file: ")
	require.ErrorContains(t, err, "no such file or directory; set TMPDIR to a folder with room for it")

	_, err = Replay(t.Context(), dir, 1, otherOrder{backend(t, 1)}, func(Metrics) {})
	require.ErrorContains(t, err, "adds sums in another order (f32 in series, bf16 by pairs; on cpu")
	require.ErrorContains(t, err, "its bits cannot be reproduced here; replay it on the device that trained it")
}

// A run recorded before a setting existed continues, and is replayed, as before, to the bit.
func TestARunOfBeforeASetting(t *testing.T) {
	race.SkipCovered(t)
	usual := []string{"max_steps=4", "eval_every=-1"}
	t.Run("prefixes were shared", func(t *testing.T) {
		testRunBeforeSetting(t, "share_prefixes", `"share_prefixes": false,`, append(usual, "share_prefixes=false"))
	})
	t.Run("adapters were rounded", func(t *testing.T) {
		testRunBeforeSetting(t, "adapter_precision", `"adapter_precision": "f32",`,
			append(usual, "precision=bf16", "order=tiles", "adapter_precision=f32"))
	})
}

func testRunBeforeSetting(t *testing.T, key, setting string, words []string) {
	without := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.HasPrefix(word, key) })
	s, now := setup{dir: t.TempDir(), words: words}, setup{dir: t.TempDir(), words: without}
	old := setup{dir: t.TempDir(), words: override(words, []string{"max_steps=2"})}
	for _, s := range []setup{s, old, now} {
		tr, _ := s.open(t)
		run(t, tr)
	}
	path := filepath.Join(old.dir, provenance.ConfigFile)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), setting)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), setting, "", 1)), 0o644))

	cfg, err := provenance.Resolve(configs.Source{Overrides: []string{"run_dir=" + old.dir, "max_steps=4"}})
	require.NoError(t, err)
	tr, err := Open(t.Context(), cfg, backend(t, 1), &listener{}, WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	run(t, tr)
	want := files(t, s.dir)
	requireSame(t, want, files(t, old.dir))
	for step, from := range map[int]int{2: 1, 4: 3} {
		steps, _, err := replayed(t, old.dir, step)
		require.NoError(t, err)
		require.Equal(t, from, steps[0])
	}
	require.NotEqual(t, want[momentsFile], files(t, now.dir)[momentsFile]) // so that this test can fail
	if key != "share_prefixes" {
		return
	}
	require.NotContains(t, want[metricsFile], "rows_shared")
	for _, m := range lines(t, now.dir, metricsFile)[1:] {
		require.Positive(t, m["rows_shared"])
	}
}

// A run in tile order continues and is replayed in that order on any machine, without being told, and after the backend has computed in
// another order in between.
func TestARunInTilesStaysInTiles(t *testing.T) {
	race.SkipCovered(t)
	words := []string{"precision=bf16", "order=tiles", "max_steps=4", "eval_every=-1"}
	whole := setup{dir: t.TempDir(), words: words}
	tr, _ := whole.open(t)
	run(t, tr)
	cut := setup{dir: t.TempDir(), words: override(words, []string{"max_steps=2"})}
	tr, _ = cut.open(t)
	run(t, tr)

	b := backend(t, 2)
	cfg, err := provenance.Resolve(configs.Source{Overrides: []string{"run_dir=" + cut.dir, "max_steps=4", "order=auto"}})
	require.NoError(t, err)
	other, err := Open(t.Context(), cfg, b, &listener{}, WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	require.Equal(t, "tiles", other.Settings().Order)
	kernels.SetOrder(b, kernels.Serial)
	run(t, other)
	requireSame(t, files(t, whole.dir), files(t, cut.dir))

	serial := setup{dir: t.TempDir(), words: override(words, []string{"order=serial"})}
	tr, _ = serial.open(t)
	run(t, tr)
	require.NotEqual(t, files(t, serial.dir)[momentsFile], files(t, cut.dir)[momentsFile]) // so that this test can fail

	steps, _, err := replayed(t, cut.dir, 4)
	require.NoError(t, err)
	require.Equal(t, []int{3, 4}, steps)
	past, err := provenance.Read(cut.dir)
	require.NoError(t, err)
	require.Equal(t, "tiles", past.Manifest.Order)
	require.Contains(t, past.Manifest.Starts[1].Order, "in tiles")

	cut.words = override(words, []string{"order=serial"})
	_, _, err = cut.tryOpen(t)
	require.ErrorContains(t, err, "order: tiles → serial; leave it out")
}

// otherOrder is a backend that reports another order of summation.
type otherOrder struct{ kernels.Backend }

func (otherOrder) Order() string { return "as they come" }
