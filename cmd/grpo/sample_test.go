package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// sampled decodes the output of sample --json.
func sampled(t *testing.T, out string) (lines []sampleLine) {
	t.Helper()
	for _, text := range strings.Split(strings.TrimSpace(out), "\n") {
		var l sampleLine
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		lines = append(lines, l)
	}
	return lines
}

func TestSampleVerbIsGreedyAtTemperatureZero(t *testing.T) {
	for _, name := range []string{"qwen3-tied", "qwen3-untied-sharded"} {
		var want []struct {
			With               string
			Prompt, Completion []int32
			LogProbs, Margins  []float64
		}
		readJSONFile(t, &want, golden(name, "greedy.json"))
		for _, w := range want {
			args := []string{"sample", "--model", golden(name), "--tokens", "-", "--temperature", "0", "--json",
				"--max-tokens", fmt.Sprint(len(w.Completion))}
			if w.With != "base" {
				args = append(args, "--adapter", golden(name, "adapter"))
			}
			prompt, err := json.Marshal(tokenLine{w.Prompt})
			require.NoError(t, err)
			out, errs, code := shell(t, string(prompt), args...)
			require.Zero(t, code, errs)
			got := sampled(t, out)[0]
			for i, token := range w.Completion {
				if w.Margins[i] <= 1e-3 {
					break
				}
				require.Equal(t, token, got.Tokens[i])
				require.InDelta(t, w.LogProbs[i], float64(got.LogProbs[i]), 2e-4)
			}
		}
	}
}

// score prints the same numbers as sample, digit for digit.
func TestSampleAndScoreVerbsAgree(t *testing.T) {
	prompts := `{"tokens":[5,9,300]}` + "\n" + `{"tokens":[7]}` + "\n"
	args := []string{"--model", golden("qwen3-tied"), "--adapter", golden("qwen3-tied", "adapter"), "--temperature", "0.7"}
	sample := append([]string{"sample", "--tokens", "-", "--n", "3", "--max-tokens", "12", "--seed", "4", "--json"}, args...)
	out, errs, code := shell(t, prompts, sample...)
	require.Zero(t, code, errs)
	require.Contains(t, errs, "KV: ")
	lines := sampled(t, out)
	require.Len(t, lines, 6)
	again, _, _ := shell(t, prompts, append(sample, "--threads", "5", "--max-sequences", "2")...)
	require.Equal(t, out, again)
	for i, l := range lines {
		require.Equal(t, []int{i / 3, i % 3}, []int{l.Prompt, l.Sample})
		prompt := [][]int32{{5, 9, 300}, {7}}[l.Prompt]
		whole, err := json.Marshal(tokenLine{append(prompt, l.Tokens...)})
		require.NoError(t, err)
		scores, errs, code := shell(t, string(whole), append([]string{"score"}, args...)...)
		require.Zero(t, code, errs)
		var got struct{ LogProbs []float32 }
		require.NoError(t, json.Unmarshal([]byte(scores), &got))
		require.Equal(t, l.LogProbs, got.LogProbs[len(prompt)-1:])
	}
}

func TestSampleVerbSpeaksTheModelsFormat(t *testing.T) {
	dir := damagedModel(t, "qwen3-tied", func(dir string) {
		small := filepath.Join("..", "..", "data", "tokenizer", "testdata", "small")
		require.NoError(t, os.CopyFS(dir, os.DirFS(small)))
	})
	messages := filepath.Join(t.TempDir(), "m.jsonl")
	require.NoError(t, os.WriteFile(messages, []byte(`{"messages":[{"role":"user","content":"hi"}]}`), 0o644))
	args := []string{"sample", "--model", dir, "--renderer", "qwen3_instruct", "--max-tokens", "8", "--seed", "1"}
	out, errs, code := shell(t, "", append(args, "--prompt", "hi", "--json")...)
	require.Zero(t, code, errs)
	fromFile, errs, code := shell(t, "", append(args, "--messages", messages, "--json")...)
	require.Zero(t, code, errs)
	require.Equal(t, out, fromFile)
	text, errs, code := shell(t, "", append(args, "--prompt", "hi")...)
	require.Zero(t, code, errs)
	legible := func(text string) string { return strings.ReplaceAll(text, "\ufffd", "") }
	require.Equal(t, legible(sampled(t, out)[0].Text), legible(strings.TrimSuffix(text, "\n")), "streamed or at once")
}

func TestBadSamplesAreRefusedInOneLine(t *testing.T) {
	base := fmt.Sprintf("sample --model %s ", golden("qwen3-tied"))
	for line, says := range map[string][]string{
		"":                                 {"--prompt", "exactly one"},
		"--prompt x --tokens -":            {"exactly one"},
		"--prompt x":                       {"tokenizer.json"},
		"--tokens nowhere.jsonl":           {"nowhere.jsonl"},
		"--tokens .":                       {".: found a directory", "a file of JSON Lines in it"},
		"--tokens - --max-tokens 0":        {"max_tokens"},
		"--tokens - --temperature -1":      {"temperature"},
		"--tokens - --top-p 2":             {"top_p"},
		"--tokens - --n 0":                 {"n: found 0"},
		"--tokens - --cache-bytes 10":      {"cache of 10 bytes"},
		"--tokens - --max-tokens 99999999": {"40960"},
		"--tokens - --stop x":              {"--stop", "tokenizer"},
	} {
		out, errs, code := shell(t, `{"tokens":[1,2]}`, strings.Fields(base+line)...)
		require.Equal(t, 2, code, "%s: %s", line, errs)
		require.Empty(t, out)
		for _, s := range says {
			require.Contains(t, errs, s, line)
		}
	}
}

// Prompts are rendered with the model's own template: the turns, the date, and the end of an answer.
func TestSampleVerbRendersTheModelsTemplate(t *testing.T) {
	const template = `{{ strftime_now('%Y') }}{% for m in messages %}<|im_start|>{{ m.content|trim }}<|im_end|>{% endfor %}`
	dir := damagedModel(t, "qwen3-tied", func(dir string) {
		small := filepath.Join("..", "..", "data", "tokenizer", "testdata", "small")
		require.NoError(t, os.CopyFS(dir, os.DirFS(small)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o644))
	})
	args := []string{"sample", "--model", dir, "--max-tokens", "4", "--temperature", "0", "--json"}
	ask := func(more ...string) string {
		out, errs, code := shell(t, "", append(args, more...)...)
		require.Zero(t, code, errs)
		return out
	}
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	prompt, err := json.Marshal(tokenLine{tok.EncodeSpecial("2031<|im_start|>hi<|im_end|>")})
	require.NoError(t, err)
	want, errs, code := shell(t, string(prompt), append(args, "--tokens", "-")...)
	require.Zero(t, code, errs)
	require.Equal(t, want, ask("--prompt", " hi\n", "--chat-date", "2031-05-06"))
	_, errs, code = shell(t, "", append(args, "--prompt", "hi", "--chat-date", "")...)
	require.Equal(t, 2, code)
	require.Contains(t, errs, "chat_date=2024-07-26")
	_, errs, code = shell(t, "", append(args, "--prompt", "hi", "--chat-vars", "[]")...)
	require.Equal(t, 2, code)
	require.Contains(t, errs, `chat_vars: found "[]"`)
}
