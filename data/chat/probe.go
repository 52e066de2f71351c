package chat

import (
	"slices"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// The functions below render short dialogues to learn what a template does. A template that refuses them
// has no known turn end and counts as one that does not extend.

// turnEnd finds the control token that a template puts after an answer: the first one after the place where the renderings of two
// answers differ. If the template leaves out the answer, it compares an answer with a prompt instead.
func (r *Renderer) turnEnd() []int32 {
	asked := Message{Role: roleUser, Content: "a"}
	_, text, err1 := r.Conversation([]Message{asked, {Role: roleAnswerer, Content: "b"}})
	_, other, err2 := r.Conversation([]Message{asked, {Role: roleAnswerer, Content: "c"}})
	if text == other {
		_, other, err2 = r.Prompt([]Message{asked})
	}
	if err1 != nil || err2 != nil {
		return nil
	}
	for at := range text {
		if at >= len(other) || other[at] != text[at] {
			return r.firstControl(text[at:])
		}
	}
	return nil
}

func (r *Renderer) firstControl(text string) []int32 {
	special := r.tok.SpecialTokens()
	for _, id := range r.tok.EncodeSpecial(text) {
		if slices.ContainsFunc(special, func(s tokenizer.Special) bool { return s.ID == id && s.Control }) {
			return []int32{id}
		}
	}
	return nil
}

// keepsHistory checks Extends with a dialogue that has thoughts, which some templates drop in later turns.
func (r *Renderer) keepsHistory() bool {
	thought := "<think>\na\n</think>\n\nb"
	dialogue := []Message{
		{Role: roleUser, Content: "a"}, {Role: roleAnswerer, Content: thought},
		{Role: roleUser, Content: "c"}, {Role: roleAnswerer, Content: thought}, {Role: roleUser, Content: "d"},
	}
	var last []int32
	for n := 1; n <= len(dialogue); n++ {
		ids, _, err := r.Conversation(dialogue[:n])
		if err != nil || len(ids) < len(last) || !slices.Equal(ids[:len(last)], last) {
			return false
		}
		last = ids
	}
	return true
}
