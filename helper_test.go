package grpo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/plainpython"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/deferred"
	"github.com/seed-7879b91d/grpo/reward"
)

// vowels is a grader that needs no sandbox: the reward is the share of vowels in a text.
func vowels(_ context.Context, c reward.Completion) (reward.Score, error) {
	n := 0
	for _, r := range c.Text {
		if strings.ContainsRune("aeiou", r) {
			n++
		}
	}
	share := float64(n) / math.Max(1, float64(len(c.Text)))
	s := reward.Score{Reward: share, Verdict: reward.WA, Components: reward.Components{Fraction: share}}
	if share > 0.5 {
		s.Components.Correct, s.Verdict = 1, reward.AC
	}
	return s, nil
}

// listener is a watcher that records events.
type listener struct {
	metrics  []Metrics
	evals    []Evaluation
	advice   []Advice
	warnings []string
	trained  int // units of the last training event
	onStep   func(Metrics)
	onPhase  func(name string)
}

func (l *listener) Begun(string) {}
func (l *listener) Phase(name string, units int) {
	if name == "train" {
		l.trained += units
	}
	if l.onPhase != nil {
		l.onPhase(name)
	}
}
func (l *listener) Advance(int, int) {}
func (l *listener) StepDone(m Metrics, _ Timing, a []Advice) {
	l.metrics, l.advice = append(l.metrics, m), append(l.advice, a...)
	if l.onStep != nil {
		l.onStep(m)
	}
}
func (l *listener) Evaluated(e Evaluation, _ []Advice) { l.evals = append(l.evals, e) }
func (l *listener) Saved(string)                       {}
func (l *listener) Warn(what string)                   { l.warnings = append(l.warnings, what) }

// setup is a run of the golden model with a small tokenizer and the vowels grader, which needs no Python.
type setup struct {
	threads  int    // 0: one, since the model is so small that others would mostly wait
	deferred bool   // on a backend with opaque memory and deferred operations, like a device
	dir      string // of the run; "": without a record
	words    []string
	options  []Option
}

func (s setup) open(t testing.TB) (*Trainer, *listener) {
	t.Helper()
	tr, l, err := s.tryOpen(t)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return tr, l
}

func (s setup) tryOpen(t testing.TB) (*Trainer, *listener, error) {
	t.Helper()
	b := backend(t, s.threads)
	if s.deferred {
		b = deferred.New(b)
	}
	dir := goldenModel(t)
	// Prompts are short and so are chunks and batches, so that a prompt is read in several chunks, and a step has several batches.
	words := []string{"model=" + dir, "data=" + filepath.Join(dir, "p.jsonl"), "test_data=" + filepath.Join(dir, "h.jsonl"),
		"prompt_template=" + filepath.Join(dir, "wording"), "token_budget=48", "max_rows=128",
		"seed=11", "lora_rank=8", "prompts_per_step=2", "completions_per_prompt=6", "max_tokens=12", "max_sequences=16",
		"learning_rate=0.03", "renderer=qwen3_instruct",
		"save_every=2", "eval_every=4", "eval_samples=2", "eval_k=2", "eval_temperature=1"}
	options := slices.Concat([]Option{WithGrader(reward.GraderFunc(vowels))}, s.options)
	if s.dir == "" {
		options = append(options, Unrecorded())
	} else {
		words = append(words, "run_dir="+s.dir)
	}
	cfg, err := configs.Load(configs.Source{Preset: "defaults", Overrides: override(words, s.words)})
	require.NoError(t, err)
	l := &listener{}
	tr, err := Open(t.Context(), cfg, b, l, options...)
	return tr, l, err
}

func backend(t testing.TB, threads int) kernels.Backend {
	t.Helper()
	b, err := cpu.New(cpu.Options{Threads: max(threads, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// override gives settings in which the last word for a key counts.
func override(words, later []string) []string {
	said := func(word string) bool {
		key, _, _ := strings.Cut(word, "=")
		return slices.ContainsFunc(later, func(l string) bool { return strings.HasPrefix(l, key+"=") })
	}
	return append(slices.DeleteFunc(slices.Clone(words), said), later...)
}

// goldenModel is a directory with the weights of the golden model, the small tokenizer, an empty prompt template, and problems p0 to p5
// and h0 to h2. All tests share it, since the path of the model is part of what is saved.
func goldenModel(t testing.TB) string {
	t.Helper()
	dir, err := golden()
	require.NoError(t, err)
	return dir
}

var golden = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "grpo-golden-")
	if err != nil {
		return "", err
	}
	for _, from := range []string{
		"model/testdata/golden/qwen3-tied/config.json", "model/testdata/golden/qwen3-tied/model.safetensors",
		"data/tokenizer/testdata/small/tokenizer.json", "data/tokenizer/testdata/small/tokenizer_config.json",
	} {
		whole, aerr := filepath.Abs(from)
		err = errors.Join(err, aerr, os.Symlink(whole, filepath.Join(dir, filepath.Base(from))))
	}
	verbs := map[string]string{"p": "say", "h": "ask"} // problems that differ only in their ids are equal
	for prefix, n := range map[string]int{"p": 6, "h": 3} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `{"id":"%s%d","prompt":"%s","tests":[{"input":"","output":"a\n"}]}`+"\n",
				prefix, i, strings.Repeat(verbs[prefix]+" aeiou ", i+1))
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, prefix+".jsonl"), []byte(text.String()), 0o644))
	}
	return dir, errors.Join(err, os.WriteFile(filepath.Join(dir, "wording"), []byte("{{.Statement}}"), 0o644))
})

func TestMain(m *testing.M) {
	plainpython.SetPath()
	debug.SetGCPercent(400) // hundreds of small trainers are opened and closed
	code := m.Run()
	if dir, err := golden(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// files reads the files of a run that must not depend on the clock.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	newest, s, damaged, err := snapshot.Newest(dir, true)
	require.NoError(t, err)
	require.Empty(t, damaged)
	for _, name := range []string{provenance.AdapterDir + "/adapter_model.safetensors", momentsFile, aheadFile} {
		text, err := os.ReadFile(filepath.Join(newest, name))
		if name != aheadFile {
			require.NoError(t, err)
		}
		out[name] = string(text)
	}
	s.Logs = nil // some logs have times
	text, err := json.Marshal(s)
	require.NoError(t, err)
	out[rundir.StateFile] = string(text)
	for _, name := range []string{metricsFile, rollouts.PlainFile, rollouts.CompressedFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if name == metricsFile || !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		out[name] = string(text)
	}
	return out
}

// requireSame shows where the files of two runs differ.
func requireSame(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, text := range want {
		other := got[name]
		at := 0
		for at < min(len(text), len(other)) && text[at] == other[at] {
			at++
		}
		if text != other {
			show := func(s string) string { return s[max(0, min(at-80, len(s))):min(at+80, len(s))] }
			require.Failf(t, "the runs differ", "%s at byte %d:\n  %q\n  %q", name, at, show(text), show(other))
		}
	}
}

// checkpoint is the checkpoint of a step of the run in dir.
func checkpoint(dir string, step int) string {
	return filepath.Join(dir, rundir.Checkpoints, rundir.Name(step))
}

// open opens a trainer of the embedded model with the real sandbox, made small by settings.
func open(t *testing.T, w Watcher, overrides ...string) *Trainer {
	t.Helper()
	tr, err := tryOpen(t, w, overrides...)
	require.NoError(t, err)
	return tr
}

func tryOpen(t *testing.T, w Watcher, overrides ...string) (*Trainer, error) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not on PATH, and programs are Python")
	}
	small := []string{"prompts_per_step=2", "completions_per_prompt=4", "max_tokens=48", "eval_problems=4", "eval_samples=0", "eval_k=0",
		"max_steps=2", "save_every=1", "eval_every=2", "max_tests=2", "warmup_steps=0", "schedule=constant"}
	cfg, err := configs.Load(configs.Source{Preset: "tiny_smoke", Overrides: override(small, overrides)})
	require.NoError(t, err)
	tr, err := Open(t.Context(), cfg, backend(t, 0), w)
	if err == nil {
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
	}
	return tr, err
}

// stride is the distance between two moments at which a test interrupts: a test has twice as many as with GRPO_KILLS=1, which divides it;
// from GRPO_KILLS=20 on it interrupts at each moment.
func stride(t *testing.T, short int) int {
	t.Helper()
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("GRPO_KILLS"), "0"))
	require.NoError(t, err, "GRPO_KILLS")
	switch {
	case kills >= 20:
		return 1
	case kills == 0:
		short *= 2
	}
	if race.Enabled { // the code is the same at every moment
		short *= 5
	}
	return max(1, short/max(1, kills))
}

func run(t *testing.T, tr *Trainer) {
	t.Helper()
	require.NoError(t, tr.Run(t.Context()))
	require.NoError(t, tr.Close())
}

// runUntil opens a run and interrupts it when the given number of phases have begun, unless it ends before.
func (s setup) runUntil(t *testing.T, phases int) error {
	tr, l := s.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.onPhase = func(string) {
		if phases--; phases == 0 {
			cancel()
		}
	}
	err := tr.Run(ctx)
	require.NoError(t, tr.Close())
	return err
}

// runInPieces interrupts a run repeatedly, each time `more` phases later than the time before, until it ends.
func (s setup) runInPieces(t *testing.T, first, more int) {
	for phases := first; ; phases += more {
		err := s.runUntil(t, phases)
		if err == nil {
			return
		}
		require.ErrorIs(t, err, context.Canceled)
	}
}

// lines are the decoded lines of a run's JSONL file.
func lines(t *testing.T, path ...string) (all []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
		all = append(all, v)
	}
	return all
}
