package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func load(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// small is a tokenizer with the tokens of a turn and of thoughts, but none for tools.
func small(t testing.TB) *tokenizer.Tokenizer {
	return load(t, filepath.Join("..", "tokenizer", "testdata", "small"))
}

func renderer(t testing.TB, name string, tok *tokenizer.Tokenizer) *Renderer {
	t.Helper()
	r, err := New(name, tok)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestQwen3ChatVectors(t *testing.T) {
	dir := tokenizertest.Qwen3(t)
	data, err := os.ReadFile(filepath.Join(dir, "chat_vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name     string
		Renderer string
		Messages []Message
		Tools    []Tool
		Prompt   bool `json:"add_generation_prompt"`
		Text     string
		IDs      []int32
	}
	if err := json.Unmarshal(data, &vectors); err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors: %v", len(vectors), err)
	}
	tok := load(t, dir)
	for _, v := range vectors {
		r := renderer(t, v.Renderer, tok)
		render := r.Conversation
		if v.Prompt {
			render = r.Prompt
		}
		ids, text, err := render(v.Messages, v.Tools...)
		if err != nil || text != v.Text || !slices.Equal(ids, v.IDs) {
			t.Errorf("%s, %s: %v\n got %q %v\nwant %q %v", v.Name, v.Renderer, err, text, ids, v.Text, v.IDs)
		}
	}
}

func TestQwen3ChoosesItsRenderer(t *testing.T) {
	r, err := ForModel(load(t, tokenizertest.Qwen3(t)))
	if err != nil || r.Name() != "qwen3" {
		t.Errorf("got %v, %v", r, err)
	}
}

func user(content string) Message   { return Message{Role: "user", Content: content} }
func answer(content string) Message { return Message{Role: "assistant", Content: content} }
func ptr(s string) *string          { return &s }

func TestStop(t *testing.T) {
	tok := small(t)
	end, _ := tok.TokenID("<|im_end|>")
	for _, name := range Names() {
		if stop := renderer(t, name, tok).Stop(); !slices.Equal(stop, []int32{end}) {
			t.Errorf("%s stops at %v, expected %d", name, stop, end)
		}
	}
}

// checkRefused wants an input error that says want.
func checkRefused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !badinput.Is(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, expected an input error with %q", err, want)
	}
}

func TestRefused(t *testing.T) {
	call := func(c ToolCall) []Message { return []Message{{Role: "assistant", ToolCalls: []ToolCall{c}}} }
	for want, messages := range map[string][]Message{
		"conversation: no messages":                nil,
		`message 1: found role "developer"`:        {user("a"), {Role: "developer"}},
		"message 0: a user makes no tool calls":    {{Role: "user", ToolCalls: make([]ToolCall, 1)}},
		"message 0: tool call 0: name: missing":    call(ToolCall{}),
		"message 0: tool call 0: arguments: missi": call(ToolCall{Name: "f"}),
		"tool call 0: arguments: not JSON":         call(ToolCall{Name: "f", Arguments: json.RawMessage(`{"a"`)}),
	} {
		_, _, err := renderer(t, "qwen3", small(t)).Prompt(messages)
		checkRefused(t, err, want)
	}
	_, _, err := renderer(t, "qwen3", small(t)).Prompt([]Message{user("a")}, Tool(`{`))
	checkRefused(t, err, "tool 0: not JSON")
}

func TestUnknownName(t *testing.T) {
	_, err := New("qwen4", small(t))
	checkRefused(t, err, `"qwen4", expected one of qwen3, qwen3_disable_thinking, qwen3_instruct`)
}

func TestTokenizerWithoutTurns(t *testing.T) {
	trained, err := tokenizer.Train(func(yield func(string) bool) { yield("a a") }, tokenizer.TrainOptions{VocabSize: 256})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := trained.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	_, err = New("qwen3", tok)
	checkRefused(t, err, "no special token <|im_start|>")
}

func TestDetect(t *testing.T) {
	for _, tc := range []struct{ template, want string }{
		{Template, "qwen3_instruct"},
		{`'<|im_start|>' … '<|im_end|>' … You are provided with function signatures`, "qwen3_instruct"},
		{`<|im_start|><|im_end|> {%- if enable_thinking is defined %}<think>`, "qwen3"},
		{"", "no chat template"},
		{"[INST] {{ message }}", "not of the Qwen family"},
		{`<|im_start|>system\nYou are Qwen, a helpful assistant.<|im_end|>`, "adds a system prompt"},
		{`<|im_start|>assistant\n<think>\n<|im_end|>`, "always thinks"},
		{`<|im_start|><|im_end|>enable_thinking <function=`, "another tool format"},
	} {
		name, err := detect(tc.template)
		if name != tc.want && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: got %q, %v; expected %q", tc.template, name, err, tc.want)
		}
	}
	_, err := ForModel(small(t)) // which has no template
	checkRefused(t, err, "choose a renderer by name: qwen3,")
}
