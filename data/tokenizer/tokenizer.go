// Package tokenizer turns text into the token ids of a language model and back, for the byte-level
// BPE family (Qwen, Llama 3, GPT-2) and for BPE over characters with byte fallback (Gemma). It reads
// a Hugging Face tokenizer.json with the files beside it, trains a small one of the first kind, and
// writes it in the same format.
//
// Text and special tokens never mix. Encode treats every character as the user's: "<|im_end|>" in a
// prompt becomes the ordinary tokens that spell it. A special token stands only where the caller puts
// its id (TokenID) between two calls of AppendText. EncodeSpecial alone reads special tokens out of a
// text, as Hugging Face's tokenizer does by default; it is for text that the caller wrote.
//
// The work is done by parts of our own. Of github.com/sugarme/tokenizer the alphabet of byte
// characters and the types of a configuration serve as they are; its pipeline gives other ids than
// Hugging Face's for real Qwen files and is a hundred times too slow. So normalizer, pre-tokenizer,
// model and added tokens are replaced here, and Upstream puts the replacements behind its interfaces.
// The tests hold each fault that a replacement works around.
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
	normalize func(string) string // nil: text is taken as it comes
	opening   opening
	spelling  *spelling

	tokens  []string         // the bytes of each id; "" where no token has that id
	leading map[int32]string // those of some ids that begin a text
	added   map[string]int32 // added tokens by content
	control map[int32]bool   // added tokens by id; true for control tokens
	raw     *matcher         // finds added tokens in the text as it comes
	normal  *matcher         // finds those that are looked for after normalization
	written *matcher         // finds the same before it: with the spaces that normalization writes otherwise

	eos          []int32
	chatTemplate string
	toolTemplate string
	templates    []string
	parts        map[string]string
}

// Special is a token that stands for no ordinary text.
type Special struct {
	ID      int32
	Content string
	// Control tells tokens that structure a conversation (<|im_end|>), which Decode can leave out,
	// from those that are part of what is said (<think>).
	Control bool
}

// VocabSize is one more than the highest id. The model's embedding may have more rows.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// TokenID finds an added token by its content, or an ordinary one as tokenizer.json writes it, with
// Ġ for a space.
func (t *Tokenizer) TokenID(name string) (int32, bool) {
	if id, ok := t.added[name]; ok {
		return id, true
	}
	text, ok := t.spelling.find(nil, name)
	if !ok {
		return 0, false
	}
	id, ok := t.bpe.vocab[string(text)]
	return id, ok
}

// Token gives the bytes of an id. They need not be whole characters.
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

// ToolTemplate is the one for conversations with tools, where the model has a template of its own for these, or "".
func (t *Tokenizer) ToolTemplate() string { return t.toolTemplate }

// Templates are the names of all chat templates of the model: default, tool_use, and those that nothing asks for.
func (t *Tokenizer) Templates() []string { return slices.Clone(t.templates) }

// Parts gives the tokens that have a part by its name: bos_token, eos_token, pad_token and so on.
func (t *Tokenizer) Parts() map[string]string { return maps.Clone(t.parts) }

// WithChatTemplate is the tokenizer with another chat template.
func (t *Tokenizer) WithChatTemplate(template string) *Tokenizer {
	other := *t
	other.chatTemplate, other.toolTemplate, other.templates = template, "", nil
	return &other
}
