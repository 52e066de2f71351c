package tokenizertest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// split is a token as two tokens, by id and as JSON texts.
type split struct {
	left, right int
	at          int // bytes of the left one
}

// byParts and longestFirst are the orders that the converters of Llama and Gemma wrote the splits of one token in.
func byParts(splits []split) {
	slices.SortFunc(splits, func(a, b split) int {
		if a.left != b.left {
			return a.left - b.left
		}
		return a.right - b.right
	})
}

func longestFirst(splits []split) { slices.Reverse(splits) }

// addMerges writes out model.merges, the end of a tokenizer.json in which all but the first are left out: token by
// token as they stand in the vocabulary, all ways to split each into two, but for those that the first ones make.
func addMerges(path string, order func([]split)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file struct {
		Model struct {
			Vocab  map[string]int
			Merges []json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	vocab := file.Model.Vocab
	tokens := make([]string, len(vocab))
	for token, id := range vocab {
		tokens[id] = token
	}
	done := map[string]bool{}
	out := bytes.NewBuffer(make([]byte, 0, 4*len(text)))
	out.Write(bytes.TrimSuffix(bytes.TrimSpace(text), []byte("]}}")))
	for _, m := range file.Model.Merges {
		var both string
		if err := json.Unmarshal(m, &both); err != nil {
			return err
		}
		left, right, _ := strings.Cut(both, " ")
		done[left+right] = true
	}
	var splits []split
	for _, token := range tokens {
		if done[token] {
			continue
		}
		splits = appendSplits(splits[:0], token, vocab)
		order(splits)
		for _, s := range splits {
			if err := writeMerge(out, token[:s.at]+" "+token[s.at:]); err != nil {
				return err
			}
		}
	}
	out.WriteString("]}}")
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func appendSplits(splits []split, token string, vocab map[string]int) []split {
	for at := 1; at < len(token); at++ {
		if !utf8.RuneStart(token[at]) {
			continue
		}
		if left, ok := vocab[token[:at]]; ok {
			if right, ok := vocab[token[at:]]; ok {
				splits = append(splits, split{left, right, at})
			}
		}
	}
	return splits
}

// writeMerge writes an item of the list that out ends with.
func writeMerge(out *bytes.Buffer, pair string) error {
	if out.Bytes()[out.Len()-1] != '[' {
		out.WriteByte(',')
	}
	if !strings.ContainsFunc(pair, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
		out.WriteString(`"` + pair + `"`)
		return nil
	}
	text, err := json.Marshal(pair)
	out.Write(text)
	return err
}

// fromQwen3 makes Qwen2.5's tokenizer.json in dir, which is Qwen3's but for its added tokens.
func fromQwen3(scratch, dir string) error {
	from, err := unpack(scratch, "qwen3")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(from, "tokenizer.json"))
	if err != nil {
		return err
	}
	added, err := os.ReadFile(filepath.Join(dir, "added_tokens.json"))
	if err != nil {
		return err
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	file["added_tokens"] = added
	if text, err = json.Marshal(file); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o644)
}
