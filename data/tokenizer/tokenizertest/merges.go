package tokenizertest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
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
	out := bytes.NewBuffer(bytes.TrimSuffix(bytes.TrimSpace(text), []byte("]}}")))
	for _, m := range file.Model.Merges {
		var both string
		if err := json.Unmarshal(m, &both); err != nil {
			return err
		}
		at := bytes.IndexByte([]byte(both), ' ')
		done[both[:at]+both[at+1:]] = true
	}
	for n, token := range tokens {
		if done[token] {
			continue
		}
		var splits []split
		for at := 1; at < len(token); at++ {
			if !utf8.RuneStart(token[at]) {
				continue
			}
			left, ok := vocab[token[:at]]
			right, ok2 := vocab[token[at:]]
			if ok && ok2 {
				splits = append(splits, split{left, right, at})
			}
		}
		order(splits)
		for _, s := range splits {
			if out.Bytes()[out.Len()-1] != '[' {
				out.WriteByte(',')
			}
			pair, err := json.Marshal(tokens[n][:s.at] + " " + tokens[n][s.at:])
			if err != nil {
				return err
			}
			out.Write(pair)
		}
	}
	out.WriteString("]}}")
	return os.WriteFile(path, out.Bytes(), 0o644)
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
