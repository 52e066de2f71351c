package handover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/reward"
)

var machine = Machine{Open: func(context.Context, string, int) (kernels.Backend, error) { return cpu.New(cpu.Options{Threads: 1}) }}

// trained is the directory of a run of one step that rewards long answers.
func trained(t *testing.T) (dir string) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir = filepath.Join(t.TempDir(), "coder")
	cfg, err := configs.Load(configs.Source{Preset: "tiny", Overrides: []string{"run_dir=" + dir, "max_steps=1", "prompts_per_step=2",
		"completions_per_prompt=4", "max_tokens=12", "eval_every=-1", "schedule=constant", "warmup_steps=0", "threads=1", "learning_rate=0.01"}})
	require.NoError(t, err)
	b, err := machine.Open(t.Context(), "", 1)
	require.NoError(t, err)
	defer b.Close()
	long := reward.GraderFunc(func(_ context.Context, c reward.Completion) (reward.Score, error) {
		return reward.Score{Reward: float64(len(c.Text)), Verdict: reward.WA}, nil
	})
	tr, err := grpo.Open(t.Context(), cfg, b, nil, grpo.WithGrader(long))
	require.NoError(t, err)
	require.NoError(t, tr.Run(t.Context()))
	require.NoError(t, tr.Close())
	return dir
}

// typed is the output of a verb.
func typed(t *testing.T, words ...string) (string, error) {
	t.Helper()
	return typedOn(t, machine, words...)
}

func typedOn(t *testing.T, m Machine, words ...string) (string, error) {
	t.Helper()
	for _, cmd := range Commands(m) {
		if cmd.Name() != words[0] {
			continue
		}
		var out bytes.Buffer
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(words[1:])
		cmd.SetOut(&out)
		cmd.SetErr(&bytes.Buffer{})
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	t.Fatal("no verb ", words[0])
	return "", nil
}

func TestARunIsHandedOver(t *testing.T) {
	run := trained(t)
	t.Run("model", func(t *testing.T) { exported(t, run) })
	t.Run("package", func(t *testing.T) { packaged(t, run) })
	t.Run("card", func(t *testing.T) { testCardOfOtherData(t, run) })
	t.Run("hub", func(t *testing.T) { published(t, run) })
}

func exported(t *testing.T, run string) {
	type form struct {
		args  []string
		files []string
		says  []string
	}
	for _, c := range race.FirstOnly(
		form{nil, []string{"config.json", "model.safetensors", "tokenizer.json"}, []string{"weights in bf16", "% of it is in the weights"}},
		form{[]string{"--format", "gguf"}, []string{"coder-bf16.gguf", "Modelfile"}, []string{"its TEMPLATE gives what"}},
		form{[]string{"--format", "gguf", "--type", "q8_0"}, []string{"coder-q8_0.gguf", "Modelfile"},
			[]string{"for comparison: the adapter moved"}},
	) {
		dir := filepath.Join(t.TempDir(), "out")
		out, err := typed(t, append([]string{"export-model", run, "--out", dir}, c.args...)...)
		require.NoError(t, err)
		for _, says := range append(c.says, "log-probabilities of", "greedy answers: ") {
			require.Contains(t, out, says)
		}
		for _, name := range c.files {
			require.FileExists(t, filepath.Join(dir, name))
		}
		left, err := os.ReadDir(filepath.Dir(dir))
		require.NoError(t, err)
		require.Len(t, left, 1, "only the result is left in its parent folder")
		if name := filepath.Join(dir, "Modelfile"); len(c.files) == 2 {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, "FROM ./"+c.files[0]+"\n\nTEMPLATE \"\"\"{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n"+
				"{{ end }}<|im_start|>assistant\n\"\"\"\n\nPARAMETER stop \"<|im_end|>\"\n", string(text))
		}
	}
	bare := filepath.Join(t.TempDir(), "bare")
	out, err := typed(t, "export-model", "--model", "tiny", "--out", bare, "--format", "gguf")
	require.NoError(t, err)
	require.Contains(t, out, "read back: the policy's, to the bit")
	require.Contains(t, out, "greedy answers: 3 of 3 the same")
}

func packaged(t *testing.T, run string) {
	dir := t.TempDir()
	one, two, key := filepath.Join(dir, "1.tar.zst"), filepath.Join(dir, "2.tar.zst"), filepath.Join(dir, "key")
	out, err := typed(t, "package", run, "--out", one)
	require.NoError(t, err)
	require.Contains(t, out, "type grpo package --verify "+one)
	_, err = typed(t, "package", run, "--out", two)
	require.NoError(t, err)
	a, err := os.ReadFile(one)
	require.NoError(t, err)
	b, err := os.ReadFile(two)
	require.NoError(t, err)
	require.True(t, bytes.Equal(a, b))
	out, err = typed(t, "package", "--verify", one)
	require.NoError(t, err)
	require.Contains(t, out, "each with its checksum; not signed")

	for _, name := range []string{key, filepath.Join(dir, "other")} {
		_, err = typed(t, "package", "--new-key", name)
		require.NoError(t, err)
	}
	_, err = typed(t, "package", "--verify", one, "--key", key+".pub")
	require.ErrorContains(t, err, "is intact, but not signed")
	_, err = typed(t, "package", run, "--out", two, "--key", key)
	require.NoError(t, err)
	out, err = typed(t, "package", "--verify", two, "--key", key+".pub")
	require.NoError(t, err)
	require.Contains(t, out, "signed by "+key+".pub")
	out, err = typed(t, "package", "--verify", two)
	require.NoError(t, err)
	require.Contains(t, out, "type --key FILE.pub")
	_, err = typed(t, "package", "--verify", two, "--key", filepath.Join(dir, "other.pub"))
	require.ErrorContains(t, err, "do not use it")

	a[len(a)/2] ^= 4
	require.NoError(t, os.WriteFile(one, a, 0o644))
	_, err = typed(t, "package", "--verify", one)
	require.ErrorContains(t, err, "do not use it")
	require.True(t, badinput.Is(err))

	other := filepath.Join(dir, "run")
	require.NoError(t, os.CopyFS(other, os.DirFS(run)))
	report := filepath.Join(other, "report.html")
	require.NoError(t, errors.Join(os.RemoveAll(report), os.Symlink("report.html", report)))
	_, err = typed(t, "package", other, "--out", filepath.Join(dir, "3.tar.zst"))
	require.ErrorContains(t, err, "stat "+report, "what is there and cannot be looked at is not left out")
	require.NoFileExists(t, filepath.Join(dir, "3.tar.zst"))
}

// The card of a run that continued with other data has the fingerprint of the data of its step, and no count of problems of other data.
func testCardOfOtherData(t *testing.T, run string) {
	path := filepath.Join(run, "manifest.json")
	was, err := os.ReadFile(path)
	require.NoError(t, err)
	defer os.WriteFile(path, was, 0o644)
	for after, says := range [][]string{{"| fingerprint of data | `later` |", "on the 1150 problems that are"},
		{"`first`", "on the problems that are", "It is a fork: another run, mine, made the first 1 step"}} {
		var m provenance.Manifest
		require.NoError(t, json.Unmarshal(was, &m))
		m.Starts = []provenance.Start{{Parts: provenance.Parts{"data": {SHA256: "first"}}},
			{After: after, Parts: provenance.Parts{"data": {SHA256: "later"}}}}
		if after == 1 { // the step was made before
			m.Origin = "/runs/mine/checkpoints/step_000001"
			m.Starts[1].Settings = map[string]json.RawMessage{"data": json.RawMessage(`"other.jsonl"`)}
		}
		text, err := json.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o644))
		saved, err := grpo.OpenSaved(run, -1, nil)
		require.NoError(t, err)
		text, err = card(saved)
		require.NoError(t, err)
		for _, words := range says {
			require.Contains(t, string(text), words)
		}
	}
}

func published(t *testing.T, run string) {
	var sent []string
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, "/preupload/"):
			_ = json.NewEncoder(w).Encode(map[string]any{"files": []any{}})
		case strings.Contains(r.URL.Path, "/commit/"):
			sent = strings.Split(strings.TrimSpace(body.String()), "\n")
			_ = json.NewEncoder(w).Encode(map[string]any{"commitOid": "0123456789abcdef"})
		}
	}))
	defer hub.Close()
	t.Setenv("HF_ENDPOINT", hub.URL)
	t.Setenv("HF_HOME", t.TempDir())
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	out, err := typed(t, "publish", run, "--repo", "me/coder", "--dry-run")
	require.NoError(t, err)
	for _, says := range []string{"would make " + hub.URL + "/me/coder", "there is no token yet: set HF_TOKEN", "adapter_model.safetensors",
		"training/manifest.json", "library_name: peft", "trained for 1 step with", "Nothing was evaluated", "| `learning_rate` | `0.01` |"} {
		require.Contains(t, out, says)
	}
	_, err = typed(t, "publish", run, "--repo", "me/coder")
	require.ErrorContains(t, err, "set HF_TOKEN")
	require.Empty(t, sent)
	t.Setenv("HF_TOKEN", "secret")
	out, err = typed(t, "publish", run, "--repo", "me/coder", "--private")
	require.NoError(t, err)
	require.Contains(t, out, "commit 0123456789")
	require.Contains(t, sent[0], "coder after step 1")
	require.Greater(t, len(sent), 6)
}

// If the format does not support the window, the context is shortened to it, and the comparison stays within.
func TestAModelWithAWindow(t *testing.T) {
	out, err := typed(t, "export-model", "--model", "../../../model/testdata/golden/mistral-yarn", "--format", "gguf",
		"--out", filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	require.Contains(t, out, "its context is 8 tokens there, not 4096")
	require.Contains(t, out, "the model has no tokenizer.json")
	require.Contains(t, out, "log-probabilities of 28 tokens, read back: the policy's, to the bit")
}

// A model that the format cannot express is refused by the path that was typed, before anything is computed or merged.
func TestAModelThatTheFormatHasNot(t *testing.T) {
	const dir = "../../../model/testdata/golden/gemma2-softcap"
	out := filepath.Join(t.TempDir(), "out")
	nothing := Machine{Open: func(context.Context, string, int) (kernels.Backend, error) { return nil, errors.New("opened") }}
	_, err := typedOn(t, nothing, "export-model", "--model", dir, "--adapter", dir+"/adapter", "--format", "gguf", "--out", out)
	require.True(t, badinput.Is(err), err)
	require.True(t, strings.HasPrefix(err.Error(), dir+": query_pre_attn_scalar is 24 where 32 is meant"), err)
	left, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestMistakesAreAnswered(t *testing.T) {
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o644))
	for line, says := range map[string]string{
		"export-model":                                     "type grpo export-model RUN --out DIR",
		"export-model runs/x":                              "--out is missing",
		"export-model a b --out c":                         "one word too many",
		"export-model --model tiny --out c --step 3":       "--step needs a run",
		"export-model runs/x --model tiny --out c":         "leave one of them out",
		"export-model --model tiny --out c --format onnx":  "expected safetensors or gguf",
		"export-model --model tiny --out c --type q8_0":    "type --format gguf --type q8_0",
		"export-model --model tiny --out c --type q9":      `found "q9"`,
		"export-model --model tiny --out c --quantize nf5": "--quantize",
		"export-model --model tiny --out " + full:          "not empty; choose a new directory",
		"package":                   "grpo package RUN --out FILE",
		"package runs/x":            "type grpo package runs/x --out x.tar.zst",
		"package runs/x --verify y": "leave it out",
		"package --verify " + full:  "is no file",
		"package --verify " + filepath.Join(full, "x"): "0 bytes",
		"publish":                              "type grpo publish RUN --repo OWNER/NAME",
		"publish runs/x":                       "type grpo publish runs/x --repo OWNER/x",
		"publish runs/x --repo coder":          "owner/name",
		"publish " + full + " --repo me/coder": full,
	} {
		_, err := typed(t, strings.Fields(line)...)
		require.ErrorContains(t, err, says, line)
		require.True(t, badinput.Is(err), "%s: %v", line, err)
	}
}
