package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

func TestScoreVerb(t *testing.T) {
	for _, name := range []string{"qwen3-tied", "qwen3-untied-sharded"} {
		var want []struct {
			Tokens  []int32
			Base    []float64 `json:"logprobs_base"`
			Adapter []float64 `json:"logprobs_adapter"`
		}
		readJSONFile(t, &want, golden(name, "score.json"))
		var in strings.Builder
		for _, w := range want {
			line, err := json.Marshal(map[string]any{"tokens": w.Tokens})
			require.NoError(t, err)
			in.Write(append(line, '\n'))
		}
		for _, adapter := range []bool{false, true} {
			args := []string{"score", "--model", golden(name)}
			if adapter {
				args = append(args, "--adapter", golden(name, "adapter"))
			}
			out, errs, code := shell(t, in.String(), args...)
			require.Zero(t, code, errs)
			dec := json.NewDecoder(strings.NewReader(out))
			for _, w := range want {
				var got struct{ LogProbs []float64 }
				require.NoError(t, dec.Decode(&got))
				ref := w.Base
				if adapter {
					ref = w.Adapter
				}
				require.Len(t, got.LogProbs, len(ref))
				for i := range ref {
					require.InDelta(t, ref[i], got.LogProbs[i], 2e-4)
				}
			}
			other, _, _ := shell(t, in.String(), append(args, "--threads", "3", "--max-rows", "48")...)
			require.Equal(t, out, other, "threads and batches change no digit")
		}
	}
}

func TestReplayVerb(t *testing.T) {
	for _, name := range []string{"qwen3-tied", "qwen3-untied-sharded"} {
		var train struct {
			Adam struct {
				LR, Beta1, Beta2, Eps float64
				WeightDecay           float64 `json:"weight_decay"`
			}
			Datums []json.RawMessage
			Steps  []struct {
				Loss     float64
				GradNorm float64 `json:"grad_norm"`
			}
		}
		readJSONFile(t, &train, golden(name, "train.json"))
		dir := t.TempDir()
		datums := filepath.Join(dir, "datums.jsonl")
		var lines bytes.Buffer
		for _, datum := range train.Datums {
			fmt.Fprintf(&lines, "%s\n", datum)
		}
		write(t, datums, lines.String())
		args := []string{"replay", "--model", golden(name), "--adapter", golden(name, "train_init"), "--datums", datums,
			"--steps", fmt.Sprint(len(train.Steps)), "--out", filepath.Join(dir, "out"), "--dump-grads", filepath.Join(dir, "grads.safetensors"),
			"learning_rate=" + fmt.Sprint(train.Adam.LR), "adam_beta1=" + fmt.Sprint(train.Adam.Beta1), "adam_beta2=" + fmt.Sprint(train.Adam.Beta2),
			"adam_eps=" + fmt.Sprint(train.Adam.Eps), "weight_decay=" + fmt.Sprint(train.Adam.WeightDecay)}
		out, errs, code := shell(t, "", args...)
		require.Zero(t, code, errs)
		dec := json.NewDecoder(strings.NewReader(out))
		for i, want := range train.Steps {
			var got struct {
				Step     int
				Loss     float64
				GradNorm float64 `json:"grad_norm"`
			}
			require.NoError(t, dec.Decode(&got))
			require.Equal(t, i+1, got.Step)
			require.InEpsilon(t, want.Loss, got.Loss, 1e-4)
			require.InEpsilon(t, want.GradNorm, got.GradNorm, 1e-4)
		}
		compareFiles(t, golden(name, "grads_step1.safetensors"), filepath.Join(dir, "grads.safetensors"), "", 1e-3)
		compareFiles(t, golden(name, "train_final", "adapter_model.safetensors"), filepath.Join(dir, "out", "adapter_model.safetensors"),
			golden(name, "train_init", "adapter_model.safetensors"), 1e-2)
	}
}

// compareFiles requires every tensor of got to be within a relative distance of want; if base is given, both after base is subtracted.
func compareFiles(t *testing.T, want, got, base string, within float64) {
	t.Helper()
	open := func(path string) *tensorfile.File {
		f, err := tensorfile.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	w, g := open(want), open(got)
	require.Equal(t, w.Names(), g.Names())
	var diff, norm float64
	for _, name := range w.Names() {
		tw, err := w.Tensor(name)
		require.NoError(t, err)
		tg, err := g.Tensor(name, tw.Shape...)
		require.NoError(t, err)
		x, y := tensorfile.Float32s(tw), tensorfile.Float32s(tg)
		start := make([]float32, len(x))
		if base != "" {
			tb, err := open(base).Tensor(name)
			require.NoError(t, err)
			start = tensorfile.Float32s(tb)
		} else {
			diff, norm = 0, 0
		}
		for i := range x {
			d, n := float64(y[i])-float64(x[i]), float64(x[i])-float64(start[i])
			diff, norm = diff+d*d, norm+n*n
		}
		if base == "" {
			require.Less(t, math.Sqrt(diff), within*math.Sqrt(norm)+1e-12, name)
		}
	}
	require.Less(t, math.Sqrt(diff), within*math.Sqrt(norm)+1e-12)
}

func TestReplayOfAWholeModel(t *testing.T) {
	dir := t.TempDir()
	datums := filepath.Join(dir, "datums.jsonl")
	require.NoError(t, os.WriteFile(datums, []byte(`{"tokens":[5,9,300,17,2],"ob_len":2,"logprobs":[0,-5,-6,-6],"advantage":1}`), 0o644))
	out, errs, code := shell(t, "", "replay", "--model", golden("qwen3-tied"), "--datums", datums, "--steps", "20", "--loss", "cross_entropy",
		"--out", filepath.Join(dir, "model"), "train=full", "learning_rate=1e-3")
	require.Zero(t, code, errs)
	var first, last struct{ Loss float64 }
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 20)
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.NoError(t, json.Unmarshal([]byte(lines[19]), &last))
	require.Less(t, last.Loss, first.Loss/2, "the loss on five tokens must fall")

	scores, errs, code := shell(t, `{"tokens":[5,9,300,17,2]}`, "score", "--model", filepath.Join(dir, "model"))
	require.Zero(t, code, errs)
	var got struct{ LogProbs []float64 }
	require.NoError(t, json.Unmarshal([]byte(scores), &got))
	require.Less(t, -(got.LogProbs[1] + got.LogProbs[2] + got.LogProbs[3]), last.Loss, "what was saved is what was trained")
}

// Datums may share a common prefix if that is requested: the loss is the same, and the number of saved rows is reported.
func TestReplayOfDatumsThatBeginAlike(t *testing.T) {
	dir := t.TempDir()
	datums := filepath.Join(dir, "datums.jsonl")
	write(t, datums, `{"tokens":[5,9,300,17,2],"ob_len":3,"logprobs":[0,0,-6,-6],"advantage":1}
{"tokens":[5,9,300,12,7,1],"ob_len":3,"logprobs":[0,0,-6,-6,-5],"advantage":-1}
`)
	var lines [2]struct {
		Loss   float64
		Shared int `json:"rows_shared"`
	}
	for i, words := range [][]string{nil, {"share_prefixes=true"}} {
		out, errs, code := shell(t, "", append([]string{"replay", "--model", golden("qwen3-tied"), "--rank", "4", "--datums", datums,
			"--out", filepath.Join(dir, fmt.Sprint(i))}, words...)...)
		require.Zero(t, code, errs)
		require.NoError(t, json.Unmarshal([]byte(out), &lines[i]))
	}
	require.Equal(t, lines[0].Loss, lines[1].Loss)
	require.Equal(t, []int{0, 3}, []int{lines[0].Shared, lines[1].Shared})
}

func TestMergeVerb(t *testing.T) {
	out := filepath.Join(t.TempDir(), "merged")
	name := "qwen3-untied-sharded"
	var last disk.Op
	disk.Observer = func(op disk.Op) { last = op }
	text, errs, code := shell(t, "", "merge", "--model", golden(name), "--adapter", golden(name, "adapter"), "--out", out)
	disk.Observer = nil
	require.Zero(t, code, errs)
	require.Equal(t, disk.Op{Kind: disk.SyncedFolder, Path: filepath.Dir(out)}, last, "the name of what was merged survives a power cut")
	require.Contains(t, text, "log-probabilities differ from the adapted model's by")
	entries, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing but the merged model is left")
	_, errs, code = shell(t, "", "merge", "--model", golden("qwen3-tied"), "--adapter", golden("qwen3-tied", "adapter"), "--out", out)
	require.Equal(t, 2, code)
	require.Contains(t, errs, "not empty")
}

// A 4-bit model is merged into by its dequantised weights; a quantised model is a model like any other, and dequantises to a plain one.
func TestQuantizeVerb(t *testing.T) {
	dir := t.TempDir()
	small, large, merged := filepath.Join(dir, "small"), filepath.Join(dir, "large"), filepath.Join(dir, "merged")
	text, errs, code := shell(t, "", "quantize", "--model", golden("qwen3-tied"), "--out", small)
	require.Zero(t, code, errs)
	require.Regexp(t, `small: 0\.\d MiB of weights, 0\.\d MiB before`, text)
	_, errs, code = shell(t, "", "quantize", "--model", small, "--out", large, "--undo")
	require.Zero(t, code, errs)
	for _, m := range []string{small, large} {
		require.Zero(t, code, errs)
		text, errs, code = shell(t, "", "merge", "--model", m, "--adapter", golden("qwen3-tied", "adapter"), "--out", merged)
		require.Zero(t, code, errs)
		require.Equal(t, m == small, strings.Contains(text, "decoded to bf16 first: the result is no longer quantised"), text)
		require.NoError(t, os.Rename(merged, merged+filepath.Base(m)))
	}
	one, err := os.ReadFile(filepath.Join(merged+"small", "model.safetensors"))
	require.NoError(t, err)
	other, err := os.ReadFile(filepath.Join(merged+"large", "model.safetensors"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(one, other))
	// The same without writing the 4-bit model to disk.
	text, errs, code = shell(t, "", "merge", "--model", golden("qwen3-tied"), "--quantize", "nf4",
		"--adapter", golden("qwen3-tied", "adapter"), "--out", merged)
	require.Zero(t, code, errs)
	require.Contains(t, text, "decoded to bf16 first")
	one, err = os.ReadFile(filepath.Join(merged, "model.safetensors"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(one, other))
	sequence := `{"tokens":[5,6,7,8]}`
	text, _, code = shell(t, sequence, "score", "--model", small)
	require.Zero(t, code)
	again, _, code := shell(t, sequence, "score", "--model", golden("qwen3-tied"), "--quantize", "nf4")
	require.Zero(t, code)
	require.Equal(t, text, again)
	// An adapter trained on the dequantised weights may be applied to the codes.
	adapter, trained := filepath.Join(dir, "adapter"), golden("qwen3-tied")
	require.NoError(t, os.CopyFS(adapter, os.DirFS(golden("qwen3-tied", "adapter"))))
	part, err := provenance.FingerprintModel(trained)
	require.NoError(t, err)
	require.NoError(t, provenance.WriteBase(adapter, part))
	_, errs, code = shell(t, sequence, "score", "--model", small, "--adapter", adapter)
	require.Zero(t, code, errs)
	_, errs, code = shell(t, sequence, "score", "--model", large, "--adapter", adapter)
	require.Equal(t, 2, code)
	require.Contains(t, errs, "was trained on another model: model: ")
	_, errs, code = shell(t, "", "score", "--model", small, "--quantize", "int4")
	require.Equal(t, 2, code)
	require.Contains(t, errs, `--quantize: found "int4", expected none or nf4`)
	_, errs, code = shell(t, "", "quantize", "--model", small, "--out", filepath.Join(dir, "again"))
	require.Equal(t, 2, code)
	require.Contains(t, errs, "in four bits already")
}

// A model that no verb could open is not quantised, and the reported sizes count only the files that the model is read from.
func TestQuantizeTakesWhatCanBeOpened(t *testing.T) {
	dir := t.TempDir()
	from, out := filepath.Join(dir, "a[1]"), filepath.Join(dir, "out")
	require.NoError(t, os.CopyFS(from, os.DirFS(golden("qwen3-untied-sharded"))))
	config := filepath.Join(from, "config.json")
	for found, want := range map[string]string{
		`"num_hidden_layers": 7`: "num_hidden_layers is 7, but the files have tensors of ",
		`"vocab_size": 7`:        "vocab_size is 7, but tensor ",
	} {
		was, err := os.ReadFile(config)
		require.NoError(t, err)
		rewrite(t, config, func(all []byte) []byte {
			return regexp.MustCompile(strings.Split(found, ":")[0]+`: \d+`).ReplaceAll(all, []byte(found))
		})
		text, errs, code := shell(t, "", "quantize", "--model", from, "--out", out)
		requireBadInput(t, text, errs, code, want)
		require.NoFileExists(t, out)
		require.NoError(t, os.WriteFile(config, was, 0o644))
	}
	write(t, filepath.Join(from, "consolidated.safetensors"), strings.Repeat("x", 5<<20)) // a copy of the weights in another format
	text, errs, code := shell(t, "", "quantize", "--model", from, "--out", out)
	require.Zero(t, code, errs)
	require.Regexp(t, `out: 0\.[1-9] MiB of weights, 0\.[1-9] MiB before`, text)
}

func TestCompareMergedRefusesTheWrongModel(t *testing.T) {
	base, adapted := [][]float32{{-1, -2}}, [][]float32{{-1.5, -2.5}}
	require.NoError(t, compareMerged(base, adapted, [][]float32{{-1.51, -2.49}}))
	require.Error(t, compareMerged(base, adapted, base), "the adapter was lost")
	require.Error(t, compareMerged(base, adapted, [][]float32{{-3, -4}}), "unrelated scores are refused")
	require.Error(t, compareMerged(base, adapted, [][]float32{{float32(math.NaN()), -2.5}}))
}
