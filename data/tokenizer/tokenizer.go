// Package tokenizer turns text into the token ids of a language model and back, for the byte-level
// BPE family (Qwen, Llama 3, GPT-2) and for BPE over characters with byte fallback (Gemma). It reads
// a Hugging Face tokenizer.json with the files beside it, trains a small one of the first kind, and
// writes it in the same format.
//
// Text and special tokens never mix. Encode treats every character as the user's: "<|im_end|>" in a
// prompt becomes the ordinary tokens that spell it. A special token stands only where the caller puts
// its id (TokenID) between two calls of AppendText. EncodeSpecial recognises special tokens in a text, as
// Hugging Face's tokenizer does by default; it is for text that the caller wrote.
//
// Of github.com/sugarme/tokenizer the package uses only the alphabet of byte characters and the types of a
// configuration: for real Qwen files its pipeline gives other ids than Hugging Face's, and it is a hundred
// times too slow. So normalizer, pre-tokenizer, model and added tokens are implemented here, and Upstream
// offers them behind the interfaces of that library. The tests document each fault that this works around.
//
// The package does not know about roles and turns (see data/chat), and it adds nothing to a text: no
// token at the start or the end (post_processor), no padding, no truncation, no cleaned-up spaces.
package tokenizer

import (
	"maps"
	"slices"
)

// Tokenizer encodes and decodes. It does not change after Load: any number of goroutines may use one.
type Tokenizer struct {
	bpe       *bpe
	split     splitter
	normalize func(string) string // nil: no normalization
	prefix    dummyPrefix
	spelling  *spelling

	tokens  []string         // the bytes of each id; "" where no token has that id
	leading map[int32]string // the text of those ids that have another at the start of a text
	added   map[string]int32 // added tokens by content
	control map[int32]bool   // added tokens by id; true for control tokens
	raw     *matcher         // finds added tokens that are matched before normalization
	normal  *matcher         // finds those that are matched after normalization
	written *matcher         // finds the tokens of normal in text that is not normalized, where EncodeQuoting needs them

	eos          []int32
	chatTemplate string
	toolTemplate string
	templates    []string
	roles        map[string]string
}

// Special is an added token.
type Special struct {
	ID      int32
	Content string
	// Control tokens structure a conversation (<|im_end|>) and can be left out by Decode; the others are
	// part of what is said (<think>).
	Control bool
}

// VocabSize is the highest id plus one. The embedding of the model may have more rows.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// TokenID looks up an added token by its content, or an ordinary one as tokenizer.json writes it, with
// Ġ for a space.
func (t *Tokenizer) TokenID(name string) (int32, bool) {
	if id, ok := t.added[name]; ok {
		return id, true
	}
	text, ok := t.spelling.pieceForm(nil, name)
	if !ok {
		return 0, false
	}
	id, ok := t.bpe.vocab[string(text)]
	return id, ok
}

// Token returns the bytes of an id, which need not be whole characters.
func (t *Tokenizer) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.tokens) || t.tokens[id] == "" {
		return "", false
	}
	return t.tokens[id], true
}

// SpecialTokens lists the added tokens by id.
func (t *Tokenizer) SpecialTokens() []Special {
	list := make([]Special, 0, len(t.added))
	for content, id := range t.added {
		list = append(list, Special{ID: id, Content: content, Control: t.control[id]})
	}
	slices.SortFunc(list, func(a, b Special) int { return int(a.ID - b.ID) })
	return list
}

// EOS lists the ids that end a text: eos_token of tokenizer_config.json, then eos_token_id of
// generation_config.json.
func (t *Tokenizer) EOS() []int32 { return slices.Clone(t.eos) }

// ChatTemplate is the model's Jinja chat template, or "".
func (t *Tokenizer) ChatTemplate() string { return t.chatTemplate }

// ToolTemplate is the separate chat template for conversations with tools, or "".
func (t *Tokenizer) ToolTemplate() string { return t.toolTemplate }

// Templates are the names of all chat templates of the model: default, tool_use, and others, which are unused.
func (t *Tokenizer) Templates() []string { return slices.Clone(t.templates) }

// Parts returns the tokens with a role by its name: bos_token, eos_token, pad_token and so on.
func (t *Tokenizer) Parts() map[string]string { return maps.Clone(t.roles) }

// WithChatTemplate returns a copy of the tokenizer with another chat template.
func (t *Tokenizer) WithChatTemplate(template string) *Tokenizer {
	other := *t
	other.chatTemplate, other.toolTemplate, other.templates = template, "", nil
	return &other
}
