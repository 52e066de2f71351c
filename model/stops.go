package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// StopTokens are the tokens that end a completion according to config.json and
// generation_config.json of the model in dir; the latter need not be there.
func StopTokens(dir string) ([]int32, error) {
	var all []int32
	for _, name := range []string{"config.json", "generation_config.json"} {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ids, err := parseStopTokens(text)
		if err != nil {
			return nil, badinput.Errorf("%s: %w", path, err)
		}
		all = append(all, ids...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// parseStopTokens reads eos_token_id, a number, a list of numbers, or null.
func parseStopTokens(text []byte) ([]int32, error) {
	var c struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	if isNull(c.EOS) {
		return nil, nil
	}
	var many []int32
	if err := json.Unmarshal(c.EOS, &many); err == nil {
		return many, nil
	}
	var one int32
	if err := json.Unmarshal(c.EOS, &one); err != nil {
		return nil, badinput.Errorf("eos_token_id: found %s, expected a token id or a list of them", c.EOS)
	}
	return []int32{one}, nil
}
