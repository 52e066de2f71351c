package chat

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// Many tokenizers are loaded: letting the heap grow is cheaper than a garbage collection for each of them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

func load(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// small is a tokenizer with the tokens of turns and thoughts, but none for tools.
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
	race.SkipSerial(t)
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
		renderers := []*Renderer{renderer(t, v.Renderer, tok)}
		if v.Renderer != "qwen3_instruct" {
			renderers = append(renderers, interpreted(t, v.Renderer, tok, tok.ChatTemplate()))
		}
		for _, r := range renderers {
			render := r.Conversation
			if v.Prompt {
				render = r.Prompt
			}
			ids, text, err := render(v.Messages, v.Tools...)
			if err != nil || text != v.Text || !slices.Equal(ids, v.IDs) {
				t.Errorf("%s, %s, %s: %v\n got %q %v\nwant %q %v", v.Name, v.Renderer, r.Name(), err, text, ids, v.Text, v.IDs)
			}
		}
	}
	t.Run("proved", func(t *testing.T) { checkProved(t, tok.ChatTemplate()) })
}

// interpreted is the renderer of a template with the variables of the hand-written one of that name.
func interpreted(t testing.TB, name string, tok *tokenizer.Tokenizer, template string) *Renderer {
	t.Helper()
	o := Options{}
	if name == "qwen3_disable_thinking" {
		o.Vars = map[string]json.RawMessage{"enable_thinking": json.RawMessage("false")}
	}
	r, err := fromTemplate(tok.WithChatTemplate(template), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkProved compares the hand-written renderers with the templates that they replace.
func checkProved(t *testing.T, qwen3 string) {
	tok, rnd := small(t), rand.New(rand.NewPCG(8, 0))
	for _, name := range Names() {
		template, tools := qwen3, []Tool{runTool}
		if name == "qwen3_instruct" {
			template, tools = Template, nil
		}
		if known := provedTemplates[hash(template)]; known != strings.TrimSuffix(name, "_disable_thinking") {
			t.Errorf("the template of %s is known as %q", name, known)
		}
		hand, own := renderer(t, name, tok), interpreted(t, name, tok, template)
		for range 300 {
			messages := randomMessages(rnd, 1+rnd.IntN(6))
			if tools == nil {
				messages = slices.DeleteFunc(messages, func(m Message) bool { return m.Role == "tool" || m.ToolCalls != nil })
			}
			if !slices.ContainsFunc(messages, func(m Message) bool { return m.Role == "user" }) {
				messages = append(messages, user("x"))
			}
			declared := tools[:rnd.IntN(len(tools)+1)]
			ids, text := mustRender(t, hand.Prompt, messages, declared)
			ids2, text2 := mustRender(t, own.Prompt, messages, declared)
			if text != text2 || !slices.Equal(ids, ids2) {
				t.Fatalf("%s, %+v:\n got %q %v\nwant %q %v", name, messages, text, ids, text2, ids2)
			}
		}
	}
}

func TestQwen3ChoosesItsRenderer(t *testing.T) {
	r, err := ForModel(load(t, tokenizertest.Qwen3(t)), Options{})
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

// checkRefused requires an input error with the text want.
func checkRefused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !badinput.Is(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, expected an input error with %q", err, want)
	}
}

func TestRefused(t *testing.T) {
	call := func(c ToolCall) []Message { return []Message{{Role: "assistant", ToolCalls: []ToolCall{c}}} }
	for want, messages := range map[string][]Message{
		"conversation: no messages":                             nil,
		`message 1: found role "developer"`:                     {user("a"), {Role: "developer"}},
		"message 0: found tool calls in a message of role user": {{Role: "user", ToolCalls: make([]ToolCall, 1)}},
		"message 0: tool call 0: name: missing":                 call(ToolCall{}),
		"message 0: tool call 0: arguments: missi":              call(ToolCall{Name: "f"}),
		"tool call 0: arguments: not JSON":                      call(ToolCall{Name: "f", Arguments: json.RawMessage(`{"a"`)}),
	} {
		_, _, err := renderer(t, "qwen3", small(t)).Prompt(messages)
		checkRefused(t, err, want)
	}
	_, _, err := renderer(t, "qwen3", small(t)).Prompt([]Message{user("a")}, Tool(`{`))
	checkRefused(t, err, "tool 0: not JSON")
}

func TestUnknownName(t *testing.T) {
	_, err := New("qwen4", small(t))
	checkRefused(t, err, `"qwen4", expected one of plain, qwen3, qwen3_disable_thinking, qwen3_instruct`)
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

// A template without a hand-written renderer is interpreted, and so is one with variables.
func TestForModel(t *testing.T) {
	for _, tc := range []struct {
		template, vars, want string
	}{
		{Template, "", "qwen3_instruct"},
		{Template, `{"a": 1}`, "template"},
		{Template + " ", "", "template"},
		{"", "", "no chat template; choose a renderer by name: plain, qwen3,"},
		{"{% include 'x' %}", "", "the model's chat template: line 1: the tag {% include %} is not supported; supported are for,"},
		{"{{ x", "", "the model's chat template: line 1: a tag has no end }}"},
	} {
		vars, err := ParseVars(tc.vars)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ForModel(small(t).WithChatTemplate(tc.template), Options{Vars: vars})
		if err != nil {
			checkRefused(t, err, tc.want)
		} else if r.Name() != tc.want {
			t.Errorf("%q: got %s, expected %s", tc.template, r.Name(), tc.want)
		}
	}
	_, err := ParseVars("[1]")
	checkRefused(t, err, `chat_vars: found "[1]", expected a JSON object`)
}
