package gguf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
)

// The numbers of the kinds of tokens.
const (
	normalToken  = 1
	unknownToken = 2
	controlToken = 3
	userToken    = 4
	unusedToken  = 5
	byteToken    = 6
)

// tokenizerFile is the part of tokenizer.json that is exported.
type tokenizerFile struct {
	Added []struct {
		ID      int32
		Content string
		Special bool
	} `json:"added_tokens"`
	Normalizer *tokenizerStep
	Pre        *tokenizerStep `json:"pre_tokenizer"`
	Post       *tokenizerStep `json:"post_processor"`
	Model      struct {
		Unknown      *string `json:"unk_token"`
		ByteFallback bool    `json:"byte_fallback"`
		IgnoreMerges bool    `json:"ignore_merges"`
		Vocab        map[string]int32
		Merges       []merge
	}
}

// merge is a pair of tokens, in the file as "a b" or ["a","b"].
type merge [2]string

func (m *merge) UnmarshalJSON(text []byte) error {
	var both string
	if json.Unmarshal(text, (*[2]string)(m)) == nil {
		return nil
	}
	err := json.Unmarshal(text, &both)
	m[0], m[1], _ = strings.Cut(both, " ")
	return err
}

// vocabulary are the keys of a model's tokenizer and chat template; none if it has none.
func vocabulary(dir string, cfg model.Config) (pairs []Pair, notes []string, err error) {
	path := filepath.Join(dir, "tokenizer.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []Pair{{"tokenizer.ggml.model", "none"}}, []string{"the model has no tokenizer.json, and the file no tokenizer"}, nil
	}
	if err != nil {
		return nil, nil, badinput.Errorf("%w", err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, nil, err
	}
	var w tokenizerFile
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, nil, badinput.Errorf("%s: %w", path, err)
	}
	if n := tok.VocabSize(); n > cfg.Vocab {
		return nil, nil, badinput.Errorf("%s: it has %d tokens, the model's vocab_size is %d; type --format safetensors", path, n, cfg.Vocab)
	}
	pairs = append(pairs, Pair{"tokenizer.ggml.model", w.kind()})
	if pre, err := w.preTokenizer(); err != nil {
		return nil, nil, badinput.Errorf("%s: %w", path, err)
	} else if pre != "" {
		pairs = append(pairs, Pair{"tokenizer.ggml.pre", pre})
	}
	pairs = append(pairs, w.tokens(cfg.Vocab)...)
	special, err := w.special(dir, tok)
	if err != nil {
		return nil, nil, err
	}
	pairs = append(pairs, special...)
	if t := tok.ChatTemplate(); t != "" {
		pairs = append(pairs, Pair{"tokenizer.chat_template", t})
	} else {
		notes = append(notes, "the model has no chat template")
	}
	if t := tok.ToolTemplate(); t != "" {
		pairs = append(pairs, Pair{"tokenizer.chat_template.tool_use", t})
	}
	return pairs, notes, nil
}

// kind is the format's name of the tokenizer: byte-level, or SentencePiece.
func (w *tokenizerFile) kind() string {
	if w.Model.ByteFallback {
		return "llama"
	}
	return "gpt2"
}

// tokens are the keys of the vocabulary: strings, kinds, and merges or scores.
func (w *tokenizerFile) tokens(size int) []Pair {
	texts, kinds := w.padding(size), make([]int32, size)
	for i := range kinds {
		kinds[i] = unusedToken
	}
	for text, id := range w.Model.Vocab {
		texts[id], kinds[id] = text, normalToken
		switch {
		case w.Model.Unknown != nil && text == *w.Model.Unknown:
			kinds[id] = unknownToken
		case w.Model.ByteFallback && len(text) == 6 && strings.HasPrefix(text, "<0x") && text[5] == '>':
			kinds[id] = byteToken
		}
	}
	for _, a := range w.Added {
		switch {
		case kinds[a.ID] == unknownToken:
		case a.Special:
			texts[a.ID], kinds[a.ID] = a.Content, controlToken
		default:
			texts[a.ID], kinds[a.ID] = strings.ReplaceAll(a.Content, "▁", " "), userToken
			if !w.Model.ByteFallback {
				texts[a.ID] = a.Content
			}
		}
	}
	pairs := []Pair{{"tokenizer.ggml.tokens", texts}, {"tokenizer.ggml.token_type", kinds}}
	if w.Model.ByteFallback {
		return append(pairs, Pair{"tokenizer.ggml.scores", w.scores(size)}, Pair{"tokenizer.ggml.add_space_prefix", w.prefixed()})
	}
	merges := make([]string, len(w.Model.Merges))
	for i, m := range w.Model.Merges {
		merges[i] = m[0] + " " + m[1]
	}
	return append(pairs, Pair{"tokenizer.ggml.merges", merges})
}

// padding are names for rows of the embedding without a token. They are unique, as readers refuse duplicate tokens.
func (w *tokenizerFile) padding(size int) []string {
	taken := map[string]bool{}
	for text := range w.Model.Vocab {
		taken[text] = true
	}
	for _, a := range w.Added {
		taken[a.Content] = true
	}
	texts := make([]string, size)
	for i := range texts {
		for texts[i] = fmt.Sprintf("[PAD%d]", i); taken[texts[i]]; {
			texts[i] = "[" + texts[i] + "]"
		}
	}
	return texts
}

// scores order the merges for readers: the token of the first merge has the highest score, tokens that no merge makes the lowest.
func (w *tokenizerFile) scores(size int) []float32 {
	scores := make([]float32, size)
	for i := range scores {
		scores[i] = float32(-len(w.Model.Merges) - 1)
	}
	for rank := len(w.Model.Merges) - 1; rank >= 0; rank-- {
		if id, ok := w.Model.Vocab[w.Model.Merges[rank][0]+w.Model.Merges[rank][1]]; ok {
			scores[id] = float32(-rank)
		}
	}
	return scores
}

// special are the keys of the begin and end tokens.
func (w *tokenizerFile) special(dir string, tok *tokenizer.Tokenizer) (pairs []Pair, err error) {
	parts := tok.Parts()
	ids := map[string]int32{}
	for part, key := range map[string]string{"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"} {
		if id, ok := tok.TokenID(parts[part]); ok && parts[part] != "" {
			ids[key] = id
		}
	}
	var turnEnd []int32
	if r, err := chat.ForModel(tok, chat.Options{}); err == nil {
		turnEnd = r.Stop()
	}
	stops, err := tokenizer.StopTokens(dir, tok, turnEnd...)
	if err != nil {
		return nil, err
	}
	if _, ok := ids["eos"]; !ok && len(stops) > 0 {
		ids["eos"] = stops[0]
	}
	for _, id := range append(turnEnd, stops...) {
		if _, ok := ids["eot"]; !ok && id != ids["eos"] {
			ids["eot"] = id
		}
	}
	for _, key := range []string{"bos", "eos", "eot", "unknown", "padding"} {
		if id, ok := ids[key]; ok {
			pairs = append(pairs, Pair{"tokenizer.ggml." + key + "_token_id", uint32(id)})
		}
	}
	_, begins := ids["bos"]
	return append(pairs, Pair{"tokenizer.ggml.add_bos_token", begins && w.Post.begins()}, Pair{"tokenizer.ggml.add_eos_token", false}), nil
}
