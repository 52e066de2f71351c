package chat

import (
	"slices"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// Short dialogues tell what a template does. One that refuses them has no turn end that we know of, and
// is not relied on to extend.

// turnEnd finds the control token that a template puts after an answer: the first behind where two answers differ.
func (r *Renderer) turnEnd() []int32 {
	var texts [2]string
	for i, answer := range []string{"b", "c"} {
		var err error
		_, texts[i], err = r.Conversation([]Message{{Role: roleUser, Content: "a"}, {Role: roleAnswerer, Content: answer}})
		if err != nil {
			return nil
		}
	}
	for at := range min(len(texts[0]), len(texts[1])) {
		if texts[0][at] != texts[1][at] {
			return r.firstControl(texts[0][at:])
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

// keepsThePast renders the beginnings of a dialogue with thoughts, which some templates drop later.
func (r *Renderer) keepsThePast() bool {
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
