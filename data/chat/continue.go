package chat

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Continue gives the tokens that follow an assistant's turn as it was drawn: what ends the turn, the messages that answer it, and
// what opens its next one. So a conversation is one sequence that grows: [Prompt(before)][drawn][Continue(before, …, after)][drawn]
// and so on. What was drawn is not tokenized again, and stays as it is in a template that would write it otherwise later: one that
// trims answers, or drops the thoughts of earlier turns. The model reads on from what it said, as it will when it is trained on the
// sequence.
//
// ended says that the last token of the turn is one that ends turns, whichever of them: it stands in place of the template's. A turn
// that was cut off, by its length or by a stop string, gets the template's.
func (r *Renderer) Continue(before []Message, ended bool, after []Message, tools ...Tool) (tokens []int32, text string, err error) {
	if len(after) == 0 {
		return nil, "", badinput.Errorf("conversation: no messages after the assistant's turn, expected one or more")
	}
	stop := r.Stop()
	if len(stop) == 0 {
		return nil, "", badinput.Errorf("the model's chat template puts no special token after an answer: no conversation can go on from one")
	}
	var ids [2][]int32
	var texts [2]string
	for i, said := range []string{"a", "b"} {
		if ids[i], texts[i], err = r.answered(before, said, after, tools); err != nil {
			return nil, "", err
		}
	}
	// Where two conversations begin to be the same for good, what was said in the turn is over. The end of the turn is the first
	// that ends one.
	tokens = commonEnd(ids[0], ids[1])
	text = texts[0][len(texts[0])-len(commonEnd([]byte(texts[0]), []byte(texts[1]))):]
	mark := r.spelling(stop[0])
	end, at := slices.Index(tokens, stop[0]), strings.Index(text, mark)
	if end < 0 || at < 0 || len(tokens) == len(ids[0]) {
		return nil, "", badinput.Errorf("the model's chat template leaves out what the assistant said: no conversation can go on from it")
	}
	tokens, text = tokens[end:], text[at:]
	if ended {
		tokens, text = tokens[1:], text[len(mark):]
	}
	return slices.Clip(tokens), text, nil
}

// answered renders a conversation in which the assistant said that, and opens its next turn. Some templates want a tool's message to
// answer a call: there the assistant says it in calls.
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

// spelling is the text of a special token.
func (r *Renderer) spelling(id int32) string {
	special := r.tok.SpecialTokens()
	return special[slices.IndexFunc(special, func(s tokenizer.Special) bool { return s.ID == id })].Content
}

// commonEnd is the longest end that two lists share.
func commonEnd[T comparable](a, b []T) []T {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return a[len(a)-n:]
}
