package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
	"github.com/seed-7879b91d/grpo/internal/race"
)

const smallTokenizer = "../../data/tokenizer/testdata/small"

// tokenizeLines runs the verb on lines and requires that it succeeds.
func tokenizeLines(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, errs, code := shell(t, stdin, append([]string{"tokenize"}, args...)...)
	require.Zero(t, code, errs)
	return out
}

func TestTokenizeThereAndBack(t *testing.T) {
	texts := `{"text":"def add(a, b):\n    return a + b\n"}
{"text":""}

{"text":"<think>日本語 & naïve</think><|im_end|>","note":"passed over"}
`
	for _, path := range []string{smallTokenizer, filepath.Join(smallTokenizer, "tokenizer.json")} {
		for _, plain := range [][]string{nil, {"--plain"}} {
			ids := tokenizeLines(t, texts, append(plain, "--tokenizer", path)...)
			lines := strings.Split(ids, "\n")
			if len(lines) != 4 || lines[1] != `{"ids":[]}` {
				t.Fatalf("got %q", ids)
			}
			if special := strings.HasSuffix(lines[2], ",381]}"); special == (plain != nil) {
				t.Errorf("flags %v: <|im_end|> became %s", plain, lines[2])
			}
			want := `{"text":"def add(a, b):\n    return a + b\n"}
{"text":""}
{"text":"<think>日本語 & naïve</think><|im_end|>"}
`
			if got := tokenizeLines(t, ids, "--decode", "--tokenizer", path); got != want {
				t.Errorf("decoded to %s", got)
			}
		}
	}
}

func TestTokenizeQwen3Vectors(t *testing.T) {
	race.SkipSerial(t)
	dir := tokenizertest.Qwen3(t)
	data, err := os.ReadFile(filepath.Join(dir, "vectors.json"))
	require.NoError(t, err)
	var vectors []struct {
		Text string  `json:"text"`
		IDs  []int32 `json:"ids"`
	}
	require.NoError(t, json.Unmarshal(data, &vectors))
	require.NotEmpty(t, vectors)
	var in, want bytes.Buffer
	for _, v := range vectors {
		json.NewEncoder(&in).Encode(v)
		json.NewEncoder(&want).Encode(map[string]any{"ids": v.IDs})
	}
	if got := tokenizeLines(t, in.String(), "--tokenizer", dir); got != want.String() {
		t.Error("the ids differ from the vectors'")
	}
}

func TestTokenizeRefuses(t *testing.T) {
	small := []string{"--tokenizer", smallTokenizer}
	for _, tc := range []struct {
		args        []string
		stdin, want string
	}{
		{nil, "", "--tokenizer is missing"},
		{[]string{"--tokenizer", "nowhere"}, "", "nowhere: no such file"},
		{[]string{"--tokenizer"}, "", "grpo tokenize --help"},
		{append(small, "file"), "", "grpo tokenize --help"},
		{append(small, "--decode", "--plain"), "", "--plain is about encoding"},
		{small, `{"ids":[1]}`, `standard input:1: field "text" is missing`},
		{small, "{\"text\":\"a\"}\n{\"text\":3}", `standard input:2: field "text"`},
		{small, `{"text":`, "standard input:1:"},
		{append(small, "--decode"), `{"text":"a"}`, `standard input:1: field "ids" is missing`},
		{append(small, "--decode"), `{"ids":[1,384]}`, `standard input:1: field "ids"[1]: no token has id 384; expected 0 to 383`},
		{append(small, "--decode"), `{"ids":[-1]}`, "no token has id -1"},
	} {
		_, msg, code := shell(t, tc.stdin, append([]string{"tokenize"}, tc.args...)...)
		if code != exitBadInput || !strings.Contains(msg, tc.want) || strings.Count(msg, "\n") != 1 {
			t.Errorf("%v %q: exit code %d, %q; expected %d and %q", tc.args, tc.stdin, code, msg, exitBadInput, tc.want)
		}
	}
}

func TestTokenizeHelpHasExamples(t *testing.T) {
	help := tokenizeLines(t, "", "--help")
	for _, want := range []string{"Examples:", "--decode", "--plain", `{"text":`} {
		if !strings.Contains(help, want) {
			t.Errorf("--help does not mention %s", want)
		}
	}
}
