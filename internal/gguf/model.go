package gguf

import (
	"context"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Model opens the file as a model; loading stops when ctx ends. Quantised blocks become f32.
func (f *File) Model(ctx context.Context, b kernels.Backend, o model.Options) (*model.Policy, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, err
	}
	set, err := f.Set()
	if err != nil {
		return nil, err
	}
	set.SetContext(ctx)
	return model.OpenSet(b, cfg, set, false, o)
}

// Text decodes tokens, by the vocabulary in the file.
func (f *File) Text(tokens []int32) (string, error) {
	texts, _ := f.pairs["tokenizer.ggml.tokens"].([]string)
	kinds, _ := f.pairs["tokenizer.ggml.token_type"].([]float64)
	if len(texts) == 0 || len(texts) != len(kinds) {
		return "", badinput.Errorf("%s: tokenizer.ggml.tokens and token_type: found %d and %d, expected as many of both",
			f.Path, len(texts), len(kinds))
	}
	fromBytes := f.pairs["tokenizer.ggml.model"] == "gpt2"
	var out []byte
	for i, t := range tokens {
		if t < 0 || int(t) >= len(texts) {
			return "", badinput.Errorf("%s: there is no token %d", f.Path, t)
		}
		text, kind := texts[t], int(kinds[t])
		switch {
		case kind == unusedToken: // a row of the embedding without a token
		case kind == controlToken || kind == userToken:
			out = append(out, text...)
		case kind == byteToken:
			b, err := strconv.ParseUint(strings.Trim(text, "<>"), 0, 8)
			if err != nil {
				return "", badinput.Errorf("%s: token %d: %w", f.Path, t, err)
			}
			out = append(out, byte(b))
		case fromBytes:
			for _, r := range text {
				b, ok := byteOf[r]
				if !ok {
					return "", badinput.Errorf("%s: token %d: %q is no byte", f.Path, t, r)
				}
				out = append(out, b)
			}
		default:
			text = strings.ReplaceAll(text, "▁", " ")
			if prefixed, _ := f.pairs["tokenizer.ggml.add_space_prefix"].(bool); i == 0 && prefixed {
				text = strings.TrimPrefix(text, " ")
			}
			out = append(out, text...)
		}
	}
	return tokenizer.ValidText(string(out)), nil
}

// byteOf maps the characters by which byte-level vocabularies write bytes: printable ones stand for themselves, the others
// are characters from 256 on.
var byteOf = func() map[rune]byte {
	seen := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b != 0xAD }
	all, next := map[rune]byte{}, rune(256)
	for b := range 256 {
		if seen(b) {
			all[rune(b)] = byte(b)
			continue
		}
		all[next] = byte(b)
		next++
	}
	return all
}()
