package chat

import (
	"encoding/json"
	"testing"
)

var (
	runTool = Tool(`{"name":"run","strict":true,"max":1e2}`)
	runCall = []ToolCall{{Name: "run", Arguments: json.RawMessage(`{"a":[1,"é\n"]}`)}}
)

// runText is the text of runCall.
const runText = "<tool_call>\n" + `{"name": "run", "arguments": {"a": [1, "é\n"]}}` + "\n</tool_call>"

// texts are conversations as the models' own templates render them.
var texts = []struct {
	name, renderer string
	messages       []Message
	tools          []Tool
	conversation   bool
	want           string
}{
	{
		name: "one question", renderer: "qwen3_instruct",
		messages: []Message{user("Hi")},
		want:     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
	}, {
		name: "no thoughts wanted", renderer: "qwen3_disable_thinking",
		messages: []Message{user("Hi")},
		want:     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
	}, {
		name: "instruct leaves thoughts alone", renderer: "qwen3_instruct", conversation: true,
		messages: []Message{user("Hi"), answer("<think>x</think>y")},
		want:     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>x</think>y<|im_end|>\n",
	}, {
		name: "old thoughts are dropped", renderer: "qwen3", conversation: true,
		messages: []Message{
			user("a"), answer("<think>\nx\n</think>\n\ny"), user("b"), {Role: "assistant", Content: "d", Reasoning: ptr("\nc\n")},
		},
		want: "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\ny<|im_end|>\n<|im_start|>user\nb<|im_end|>\n" +
			"<|im_start|>assistant\n<think>\nc\n</think>\n\nd<|im_end|>\n",
	}, {
		name: "a tool between thoughts", renderer: "qwen3", conversation: true,
		messages: []Message{
			user("a"), {Role: "assistant", Reasoning: ptr("x"), ToolCalls: runCall}, {Role: "tool", Content: "1"}, answer("z"),
		},
		want: "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\nx\n</think>\n\n" + runText + "<|im_end|>\n" +
			"<|im_start|>user\n<tool_response>\n1\n</tool_response><|im_end|>\n" +
			"<|im_start|>assistant\n<think>\n\n</think>\n\nz<|im_end|>\n",
	}, {
		name: "tools", renderer: "qwen3_instruct",
		messages: []Message{
			{Role: "system", Content: "Be brief."}, user("a"), {Role: "assistant", Content: "Now:", ToolCalls: runCall},
			{Role: "tool", Content: "1"}, {Role: "tool", Content: "2"}, {Role: "system", Content: "s"},
		},
		tools: []Tool{runTool},
		want: "<|im_start|>system\nBe brief.\n\n" + toolsHead + "\n" + `{"name": "run", "strict": true, "max": 100.0}` + toolsFoot +
			"<tool_call></tool_call> XML tags:\n" +
			"<tool_call>\n" + `{"name": <function-name>, "arguments": <args-json-object>}` + "\n</tool_call><|im_end|>\n" +
			"<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nNow:\n" + runText + "<|im_end|>\n" +
			"<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response><|im_end|>\n" +
			"<|im_start|>system\ns<|im_end|>\n<|im_start|>assistant\n",
	},
}

func TestText(t *testing.T) {
	for _, tc := range texts {
		r := renderer(t, tc.renderer, small(t))
		render := r.Prompt
		if tc.conversation {
			render = r.Conversation
		}
		ids, text, err := render(tc.messages, tc.tools...)
		if err != nil || text != tc.want {
			t.Errorf("%s: %v\n got %q\nwant %q", tc.name, err, text, tc.want)
		}
		if back := small(t).Decode(ids, false); back != text {
			t.Errorf("%s: the ids spell %q", tc.name, back)
		}
	}
}
