package grammar

import (
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Vocabulary is a model's vocabulary as grammars need it: the tokens' bytes, in a trie. It is immutable and safe for
// concurrent use.
type Vocabulary struct {
	rows  int      // of the model's output; a mask has a bit for each
	texts []string // by ID; "" for an added token, or a row without a token
	ends  []int32
	added map[string]int32 // added tokens by content
	said  []int32          // those that a model may say in free text: not control tokens, not ends
	trie  trie
}

// NewVocabulary makes the vocabulary of a tokenizer and a model with that many rows. ends are the tokens that end a
// completion. Added tokens do not count as text: a grammar allows them only by name (Mark). Those of white space only are
// text, as Gemma writes line breaks with them.
func NewVocabulary(t *tokenizer.Tokenizer, rows int, ends []int32) (*Vocabulary, error) {
	v := &Vocabulary{rows: rows, texts: make([]string, rows), ends: slices.Clone(ends), added: map[string]int32{}}
	for id := range min(rows, t.VocabSize()) {
		v.texts[id], _ = t.Token(int32(id))
	}
	for _, s := range t.SpecialTokens() {
		if int(s.ID) >= rows || !s.Control && strings.TrimSpace(v.texts[s.ID]) == "" {
			continue
		}
		v.texts[s.ID] = ""
		v.added[s.Content] = s.ID
		if !s.Control && !slices.Contains(ends, s.ID) {
			v.said = append(v.said, s.ID)
		}
	}
	return v, v.finish()
}

// finish builds the trie, and refuses a vocabulary with which a grammar could get stuck.
func (v *Vocabulary) finish() error {
	if len(v.ends) == 0 {
		return badinput.Errorf("no token ends a completion, so a constrained one could not end; set eos_token_id in config.json")
	}
	for _, id := range v.ends {
		if id < 0 || int(id) >= v.rows {
			return badinput.Errorf("end token %d is not one of the model's %d", id, v.rows)
		}
		v.texts[id] = ""
	}
	var single [256]bool
	for _, text := range v.texts {
		if len(text) == 1 {
			single[text[0]] = true
		}
	}
	for b := range single {
		if utf := b < 0xC0 || b > 0xC1 && b < 0xF5; utf && !single[b] {
			return badinput.Errorf("the tokenizer has no token for the byte 0x%02X alone, so not every text can be spelled", b)
		}
	}
	v.trie = newTrie(v.texts)
	return nil
}

// words is the length of a mask in 32-bit words.
func (v *Vocabulary) words() int { return (v.rows + 31) / 32 }

func set(mask []uint32, token int32) { mask[token/32] |= 1 << (token % 32) }
