package chat

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// growSequence are the text of a conversation as its sequence grows, and as its template renders it at the end.
func growSequence(t *testing.T, r *Renderer, turns [][]Message, tools []Tool) (grown, written string) {
	t.Helper()
	before := turns[0]
	sequence, _ := mustRender(t, r.Prompt, before, tools)
	for _, turn := range turns[1:] {
		said, after := turn[0], turn[1:]
		cut, text, err := r.Continue(before, false, after, tools...)
		if err != nil {
			t.Fatalf("%+v: %v", turn, err)
		}
		ended, _, _ := r.Continue(before, true, after, tools...)
		if cut[0] != r.Stop()[0] || !slices.Equal(cut[1:], ended) || !strings.HasPrefix(text, r.tokenText(cut[0])) {
			t.Fatalf("%v after a turn that was cut, %v after one that ended", cut, ended)
		}
		sequence = slices.Concat(sequence, r.tok.Encode(said.Content))
		if len(sequence)%2 == 0 {
			sequence = append(append(sequence, r.Stop()[0]), ended...)
		} else {
			sequence = append(sequence, cut...)
		}
		before = slices.Concat(before, turn)
		whole, all := mustRender(t, r.Prompt, before, tools)
		if !hasPrefix(reversed(whole), reversed(cut)) || !strings.HasSuffix(all, text) {
			t.Fatalf("%v, %q is no end of %v, %q", cut, text, whole, all)
		}
	}
	whole, _ := mustRender(t, r.Prompt, before, tools)
	return r.tok.Decode(sequence, false), r.tok.Decode(whole, false)
}

func reversed(s []int32) []int32 {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// checkGrowth requires that both are equal if the template does not rewrite the past: for turns of users and of tools, with any content,
// if the template supports them.
func checkGrowth(t *testing.T, r *Renderer, faithful bool) {
	t.Helper()
	tool := []Message{{Role: roleTool, Content: "1", ToolCallID: "call00001"}}
	_, _, noTools := r.Continue([]Message{user("a")}, true, tool)
	rnd := rand.New(rand.NewPCG(11, 0))
	for range 20 {
		turns := [][]Message{{user("x" + tricky[rnd.IntN(len(tricky))])}}
		for range 1 + rnd.IntN(4) {
			turn := []Message{answer("y" + tricky[rnd.IntN(len(tricky))] + "z"), user(tricky[rnd.IntN(len(tricky))] + "x")}
			for noTools == nil && rnd.IntN(2) == 0 {
				turn = slices.Insert(turn, 1, Message{Role: roleTool, Content: tricky[rnd.IntN(len(tricky))], ToolCallID: "call00001"})
			}
			if len(turn) > 2 && rnd.IntN(2) == 0 {
				turn = turn[:len(turn)-1] // only tools
			}
			turns = append(turns, turn)
		}
		var tools []Tool
		if noTools == nil {
			tools = []Tool{runTool}[:rnd.IntN(2)]
		}
		if got, want := growSequence(t, r, turns, tools); faithful && got != want && !rewritten(turns) {
			t.Fatalf("%+v:\n got %q\nwant %q", turns, got, want)
		}
	}
}

// rewritten reports whether an answer looks like thoughts, which some templates drop.
func rewritten(turns [][]Message) bool {
	return slices.ContainsFunc(turns[1:], func(turn []Message) bool { return strings.Contains(turn[0].Content, thinkEnd) })
}

func TestConversationsGrow(t *testing.T) {
	tok := small(t)
	for _, name := range Names() {
		// Empty thoughts that were part of the prompt are dropped when the answer is in the past.
		checkGrowth(t, renderer(t, name, tok), name != "qwen3_disable_thinking")
	}
	checkGrowth(t, withTemplate(t, Template, Options{}), true)
}

// Thoughts that a template would drop later stay in the sequence, as they were drawn.
func TestThoughtsStayInAGrowingConversation(t *testing.T) {
	r := renderer(t, "qwen3", small(t))
	got, want := growSequence(t, r, [][]Message{{user("a")}, {answer("<think>\nhm\n</think>\n\nb"), user("c")}}, nil)
	const end = "<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
	if head := "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"; got != head+"<think>\nhm\n</think>\n\nb"+end || want != head+"b"+end {
		t.Errorf("grown %q, written %q", got, want)
	}
	// Nor does the template drop them before the next message of a user.
	got, want = growSequence(t, r, [][]Message{{user("a")}, {answer("<think>\nhm\n</think>\n\nb"), {Role: roleTool, Content: "1"}}}, nil)
	if got != want {
		t.Errorf("grown %q, written %q", got, want)
	}
}

// If a template requires a call before a tool's result, one is added.
func TestToolsThatAnswerCalls(t *testing.T) {
	r := withTemplate(t, `{%- for m in messages %}{%- if m.role == 'tool' %}
{%- if not messages[loop.index0 - 1].tool_calls or m.tool_call_id|length != 9 %}{{ raise_exception('no call of 9 letters') }}{% endif %}
{{- '<|im_start|>tool ' + m.tool_call_id + m.content + '<|im_end|>' }}
{%- elif m.tool_calls %}{{ '<|im_start|>calls' + m.tool_calls|tojson + '<|im_end|>' }}
{%- else %}{{ '<|im_start|>' + m.role + m.content + '<|im_end|>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}`, Options{})
	for id, want := range map[string]string{"call00001": "<|im_start|>tool call00001<|im_end|><|im_end|><|im_start|>", "x": ""} {
		tokens, text, err := r.Continue([]Message{user("a")}, true, []Message{{Role: roleTool, Content: "<|im_end|>", ToolCallID: id}})
		if text != want || r.tok.Decode(tokens, false) != want || (err == nil) != (want != "") || err != nil && !badinput.Is(err) {
			t.Errorf("%s: %q, %v", id, text, err)
		}
	}
}

func TestConversationsThatCannotGoOn(t *testing.T) {
	for template, want := range map[string]string{
		`{% for m in messages %}{{ m.content }}{% endfor %}`: "the model's chat template writes no special token after an answer",
		`{% for m in messages %}{{ '<|im_end|>' if m.role == 'assistant' else m.content + '<|im_end|>' }}{% endfor %}`: "" +
			"the model's chat template leaves out the assistant's answer",
		`{% for m in messages %}{{ raise_exception('no') if loop.length == 3 else m.content + '<|im_end|>' }}{% endfor %}`: "" +
			"the model's chat template refuses the conversation: no",
	} {
		r := withTemplate(t, template, Options{Vars: map[string]json.RawMessage{"x": json.RawMessage("1")}})
		_, _, err := r.Continue([]Message{user("a")}, true, []Message{user("b")})
		if err == nil || !strings.Contains(err.Error(), want) || !badinput.Is(err) {
			t.Errorf("%s: %v, expected %q", template, err, want)
		}
	}
	if _, _, err := renderer(t, "qwen3", small(t)).Continue([]Message{user("a")}, true, nil); err == nil || !badinput.Is(err) {
		t.Errorf("nothing to go on with: %v", err)
	}
}
