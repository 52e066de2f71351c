package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// lastLine decodes the JSON line at the end of a benchmark's output.
func lastLine(t *testing.T, out string, v any) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), v))
}

func TestBenchStep(t *testing.T) {
	race.SkipCovered(t)
	needsSandbox(t)
	out, errs, code := shell(t, "", "bench", "step", "--steps", "1", "--rounds", "1", "--share", "0",
		"prompts_per_step=2", "completions_per_prompt=4")
	require.Zero(t, code, errs)
	for _, want := range []string{"threads=1", "every program works for", "faster than off", "the same adapter"} {
		require.Contains(t, out, want)
	}
	var r bench.StepResult
	lastLine(t, out, &r)
	require.Equal(t, "step", r.Bench)
	require.True(t, r.Equal)
	require.Zero(t, r.WorkMS)
	require.Len(t, r.Pipelines, 3)
	for i, p := range r.Pipelines {
		require.Equal(t, []string{"off", "score", "full"}[i], p.Pipeline)
		for _, v := range []float64{p.Sample, p.Train, p.Total, p.Tokens, p.Speedup} {
			require.Positive(t, v, p.Pipeline)
		}
		require.GreaterOrEqual(t, p.AtBest, 1.0)
	}
	require.Equal(t, r.Pipelines[0].Adapter, r.Pipelines[1].Adapter)
	require.NotEqual(t, r.Pipelines[0].Adapter, r.Pipelines[2].Adapter,
		"a policy that is one update older draws other completions")
}

func TestBenchStepRefuses(t *testing.T) {
	for line, says := range map[string][]string{
		"--steps 0":       {"--steps"},
		"--share 2":       {"--share", "0 to 0.9"},
		"--preset huge":   {"huge", "tiny"},
		"pipeline=off":    {"pipeline", "leave it out"},
		"max_steps=9":     {"max_steps", "--steps", "leave it out"},
		"lerning_rate=1":  {"lerning_rate", "learning_rate"},
		"model=/nowhere/": {"/nowhere/"},
	} {
		out, errs, code := shell(t, "", append([]string{"bench", "step"}, strings.Fields(line)...)...)
		requireBadInput(t, out, errs, code, says...)
	}
}

func TestBenchSandbox(t *testing.T) {
	race.SkipCovered(t)
	needsSandbox(t)
	out, errs, code := shell(t, "", "bench", "sandbox", "--runs", "20", "--completions", "3", "--tests", "2", "--sandbox-slots", "2")
	require.Zero(t, code, errs)
	require.Contains(t, out, "a step: 3 completions × 2 tests")
	var r bench.SandboxResult
	lastLine(t, out, &r)
	require.Equal(t, "sandbox", r.Bench)
	require.Equal(t, 2, r.Slots)
	for _, v := range []float64{r.PlainStart, r.RunMedian, r.Run95, r.RunsPerS, r.StepSeconds} {
		require.Positive(t, v)
	}
}

// Each benchmark of a model prints a table, and last the measurements as JSON, whose keys other programs rely on. By default each runs
// once; training with nf4 weights is only among all forms.
func TestBenchesOfAModel(t *testing.T) {
	type trial struct {
		line  string
		rates []string
	}
	all := []trial{
		{"decode --batch 2 --context 8 --rank 4", []string{"tokens_per_s", "limit_tokens_per_s", "step_ms"}},
		{"gemm --tokens 8", nil},
		{"train --tokens 16 --rank 4", []string{"tokens_per_s", "limit_tokens_per_s", "update_s"}},
		{"drafts --batch 2 --context 16", nil},
		{"prefill --context 16 --precision bf16", []string{"tokens_per_s", "limit_tokens_per_s", "step_ms"}},
		{"long --shape tiny/2 --lengths 48,16", nil},
		{"groups --rank 2 --prompts 1 --completions 3 --prompt-tokens 16 --completion-tokens 8", []string{"alone_s", "shared_s", "times_alone"}},
		{"train --tokens 8 --quantize nf4 --recompute blocks", []string{"tokens_per_s"}},
	}
	for _, b := range race.FirstOnly(testvariants.EveryNth(2, all...)...) {
		words := strings.Fields(b.line)
		once := []string{"--runs", "1"}
		if words[0] == "long" { // it has a run for each length
			once = nil
		}
		out, errs, code := shell(t, "", slices.Concat([]string{"bench", words[0], "--shape", "tiny"}, once, words[1:])...)
		require.Zero(t, code, errs)
		require.Contains(t, out, "; limits here: ")
		var r map[string]any
		lastLine(t, out, &r)
		require.Equal(t, words[0], r["bench"])
		limits := r["limits"].(map[string]any)
		require.Positive(t, limits["peak_flops"])
		if backend, _ := r["backend"].(string); strings.Contains(backend, "amx") { // an f32 product takes three tile products
			require.Greater(t, limits["peak_product_flops"], limits["peak_flops"])
		} else if !strings.Contains(b.line, "bf16") { // then auto is f32
			require.Equal(t, limits["peak_flops"], limits["peak_product_flops"])
		}
		for _, name := range b.rates {
			require.Positive(t, r[name], name)
		}
		if _, choice, given := strings.Cut(b.line, "--recompute "); given {
			require.Equal(t, choice, r["recompute"])
		}
	}
}

// Every benchmark of a model refuses sizes with which nothing can be measured, and flags that it does not use.
func TestBenchesOfNothing(t *testing.T) {
	unused := map[string]string{"decode": "--tokens", "prefill": "--tokens", "gemm": "--rank", "long": "--tokens --runs"}
	for _, verb := range []string{"decode", "gemm", "train", "prefill", "long"} {
		for line, says := range map[string]string{
			"--runs 0":   "--tokens and --runs: found 512 and 0, expected 1 or more",
			"--runs -1":  "--tokens and --runs: found 512 and -1, expected 1 or more",
			"--tokens 0": "--tokens and --runs: found 0 and 5, expected 1 or more",
			"--rank -1":  "--rank: found -1, expected 0 or more",

			"--tokens 9223372036854775807": "--tokens: found 9223372036854775807, expected at most 2147483647",
		} {
			words := strings.Fields(line)
			if strings.Contains(unused[verb], words[0]) && !strings.Contains(says, "at most") { // no flag has such a value
				says = words[0] + ": grpo bench " + verb + " does not use it; leave it out"
			}
			_, errs, code := shell(t, "", append([]string{"bench", verb, "--shape", "tiny"}, words...)...)
			require.Equal(t, exitBadInput, code, verb)
			require.Contains(t, errs, says, verb)
		}
	}
}

// Lengths to which no exponent can be fitted, empty groups, and impossible layers are refused by name.
func TestBenchesThatCannotBeMeant(t *testing.T) {
	for line, says := range map[string]string{
		"long --lengths 16":                      "--lengths: found [16], expected two lengths or more",
		"long --lengths 32,16,32":                "--lengths: found [16 32 32], expected two lengths or more, all different",
		"long --lengths 16,5000":                 "--lengths: found 5000, expected at most 4096, the positions of tiny",
		"long --lengths 16,32 --recompute all":   `--recompute: found "all", expected auto, none, cheap or blocks`,
		"train --recompute all":                  `--recompute: found "all", expected auto, none, cheap or blocks`,
		"long --lengths 16,32 --shape tiny/0":    `shape "tiny/0" is not known; expected one of`,
		"long --lengths 16,32 --shape tiny/some": `shape "tiny/some" is not known; expected one of`,

		"gemm --precision int16":    "--precision int16 is for weights of four bits, and those here are bf16; type f32 or bf16",
		"serve --temperature nan":   "--temperature: found 2048, 0 and NaN, expected 0 or more",
		"decode --context 2000000":  "--context: found 2000000, expected at most 4080, as tiny has 4096 positions",
		"prefill --context 2000000": "expected at most 4096",

		"groups --prompts 0":                "--completions, --prompt-tokens and --completion-tokens: found 0, 16, 512 and 256",
		"groups --prompt-tokens 2147483647": "--prompt-tokens and --completion-tokens: found 2147483647 and 256, expected at most",
		"groups --completion-tokens 3585":   "expected at most 4096 together, the positions of tiny",
		"groups --rank 0":                   "--rank: found 0, expected 1 or more",
	} {
		words := strings.Fields(line)
		_, errs, code := shell(t, "", append([]string{"bench", words[0], "--shape", "tiny"}, words[1:]...)...)
		require.Equal(t, exitBadInput, code, line)
		require.Contains(t, errs, says)
	}
}
