package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each mistake gives one line that names the file and the fault, and exit code 2.
func TestBadModelsAreRefusedInOneLine(t *testing.T) {
	weights, shard := "model.safetensors", "model-00002-of-00003.safetensors"
	for name, c := range map[string]struct {
		model string
		edit  func(dir string)
		says  []string
	}{
		"no directory":     {"qwen3-tied", func(dir string) { os.RemoveAll(dir) }, []string{"no such directory", "owner/name"}},
		"no weights":       {"qwen3-tied", func(dir string) { os.Remove(filepath.Join(dir, weights)) }, []string{"safetensors"}},
		"absent shard":     {"qwen3-untied-sharded", func(dir string) { os.Remove(filepath.Join(dir, shard)) }, []string{shard}},
		"truncated":        {"qwen3-tied", func(dir string) { os.Truncate(filepath.Join(dir, weights), 200_000) }, []string{weights}},
		"truncated header": {"qwen3-tied", func(dir string) { os.Truncate(filepath.Join(dir, weights), 100) }, []string{weights, "header"}},
		"oversized header": {"qwen3-tied", func(dir string) {
			rewrite(t, filepath.Join(dir, weights), func(b []byte) []byte { binary.LittleEndian.PutUint64(b, 1<<60); return b })
		}, []string{weights, "header"}},
		"missing tensor": {"qwen3-tied", func(dir string) {
			rewrite(t, filepath.Join(dir, weights), func(b []byte) []byte {
				return []byte(strings.Replace(string(b), "layers.1.mlp.up_proj", "layers.1.mlp.xx_proj", 1))
			})
		}, []string{"model.layers.1.mlp.up_proj.weight"}},
		"wrong shape": {"qwen3-tied", func(dir string) {
			rewrite(t, filepath.Join(dir, "config.json"), func(b []byte) []byte {
				return []byte(strings.Replace(string(b), `"intermediate_size": 160`, `"intermediate_size": 192`, 1))
			})
		}, []string{weights, "mlp", "160", "192"}},
		"NaN": {"qwen3-tied", func(dir string) {
			rewrite(t, filepath.Join(dir, weights), func(b []byte) []byte { copy(b[len(b)-2:], []byte{0xc0, 0x7f}); return b })
		}, []string{weights, "NaN"}},
		"other architecture": {"qwen3-tied", func(dir string) {
			rewrite(t, filepath.Join(dir, "config.json"), func(b []byte) []byte {
				return []byte(strings.Replace(string(b), "Qwen3ForCausalLM", "GPT2LMHeadModel", 1))
			})
		}, []string{"config.json", "GPT2LMHeadModel", "Qwen3ForCausalLM"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := shell(t, `{"tokens":[1,2]}`, "score", "--model", damagedModel(t, c.model, c.edit))
			requireBadInput(t, out, errs, code, c.says...)
		})
	}
}

// Weights that are not in bf16 are rounded only if that is requested, and an unknown precision or device is refused.
func TestBadPrecisionsAndDevicesAreRefusedInOneLine(t *testing.T) {
	halves := damagedModel(t, "qwen3-tied", func(dir string) {
		rewrite(t, filepath.Join(dir, "model.safetensors"), func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte(`"BF16"`), []byte(`"F16" `))
		})
	})
	score := func(dir, precision string) (out, errs string, code int) {
		return shell(t, `{"tokens":[1,2]}`, "score", "--model", dir, "--precision", precision)
	}
	var scores []string
	for _, precision := range []string{"bf16", "f32", "auto"} {
		out, errs, code := score(halves, precision)
		require.Zero(t, code, "%s%s", out, errs)
		scores = append(scores, out)
	}
	require.NotEqual(t, scores[0], scores[1])
	require.Equal(t, scores[1], scores[2])
	out, errs, code := score(golden("qwen3-tied"), "f16")
	requireBadInput(t, out, errs, code, "--precision", `"f16"`, "auto, f32, bf16 or int16")
	out, errs, code = shell(t, `{"tokens":[1,2]}`, "score", "--model", golden("qwen3-tied"), "--device", "gpu")
	requireBadInput(t, out, errs, code, "--device", `"gpu"`, "auto, cpu or cuda:N")
	out, errs, code = shell(t, `{"tokens":[1,2]}`, "score", "--model", golden("qwen3-tied"), "--kv-cache-dtype", "fp8")
	requireBadInput(t, out, errs, code, "--kv-cache-dtype", `"fp8"`, "auto, f32 or bf16")
	out, errs, code = shell(t, "", "replay", "--run", t.TempDir(), "--step", "1", "--kv-cache-dtype", "bf16")
	requireBadInput(t, out, errs, code, "kv-cache-dtype", "run")
	out, errs, code = shell(t, "", "replay", "--run", t.TempDir(), "--step", "1", "--precision", "bf16")
	requireBadInput(t, out, errs, code, "precision", "run")
}

func TestBadSequencesAreRefusedInOneLine(t *testing.T) {
	for in, says := range map[string][]string{
		`{"tokens":[]}`:              {"standard input:1", "at least 2"},
		`{"tokens":[7]}`:             {"standard input:1", "at least 2"},
		"\n" + `{"tokens":[1,384]}`:  {"standard input:2", "token 384 at position 1", "0 to 383"},
		`{"tokens":[1,-1]}`:          {"token -1 at position 1"},
		`{"tokens":[1,2.5]}`:         {"standard input:1", "tokens"},
		`{"tokens":[1,2],"x":1}`:     {"standard input:1", `unknown field "x"`},
		`{"tokens":[1,2]`:            {"standard input:1", "ends too early"},
		`{"tokens":[1,2]} {}`:        {"standard input:1", "more than one JSON value"},
		`{"tokens":[99999999999,2]}`: {"standard input:1", "tokens"},
		`{"tokens":[1,null,2]}`:      {"standard input:1", `"tokens"`, "found a JSON null"},
	} {
		out, errs, code := shell(t, in, "score", "--model", golden("qwen3-tied"))
		requireBadInput(t, out, errs, code, says...)
	}
}

func TestBadFlagsAreRefusedInOneLine(t *testing.T) {
	datums := filepath.Join(t.TempDir(), "d.jsonl")
	require.NoError(t, os.WriteFile(datums, []byte(`{"tokens":[1,2],"ob_len":1,"logprobs":[-1],"advantage":1}`), 0o644))
	replay := []string{"replay", "--model", golden("qwen3-tied"), "--datums", datums, "--out", t.TempDir()}
	for line, says := range map[string][]string{
		"score":                  {"model", "required"},
		"score --model x --nope": {"unknown flag", "--help"},
		"score --model x y":      {"unknown command", "y"},
		"score --temperature 0 --model " + golden("qwen3-tied"): {"--temperature", "above 0"},
		"score --temperature 1e-45 --model " + golden("qwen3-tied"): {
			"temperature: found 1e-45, expected 0 (greedy), or at least 1e-06",
		},
		"bench train --shape huge": {"huge", "qwen3-0.6b"},
		"nonsense":                 {"nonsense"},
		strings.Join(replay, " "):  {"--adapter", "--rank"},
		strings.Join(append(replay, "--rank", "4", "lerning_rate=1"), " "):                             {`"lerning_rate"`, `"learning_rate"`},
		strings.Join(append(replay, "--rank", "4", "adam_beta2=1"), " "):                               {"adam_beta2", "less than 1"},
		strings.Join(append(replay, "--rank", "4", "--loss", "dpo"), " "):                              {"--loss", "dpo", "importance_sampling"},
		strings.Join(append(replay, "--rank", "4", "reduction=mean"), " "):                             {"reduction", "token_mean"},
		strings.Join(append(replay, "--rank", "4", "--steps", "0"), " "):                               {"--steps"},
		strings.Join(append(replay, "--rank", "4", "--targets", "q_proj,lm_head"), " "):                {"lm_head", "down_proj"},
		strings.Join(append(replay, "--adapter", golden("qwen3-untied-sharded", "adapter")), " "):      {"adapter_model.safetensors"},
		strings.Join(append(replay, "--rank", "4", "--adapter", golden("qwen3-tied", "adapter")), " "): {"one of them"},
		strings.Join(append(replay, "--seed", "4", "--adapter", golden("qwen3-tied", "adapter")), " "): {"--seed is for a new adapter"},
		strings.Join(append(replay, "--rank", "4", "train=full"), " "):                                 {"--rank", "train=full"},
		strings.Join(append(replay, "--rank", "4", "--loss", "ppo", "clip_low=nan"), " "):              {"clip_low is NaN"},
	} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, says...)
	}
}

func TestBadDatumsAreRefusedInOneLine(t *testing.T) {
	for line, says := range map[string][]string{
		`{"tokens":[1,2,3],"ob_len":1,"logprobs":[-1],"advantage":1}`:   {"d.jsonl:1", "logprobs", "expected 2"},
		`{"tokens":[1,2,3],"ob_len":3,"logprobs":[-1,0],"advantage":1}`: {"d.jsonl:1", "ob_len"},
		`{"tokens":[],"ob_len":1,"logprobs":[],"advantage":1}`:          {"d.jsonl:1", "tokens"},
		`{"tokens":[1,999],"ob_len":1,"logprobs":[-1],"advantage":1}`:   {"d.jsonl", "999"},
		`{"tokens":[1,2],"ob_len":1,"logprobs":[-1]}`:                   {"d.jsonl:1", "advantage: found none"},
		`{"tokens":[1,2],"ob_len":1,"logprobs":[-1],"advantage":null}`:  {"d.jsonl:1", "advantage: found none"},
		`{"tokens":[1,2],"ob_len":1,"logprobs":[-1],"advantages":1}`:    {"d.jsonl:1", `unknown field "advantages"`},
		`{"tokens":[1,2],"ob_len":1,"logprobs":[null],"advantage":1}`:   {"d.jsonl:1", `"logprobs"`, "found a JSON null"},
		`{"tokens":[1,null],"ob_len":1,"logprobs":[-1],"advantage":1}`:  {"d.jsonl:1", `"tokens"`, "found a JSON null"},
		`{"tokens":[1,2],"ob_len":1,"logprobs":["-1"],"advantage":1}`:   {"d.jsonl:1", `"logprobs"`, "found a JSON string"},
		`{"tokens":[1,2],"ob_len":1,"logprobs":[-1],"advantage":"1"}`:   {"d.jsonl:1", `"advantage"`, "found a JSON string"},
		`{"tokens":[1,2],"ob_len":1,"logprobs":[-1e99],"advantage":1}`:  {"d.jsonl:1", `"logprobs"`, "number -1e99"},
		`null`: {"d.jsonl:1", "tokens"},
		"":     {"d.jsonl", "no datums"},
	} {
		datums := filepath.Join(t.TempDir(), "d.jsonl")
		require.NoError(t, os.WriteFile(datums, []byte(line), 0o644))
		out, errs, code := shell(t, "", "replay", "--model", golden("qwen3-tied"), "--datums", datums, "--out", t.TempDir(), "--rank", "4")
		requireBadInput(t, out, errs, code, says...)
	}
}

// A datum that makes the gradient non-finite is named, and reported as bad input.
func TestADatumWithoutAGradientIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "datums")
	require.NoError(t, os.WriteFile(file, []byte(`{"tokens":[5,6,7,8], "ob_len":2, "logprobs":[0,-6,-3], "advantage":1}
{"tokens":[5,6], "ob_len":1, "logprobs":[-300], "advantage":1}
`), 0o600))
	_, errs, code := shell(t, "", "replay", "--model", "tiny", "--rank", "4", "--datums", file, "--out", filepath.Join(t.TempDir(), "out"))
	require.Equal(t, exitBadInput, code)
	require.Contains(t, errs, file+": datum 1: its gradient is not finite; leave it out")
}
