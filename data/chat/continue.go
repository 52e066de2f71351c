package chat

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Continue returns the tokens that follow a sampled assistant's turn: the end of the turn, the messages after it, and the start of the
// assistant's next turn. So a conversation is one growing sequence: [Prompt(before)][sampled][Continue(before, …, after)][sampled] and
// so on. Sampled tokens are never tokenized again, even if the template would render the turn differently later, because it trims
// answers or drops the thoughts of earlier turns. So the model samples from the same sequence that it is later trained on.
//
// ended says that the sampled turn ends with a token that ends turns; whichever it is, it replaces that of the template. A turn that was
// cut off, by its length or by a stop string, is ended by the template's token.
func (r *Renderer) Continue(before []Message, ended bool, after []Message, tools ...Tool) (tokens []int32, text string, err error) {
	if len(after) == 0 {
		return nil, "", badinput.Errorf("conversation: no messages after the assistant's turn, expected one or more")
	}
	stop := r.Stop()
	if len(stop) == 0 {
		return nil, "", badinput.Errorf("the model's chat template writes no special token after an answer, so a conversation cannot " +
			"continue after one")
	}
	var ids [2][]int32
	var texts [2]string
	for i, said := range []string{"a", "b"} {
		if ids[i], texts[i], err = r.answered(before, said, after, tools); err != nil {
			return nil, "", err
		}
	}
	// Two conversations that differ only in what the assistant said have the same end. It starts after that text, and the first
	// stop token in it ends the turn.
	tokens = commonEnd(ids[0], ids[1])
	text = texts[0][len(texts[0])-len(commonEnd([]byte(texts[0]), []byte(texts[1]))):]
	mark := r.tokenText(stop[0])
	end, at := slices.Index(tokens, stop[0]), strings.Index(text, mark)
	if end < 0 || at < 0 || len(tokens) == len(ids[0]) {
		return nil, "", badinput.Errorf("the model's chat template leaves out the assistant's answer, so a conversation cannot continue after it")
	}
	tokens, text = tokens[end:], text[at:]
	if ended {
		tokens, text = tokens[1:], text[len(mark):]
	}
	return slices.Clip(tokens), text, nil
}

// answered renders a conversation in which the assistant said the given text, and starts its next turn. Some templates accept a tool
// message only after a call: for them the text is in the arguments of calls.
func (r *Renderer) answered(before []Message, said string, after []Message, tools []Tool) ([]int32, string, error) {
	whole := func(turn Message) ([]int32, string, error) {
		return r.Prompt(slices.Concat(before, []Message{turn}, after), tools...)
	}
	ids, text, err := whole(Message{Role: roleAnswerer, Content: said})
	if err == nil {
		return ids, text, nil
	}
	calling := Message{Role: roleAnswerer}
	for _, m := range after {
		if m.Role == roleTool {
			arguments, err := json.Marshal(map[string]string{"a": said})
			if err != nil {
				return nil, "", err
			}
			calling.ToolCalls = append(calling.ToolCalls, ToolCall{Name: "f", Arguments: arguments, ID: m.ToolCallID})
		}
	}
	if len(calling.ToolCalls) > 0 {
		if ids, text, err := whole(calling); err == nil {
			return ids, text, nil
		}
	}
	return nil, "", err
}

// tokenText is the text of a special token.
func (r *Renderer) tokenText(id int32) string {
	special := r.tok.SpecialTokens()
	return special[slices.IndexFunc(special, func(s tokenizer.Special) bool { return s.ID == id })].Content
}

// commonEnd is the longest common suffix of two lists.
func commonEnd[T comparable](a, b []T) []T {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return a[len(a)-n:]
}
