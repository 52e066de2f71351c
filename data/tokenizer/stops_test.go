package tokenizer

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestEOSTokenIDForms(t *testing.T) {
	for text, want := range map[string][]int32{"": nil, "null": nil, "5": {5}, "[7,9,7]": {7, 9, 7}, "[]": nil} {
		if got, err := parseEOSTokenID([]byte(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, expected %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`"x"`:        `found "x", expected a token id or a list of them`,
		"[1.5]":      "found [1.5], expected a token id or a list of them",
		"4294967296": "found 4294967296, expected a token id or a list of them",
		"[-1]":       "found -1, expected an id of the vocabulary",
	} {
		if _, err := parseEOSTokenID([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, expected %s", text, err, want)
		}
	}
}

func FuzzEOSTokenID(f *testing.F) {
	f.Add([]byte("[1,2]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ids, _ := parseEOSTokenID(text)
		for _, id := range ids {
			if id < 0 || id >= maxIDs {
				t.Errorf("%s: id %d", text, id)
			}
		}
	})
}

// The stop tokens of config.json and generation_config.json come first, then the tokenizer's EOS and the end of a turn, none twice.
func TestStopTokens(t *testing.T) {
	dir, config := beside(t, "config.json", `{"eos_token_id":[9,5]}`)
	writeFile(t, filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id":[7,5]}`))
	writeFile(t, filepath.Join(dir, "tokenizer_config.json"), []byte(`{"eos_token":"<|endoftext|>"}`))
	tok, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		tok     *Tokenizer
		turnEnd []int32
		want    []int32
	}{
		{nil, nil, []int32{5, 7, 9}},
		{tok, nil, []int32{5, 7, 9, 379}},
		{tok, []int32{381, 9}, []int32{5, 7, 9, 379, 381}},
	} {
		if got, err := StopTokens(dir, tc.tok, tc.turnEnd...); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("got %v, %v, expected %v", got, err, tc.want)
		}
	}
	if got, err := StopTokens(t.TempDir(), nil); err != nil || len(got) > 0 {
		t.Errorf("without files: %v, %v", got, err)
	}
	writeFile(t, config, []byte(`{"eos_token_id":"x"}`))
	_, err = StopTokens(dir, tok)
	checkRefused(t, config, err, `eos_token_id: found "x", expected a token id or a list of them`)
}

// A stop token outside the model's vocabulary is an error that names the file with the token.
func TestStopTokensBeyondTheVocabulary(t *testing.T) {
	dir, config := beside(t, "config.json", `{"eos_token_id":9,"vocab_size":381}`)
	generation := writeFile(t, filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id":[380]}`))
	tok, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := StopTokens(dir, tok, 379); err != nil || !slices.Equal(got, []int32{9, 380, 379}) {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = StopTokens(dir, tok, 381)
	checkRefused(t, filepath.Join(dir, "tokenizer.json"), err, "token 381 ends a completion, but vocab_size in "+config+" is 381")
	writeFile(t, generation, []byte(`{"eos_token_id":[380,500]}`))
	_, err = StopTokens(dir, tok)
	checkRefused(t, generation, err, "eos_token_id: found 500, but vocab_size in "+config+" is 381")
	writeFile(t, config, []byte(`{"eos_token_id":381,"vocab_size":381}`))
	_, err = StopTokens(dir, tok)
	checkRefused(t, config, err, "eos_token_id: found 381")
}
