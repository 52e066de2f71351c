package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// normalizer makes the function that normalizes a text before it is split; nil: none.
func (p *part) normalizer(field string) (func(string) string, error) {
	if p == nil {
		return nil, nil
	}
	switch p.Type {
	case "NFC":
		return nfc, nil
	case "Replace":
		old, new, err := p.replacement(field)
		if err != nil {
			return nil, err
		}
		return func(s string) string { return strings.ReplaceAll(s, old, new) }, nil
	case "Sequence":
		var all func(string) string
		for i := range p.Normalizers {
			next, err := p.Normalizers[i].normalizer(fmt.Sprintf("%s.normalizers[%d]", field, i))
			if err != nil {
				return nil, err
			}
			if first := all; first != nil && next != nil {
				all = func(s string) string { return next(first(s)) }
			} else if next != nil {
				all = next
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("%s.type: found %q, expected NFC, Replace, a Sequence of them with Prepend as the first, or null", field, p.Type)
}

// replacement reads a Replace of one text by another.
func (p *part) replacement(field string) (old, new string, err error) {
	if p.Pattern == nil || p.Pattern.String == "" {
		return "", "", fmt.Errorf("%s.pattern.String: missing; expected the text that is replaced", field)
	}
	if p.Content == nil {
		return "", "", fmt.Errorf("%s.content: missing; expected the text that stands in its place", field)
	}
	return p.Pattern.String, *p.Content, nil
}

func (p *part) splitter(field string) (splitter, error) {
	switch p.Type {
	case "ByteLevel":
		return p.byteLevel(field)
	case "Digits":
		if p.IndividualDigits {
			return newSplitter(`\p{N}`)
		}
		return newSplitter(`\p{N}+`)
	case "Split":
		return p.patternSplitter(field)
	case "Sequence":
		return p.sequence(field)
	}
	return nil, fmt.Errorf("%s.type: found %q, expected ByteLevel, Split, Digits, a Sequence of them, or Metaspace", field, p.Type)
}

func (p *part) patternSplitter(field string) (splitter, error) {
	if p.Pattern == nil || p.Pattern.Regex == "" && p.Pattern.String == "" {
		return nil, fmt.Errorf("%s.pattern.Regex: missing; expected a regular expression", field)
	}
	invert := p.Invert != nil && *p.Invert
	if text := p.Pattern.String; text != "" && p.Behavior == "MergedWithPrevious" && !invert {
		return func(s string, emit func(string)) {
			for piece := range strings.SplitAfterSeq(s, text) {
				if piece != "" {
					emit(piece)
				}
			}
		}, nil
	}
	if p.Behavior != "Isolated" || invert || p.Pattern.Regex == "" {
		return nil, fmt.Errorf("%s: found behavior %q, invert %t; expected Isolated, false for a regular expression, "+
			"and MergedWithPrevious, false for a text", field, p.Behavior, invert)
	}
	s, err := newSplitter(p.Pattern.Regex)
	if err != nil {
		return nil, fmt.Errorf("%s.pattern.Regex: %s", field, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return s, nil
}

// byteLevel splits by the pattern of GPT-2, unless use_regex is false. It need not write the bytes of pieces
// in the alphabet, as Hugging Face's ByteLevel does, because pieces stay bytes in this package.
func (p *part) byteLevel(field string) (splitter, error) {
	if p.AddPrefixSpace == nil || *p.AddPrefixSpace {
		return nil, fmt.Errorf("%s.add_prefix_space: expected false: no space is put before a text", field)
	}
	if p.UseRegex != nil && !*p.UseRegex {
		return func(text string, emit func(string)) { emit(text) }, nil
	}
	return newSplitter(gpt2Pattern)
}

// spellsBytes reports whether the pre-tokenizer writes pieces in the byte alphabet.
func (p *part) spellsBytes() bool {
	return p.Type == "ByteLevel" || p.Type == "Sequence" && slices.ContainsFunc(p.PreTokenizers, func(c part) bool { return c.spellsBytes() })
}

func (p *part) sequence(field string) (splitter, error) {
	var all splitter
	for i := range p.PreTokenizers {
		child := &p.PreTokenizers[i]
		s, err := child.splitter(fmt.Sprintf("%s.pretokenizers[%d]", field, i))
		switch {
		case err != nil:
			return nil, err
		case child.Type == "ByteLevel" && i < len(p.PreTokenizers)-1:
			return nil, fmt.Errorf("%s.pretokenizers[%d]: ByteLevel must be the last of the sequence", field, i)
		case all == nil:
			all = s
		case child.UseRegex == nil || *child.UseRegex:
			all = chain(all, s)
		}
	}
	if all == nil || p.PreTokenizers[len(p.PreTokenizers)-1].Type != "ByteLevel" {
		return nil, fmt.Errorf("%s.pretokenizers: expected ByteLevel as the last of the sequence", field)
	}
	return all, nil
}
