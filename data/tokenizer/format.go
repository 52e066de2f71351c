package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	upstream "github.com/sugarme/tokenizer"
)

// file is tokenizer.json, as far as this package reads and writes it.
type file struct {
	Version       string                 `json:"version"`
	Truncation    json.RawMessage        `json:"truncation"`
	Padding       json.RawMessage        `json:"padding"`
	AddedTokens   []upstream.TokenConfig `json:"added_tokens"`
	Normalizer    *part                  `json:"normalizer"`
	PreTokenizer  *part                  `json:"pre_tokenizer"`
	PostProcessor json.RawMessage        `json:"post_processor"`
	Decoder       *part                  `json:"decoder"`
	Model         *model                 `json:"model"`
}

// part is a normalizer, a pre-tokenizer or a decoder: the union of the fields of all types.
type part struct {
	Type             string   `json:"type"`
	Normalizers      []part   `json:"normalizers,omitempty"`   // Sequence
	PreTokenizers    []part   `json:"pretokenizers,omitempty"` // Sequence
	Decoders         []part   `json:"decoders,omitempty"`      // Sequence
	Pattern          *pattern `json:"pattern,omitempty"`       // Split, Replace
	Content          *string  `json:"content,omitempty"`       // Replace, Strip
	Behavior         string   `json:"behavior,omitempty"`      // Split
	Invert           *bool    `json:"invert,omitempty"`        // Split
	IndividualDigits bool     `json:"individual_digits,omitempty"`
	AddPrefixSpace   *bool    `json:"add_prefix_space,omitempty"` // ByteLevel
	TrimOffsets      *bool    `json:"trim_offsets,omitempty"`     // ByteLevel
	UseRegex         *bool    `json:"use_regex,omitempty"`        // ByteLevel; absent means true
	Prepend          string   `json:"prepend,omitempty"`          // Prepend
	Replacement      string   `json:"replacement,omitempty"`      // Metaspace
	PrependScheme    string   `json:"prepend_scheme,omitempty"`   // Metaspace
	Split            *bool    `json:"split,omitempty"`            // Metaspace; absent means true
	Start            int      `json:"start,omitempty"`            // Strip
	Stop             int      `json:"stop,omitempty"`             // Strip
}

// pattern has one of its two fields.
type pattern struct {
	Regex  string `json:",omitempty"`
	String string `json:",omitempty"`
}

type model struct {
	Type                    string   `json:"type"`
	Dropout                 *float64 `json:"dropout"`
	UnkToken                *string  `json:"unk_token"`
	ContinuingSubwordPrefix *string  `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string  `json:"end_of_word_suffix"`
	FuseUnk                 bool     `json:"fuse_unk"`
	ByteFallback            bool     `json:"byte_fallback"`
	IgnoreMerges            bool     `json:"ignore_merges"`
	Vocab                   vocab    `json:"vocab"`
	Merges                  merges   `json:"merges"`
}

// vocab holds the entries of model.vocab in the order of the file, including repeated keys.
type vocab []entry

type entry struct {
	text string // bytes are written in the alphabet of byte characters
	id   int
}

// merges are the pairs of model.merges. A file has them as "a b" or as ["a","b"].
type merges [][2]string

// UnmarshalJSON reads the vocabulary in one pass: with 150,000 entries a map[string]int is slow, and it
// hides repeated keys.
func (v *vocab) UnmarshalJSON(data []byte) error {
	s := valueScanner{data: string(data)}
	if !s.open('{') {
		return errors.New(`model.vocab: expected an object of token texts and ids`)
	}
	for !s.close('}') {
		text, ok := s.text()
		if !ok {
			return fmt.Errorf("model.vocab: expected a token text at byte %d of the object", s.at)
		}
		s.skip(':')
		number := s.number()
		id, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("model.vocab: %q: expected a whole number as its id", text)
		}
		*v = append(*v, entry{text, id})
	}
	return nil
}

// UnmarshalJSON reads both forms of a merge.
func (m *merges) UnmarshalJSON(data []byte) error {
	s := valueScanner{data: string(data)}
	if !s.open('[') {
		return errors.New(`model.merges: expected a list of pairs`)
	}
	*m = merges{}
	for !s.close(']') {
		pair, ok := s.pair()
		if !ok {
			return fmt.Errorf(`model.merges[%d]: expected "a b" or ["a","b"]`, len(*m))
		}
		*m = append(*m, pair)
	}
	return nil
}

// valueScanner walks JSON text that encoding/json has already found valid. Strings without escapes are
// slices of data, not copies.
type valueScanner struct {
	data string
	at   int
}

func (s *valueScanner) peek() byte {
	for s.at < len(s.data) && strings.IndexByte(" \t\r\n,", s.data[s.at]) >= 0 {
		s.at++
	}
	if s.at == len(s.data) {
		return 0
	}
	return s.data[s.at]
}

func (s *valueScanner) skip(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *valueScanner) open(c byte) bool { return s.skip(c) }

// close also reports true at the end of data, so that a loop over it always ends.
func (s *valueScanner) close(c byte) bool { return s.peek() == 0 || s.skip(c) }

func (s *valueScanner) text() (string, bool) {
	if !s.skip('"') {
		return "", false
	}
	start, escaped := s.at, false
	for ; s.at < len(s.data) && s.data[s.at] != '"'; s.at++ {
		if s.data[s.at] == '\\' {
			escaped = true
			s.at++
		}
	}
	s.at++
	if !escaped {
		return s.data[start : s.at-1], true
	}
	var text string
	err := json.Unmarshal([]byte(s.data[start-1:s.at]), &text)
	return text, err == nil
}

func (s *valueScanner) number() string {
	s.peek()
	start := s.at
	for s.at < len(s.data) && strings.IndexByte("+-.0123456789eE", s.data[s.at]) >= 0 {
		s.at++
	}
	return s.data[start:s.at]
}

func (s *valueScanner) pair() (p [2]string, ok bool) {
	if s.skip('[') {
		left, ok1 := s.text()
		right, ok2 := s.text()
		return [2]string{left, right}, ok1 && ok2 && s.skip(']')
	}
	both, ok := s.text()
	if !ok {
		return p, false
	}
	left, right, ok := strings.Cut(both, " ")
	return [2]string{left, right}, ok && !strings.Contains(right, " ")
}

// MarshalJSON writes the vocabulary as an object in its own order.
func (v vocab) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, e := range v {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := marshal(e.text)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.WriteString(strconv.Itoa(e.id))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// MarshalJSON writes the form "a b", which every version of Hugging Face's reader accepts.
func (m merges) MarshalJSON() ([]byte, error) {
	list := make([]string, len(m))
	for i, pair := range m {
		list[i] = pair[0] + " " + pair[1]
	}
	return marshal(list)
}

// marshal is json.Marshal that leaves <, > and & as they are, so that special tokens stay readable.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
