package tokenizer

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// StopTokens are the distinct tokens that end a completion of the model in dir: eos_token_id of
// config.json and of generation_config.json, in ascending order, then the EOS tokens of t, then turnEnd, the
// tokens that end a turn of the chat format. A file may be absent; t is nil if the model has no tokenizer.
// If config.json has a vocab_size, a token outside it is an error that names its origin, because the model
// cannot generate it.
func StopTokens(dir string, t *Tokenizer, turnEnd ...int32) ([]int32, error) {
	var stops []int32
	var shape struct {
		Vocab int32 `json:"vocab_size"`
	}
	path := filepath.Join(dir, "config.json")
	if err := readJSON(path, &shape); err != nil {
		return nil, err
	}
	for _, name := range []string{"config.json", "generation_config.json"} {
		ids, err := readEOSTokenID(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if id, ok := beyond(ids, shape.Vocab); ok {
			return nil, badinput.Errorf("%s: eos_token_id: found %d, but vocab_size in %s is %d", filepath.Join(dir, name), id, path, shape.Vocab)
		}
		stops = appendNew(stops, ids)
	}
	slices.Sort(stops)
	if t != nil {
		stops = appendNew(stops, t.eos)
	}
	stops = appendNew(stops, turnEnd)
	if id, ok := beyond(stops, shape.Vocab); ok {
		return nil, badinput.Errorf("%s: token %d ends a completion, but vocab_size in %s is %d: the tokenizer is of another model",
			filepath.Join(dir, "tokenizer.json"), id, path, shape.Vocab)
	}
	return stops, nil
}

// beyond returns the first id outside a vocabulary of the given size; size 0: unknown, every id is inside.
func beyond(ids []int32, size int32) (int32, bool) {
	for _, id := range ids {
		if size > 0 && id >= size {
			return id, true
		}
	}
	return 0, false
}

// readEOSTokenID reads eos_token_id from a JSON file, which may be absent.
func readEOSTokenID(path string) ([]int32, error) {
	var c struct {
		EOSTokenID json.RawMessage `json:"eos_token_id"`
	}
	if err := readJSON(path, &c); err != nil {
		return nil, err
	}
	ids, err := parseEOSTokenID(c.EOSTokenID)
	if err != nil {
		return nil, badinput.Errorf("%s: eos_token_id: %w", path, err)
	}
	return ids, nil
}

// parseEOSTokenID reads a token id, a list of ids, or null.
func parseEOSTokenID(text json.RawMessage) ([]int32, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var ids []int32
	if json.Unmarshal(text, &ids) != nil {
		ids = make([]int32, 1)
		if json.Unmarshal(text, &ids[0]) != nil {
			return nil, badinput.Errorf("found %s, expected a token id or a list of them", text)
		}
	}
	for _, id := range ids {
		if id < 0 || id >= maxIDs {
			return nil, badinput.Errorf("found %d, expected an id of the vocabulary", id)
		}
	}
	return ids, nil
}

// appendNew appends the ids that are not in the list yet.
func appendNew(list, ids []int32) []int32 {
	for _, id := range ids {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}
