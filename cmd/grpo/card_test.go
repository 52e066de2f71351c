//go:build gpu

package main

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/cuda/emu"
)

// The default run on an emulated card, with sizes that take seconds there.
var cardRun = []string{"device=cuda:0", "max_steps=3", "prompts_per_step=2", "completions_per_prompt=4", "max_tokens=24", "max_sequences=8",
	"eval_every=-1", "save_every=1", "keep_last=0"}

// replacing returns arguments in which later ones replace earlier ones of the same key.
func replacing(words []string, later ...string) []string {
	return append(slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		key, _, _ := strings.Cut(word, "=")
		return slices.ContainsFunc(later, func(l string) bool { return strings.HasPrefix(l, key+"=") })
	}), later...)
}

// onCard runs the command in a folder, on a card with the given faults.
func onCard(t *testing.T, folder string, words []string, faults ...string) (out, errs string, code int) {
	t.Helper()
	backendtest.Emulate(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, words...)
	cmd.Env = append(os.Environ(), append([]string{asCommand + "=1", "SANDBOX_URL="}, faults...)...)
	var stdout, stderr strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &stdout, &stderr
	if err = cmd.Run(); err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// trained are the files of a run that must be the same in equal runs.
func trained(t *testing.T, run string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"metrics.jsonl", filepath.Join(rundir.Checkpoints, rundir.Name(3), "adapter", "adapter_model.safetensors"),
		filepath.Join(rundir.Checkpoints, rundir.Name(3), "optimizer.safetensors")} {
		text, err := os.ReadFile(filepath.Join(run, name))
		require.NoError(t, err)
		all[name] = string(text)
	}
	return all
}

// A run trains on a card as on a processor: sampler and trainer agree to the bit, the values chosen for auto are recorded, a recorded
// step is replayed to the last bit, and a run that loses its card in the second step is resumed to the same bytes. A run begun on one
// device is refused on the other.
func TestCardTrains(t *testing.T) {
	needsSandbox(t)
	folder := t.TempDir()
	whole, cut := filepath.Join(folder, "whole"), filepath.Join(folder, "cut")
	run := func(dir string) []string { return slices.Concat(cardRun, []string{"run_dir=" + dir, "--quiet"}) }
	counts := filepath.Join(folder, "counts")
	out, errs, code := onCard(t, folder, run(whole), "GRPO_EMU_COUNTS="+counts)
	require.Zero(t, code, errs)
	require.Empty(t, out+errs)
	for _, m := range records[struct {
		Step int
		Max  *float64 `json:"max_logp_diff_on_policy"`
	}](t, filepath.Join(whole, "metrics.jsonl")) {
		require.NotNil(t, m.Max, "step %d", m.Step)
		require.Zero(t, *m.Max, "step %d", m.Step)
	}
	var manifest provenance.Manifest
	readJSONFile(t, &manifest, filepath.Join(whole, provenance.ManifestFile))
	require.Equal(t, "bf16", manifest.Precision)
	require.Contains(t, manifest.Backend, "card 0 (Emulated device)")
	require.Contains(t, manifest.Starts[0].Order, "compute capability 8.0")

	made, err := emu.ReadCounts(counts)
	require.NoError(t, err)
	secondStep := strconv.FormatUint(made.Launches/2, 10) // three steps of equal length
	_, errs, code = onCard(t, folder, run(cut), "GRPO_EMU_FAIL_LAUNCH="+secondStep)
	require.Equal(t, exitFailed, code, errs)
	require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	require.Regexp(t, `^grpo: step 2: .*card 0 \(Emulated device\): .*CUDA_ERROR_LAUNCH_FAILED.*; the last kernel launched was .*dmesg`, errs)
	_, errs, code = onCard(t, folder, run(cut))
	require.Zero(t, code, errs)
	require.Equal(t, trained(t, whole), trained(t, cut))

	out, errs, code = onCard(t, folder, []string{"replay", "--run", whole, "--step", "3", "--device", "cuda:0"})
	require.Zero(t, code, errs)
	require.Contains(t, out, "trained_sha256")
	const other = "added its sums in another order than this backend ("
	_, errs, code = onCard(t, folder, []string{"run_dir=" + whole, "max_steps=4", "device=cpu"})
	require.Equal(t, exitBadInput, code, errs)
	require.Contains(t, errs, other+"f32 in series, bf16 "+automaticOrder()+", before f32 in series, bf16 and gradients of weights by mma")
	_, errs, code = onCard(t, folder, []string{"replay", "--run", whole, "--step", "3", "--device", "cpu"})
	require.Equal(t, exitBadInput, code, errs)
	require.Contains(t, errs, "adds sums in another order")
	_, errs, code = onCard(t, folder, []string{"run_dir=" + whole, "max_steps=4"}, "GRPO_EMU_CAPABILITY=9.0")
	require.Equal(t, exitBadInput, code, errs)
	require.Contains(t, errs, "compute capability 9.0, before f32 in series, bf16 and gradients of weights by mma in steps of 16, "+
		"compute capability 8.0")

	processor := filepath.Join(folder, "processor")
	_, errs, code = onCard(t, folder, replacing(cardRun, "device=cpu", "max_steps=1", "run_dir="+processor, "--quiet"))
	require.Zero(t, code, errs)
	readJSONFile(t, &manifest, filepath.Join(processor, provenance.ManifestFile))
	require.Equal(t, "f32", manifest.Precision)
	_, errs, code = onCard(t, folder, []string{"run_dir=" + processor, "max_steps=2", "device=cuda:0"})
	require.Equal(t, exitBadInput, code, errs)
	require.Contains(t, errs, "run "+processor+" "+other)
}

// automaticOrder is the order of bf16 sums that order=auto chooses on this processor.
func automaticOrder() string {
	if cpu.Tiles().Native {
		return "in tiles"
	}
	return "by pairs"
}

// The default run makes two steps on a card, at full size: sampler and trainer agree to the bit, and the result is saved.
func TestCardTakesTheDefaultRun(t *testing.T) {
	needsSandbox(t)
	dir := filepath.Join(t.TempDir(), "run")
	_, errs, code := onCard(t, t.TempDir(), []string{"device=cuda:0", "max_steps=2", "eval_every=-1", "run_dir=" + dir, "--quiet"})
	require.Zero(t, code, errs)
	steps := records[struct {
		Completions int
		Updated     bool
		Max         *float64 `json:"max_logp_diff_on_policy"`
		Before      string   `json:"policy_sha256"`
		After       string   `json:"trained_sha256"`
	}](t, filepath.Join(dir, "metrics.jsonl"))
	require.Len(t, steps, 2)
	for i, s := range steps {
		require.Equal(t, 64, s.Completions)
		require.True(t, s.Updated)
		require.NotNil(t, s.Max)
		require.Zero(t, *s.Max)
		require.NotEqual(t, s.Before, s.After)
		require.True(t, i == 0 || s.Before == steps[i-1].After)
	}
}

// records are the decoded lines of a file.
func records[T any](t *testing.T, path string) (all []T) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var v T
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		all = append(all, v)
	}
	return all
}

// Each fault of a card is reported in one line before training; auto chooses the processor only if there is no card.
func TestCardTroubleIsOneLine(t *testing.T) {
	folder := t.TempDir()
	auto := []string{"device=auto", "--dry-run", "--quiet"}
	for _, c := range []struct {
		words  []string
		faults string
		code   int
		says   string
	}{
		{[]string{"device=cuda:7"}, "", exitBadInput, "cuda:7: there is one card here; expected cuda:0"},
		{nil, "GRPO_EMU_DEVICES=0", exitBadInput, "finds no card"},
		{nil, "GRPO_CUDA_LIB=/no/such/library.so", exitBadInput, "GRPO_CUDA_LIB: /no/such/library.so"},
		{nil, "GRPO_EMU_DRIVER=10.2", exitBadInput, "serves CUDA 10.2, the kernels need 11.0"},
		{nil, "GRPO_EMU_CAPABILITY=7.5", exitBadInput, "has compute capability 7.5, the kernels need 8.0"},
		{auto, "GRPO_EMU_BUSY=1", exitBadInput, "is busy: another process has it for itself"},
		{nil, "GRPO_EMU_MEMORY=24M", exitBadInput,
			"of the memory of card 0 (Emulated device), of which a twentieth is kept free; the largest that fits is "},
		{nil, "GRPO_EMU_OOM_AFTER=8M", exitFailed, "card 0 (Emulated device): allocating "},
		{nil, "GRPO_EMU_LOST_AT=40", exitFailed, "nothing more runs on it in this process"},
	} {
		words := replacing(cardRun, append([]string{"run_dir=run", "--quiet"}, c.words...)...)
		out, errs, code := onCard(t, folder, words, cmp.Or(c.faults, "GRPO_EMU_THREADS=2"))
		require.Equal(t, c.code, code, "%v %s: %s", c.words, c.faults, errs)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		require.Equal(t, 1, strings.Count(errs, c.says), errs)
	}
	for device, faults := range map[string]string{"cuda: card 0 (Emulated device)": "GRPO_EMU_THREADS=2", "cpu: ": "GRPO_EMU_DEVICES=0"} {
		out, errs, code := onCard(t, folder, []string{"eval", "--problems", "1", "--samples", "0", "--max-tokens", "2"}, faults)
		require.Zero(t, code, errs)
		require.Contains(t, out, "on 1 problem of tiny, seed 0; "+device)
	}
}

// Every verb that computes can use a card: its scores are close to the processor's, and a merged model scores like the adapted one.
func TestCardServesEveryVerb(t *testing.T) {
	folder, model, adapter := t.TempDir(), absolute(t, golden("qwen3-tied")), absolute(t, golden("qwen3-tied", "adapter"))
	prompts := write(t, filepath.Join(folder, "prompts.jsonl"), `{"tokens":[5,6,7,8]}`+"\n")
	datums := write(t, filepath.Join(folder, "datums.jsonl"), `{"tokens":[5,6,7,8],"ob_len":2,"logprobs":[0,-6,-3],"advantage":1}`+"\n")
	for _, line := range []string{
		"sample --model " + model + " --adapter " + adapter + " --tokens " + prompts + " --max-tokens 3 --json",
		"replay --model " + model + " --adapter " + adapter + " --datums " + datums + " --out replayed",
		"merge --model " + model + " --adapter " + adapter + " --out merged",
		"bench train --shape tiny --tokens 16 --rank 4 --runs 1",
	} {
		out, errs, code := onCard(t, folder, append(strings.Fields(line), "--device", "cuda:0"))
		require.Zero(t, code, "%s: %s", line, errs)
		require.NotEmpty(t, out, line)
	}
	score := func(device string) (scores [][]float64) {
		cmd := []string{"score", "--model", filepath.Join(folder, "merged"), "--device", device}
		out, errs, code := shell(t, `{"tokens":[5,6,7,8,9,10]}`, cmd...)
		require.Zero(t, code, errs)
		var line struct{ LogProbs []float64 }
		require.NoError(t, json.Unmarshal([]byte(out), &line))
		return append(scores, line.LogProbs)
	}
	backendtest.Emulate(t)
	card, processor := score("cuda:0"), score("cpu")
	require.InDeltaSlice(t, processor[0], card[0], 3e-2)
	require.NotEqual(t, processor, card)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}

// The benchmark of a card checks and measures everything, in its smallest size.
func TestCardBench(t *testing.T) {
	out, errs, code := onCard(t, t.TempDir(), []string{"bench", "card", "--size", "smoke"})
	require.Zero(t, code, errs)
	require.Contains(t, out, "cuda: card 0 (Emulated device); limits here: ")
	var r bench.CardResult
	lastLine(t, out, &r)
	require.Len(t, r.Proofs, 4)
	for _, p := range r.Proofs {
		require.True(t, p.Holds, p)
	}
	require.Len(t, r.Speeds, 5)
	for _, s := range r.Speeds {
		require.Positive(t, s.Rate, s.What)
		require.Empty(t, s.Trouble)
	}
	require.Positive(t, min(r.Limits.Bytes, r.Limits.Flops, r.Limits.Products))
	out, errs, code = onCard(t, t.TempDir(), []string{"bench", "card", "--size", "smoke"}, "GRPO_EMU_FAIL_LAUNCH=300")
	require.Equal(t, exitFailed, code, out+errs)
	lastLine(t, out, &r)
	require.Contains(t, r.Proofs[0].Saw, "cases fail, Contract/")
	require.Contains(t, r.Proofs[1].Saw, "dmesg", "what a part ends by does not end the table")
	_, errs, code = onCard(t, t.TempDir(), []string{"bench", "card", "--device", "cpu"})
	require.Equal(t, exitBadInput, code, errs)
	require.Contains(t, errs, "this proves a card")
	_, errs, code = onCard(t, t.TempDir(), []string{"bench", "card", "--size", "smoke"}, "GRPO_EMU_DEVICES=0")
	require.Equal(t, exitBadInput, code, errs)
	require.Contains(t, errs, "; type grpo doctor, or --device cuda:0, which say why")
}
