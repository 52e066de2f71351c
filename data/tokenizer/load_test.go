package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// object is a JSON object, such as tokenizer.json, in a form that tests can damage.
type object = map[string]any

func smallFile(t testing.TB) (text []byte, parsed object) {
	t.Helper()
	text, err := os.ReadFile("testdata/small/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	return text, parsed
}

// damaged are changes to a valid file, each with a text that the error must have.
var damaged = map[string]struct {
	change func(f object)
	want   string
}{
	"no model":           {func(f object) { delete(f, "model") }, "model: missing"},
	"another model":      {func(f object) { f["model"].(object)["type"] = "Unigram" }, `model.type: found "Unigram", expected BPE`},
	"dropout":            {func(f object) { f["model"].(object)["dropout"] = 0.1 }, "model.dropout: found 0.1"},
	"word suffix":        {func(f object) { f["model"].(object)["end_of_word_suffix"] = "</w>" }, "model.end_of_word_suffix"},
	"word prefix":        {func(f object) { f["model"].(object)["continuing_subword_prefix"] = "##" }, "model.continuing_subword_prefix"},
	"byte fallback":      {func(f object) { f["model"].(object)["byte_fallback"] = true }, "model.byte_fallback"},
	"no vocab":           {func(f object) { delete(f["model"].(object), "vocab") }, "model.vocab: missing"},
	"vocab a list":       {func(f object) { f["model"].(object)["vocab"] = []any{"a"} }, "model.vocab: expected an object"},
	"id not a number":    {func(f object) { vocabOf(f)["a"] = "x" }, `model.vocab: "a": expected a whole number`},
	"id a fraction":      {func(f object) { vocabOf(f)["a"] = 1.5 }, `model.vocab: "a": expected a whole number`},
	"id negative":        {func(f object) { vocabOf(f)["a"] = -1 }, `model.vocab: "a": found id -1`},
	"id huge":            {func(f object) { vocabOf(f)["a"] = 1 << 40 }, `model.vocab: "a": found id`},
	"id twice":           {func(f object) { vocabOf(f)["a"] = vocabOf(f)["b"] }, "both have id 65"},
	"empty token":        {func(f object) { vocabOf(f)[""] = 999 }, "model.vocab: an empty token has id 999"},
	"byte missing":       {func(f object) { delete(vocabOf(f), "Ġ") }, `no token for byte 0x20 ("Ġ")`},
	"no merges":          {func(f object) { delete(f["model"].(object), "merges") }, "model.merges: missing"},
	"merges an object":   {func(f object) { f["model"].(object)["merges"] = object{} }, "model.merges: expected a list"},
	"merge of one":       {setMerge("a"), "model.merges[0]: expected"},
	"merge of three":     {setMerge("a b c"), "model.merges[0]: expected"},
	"merge of numbers":   {setMerge([]any{1, 2}), "model.merges[0]: expected"},
	"merge unknown left": {setMerge("日 a"), `model.merges[0]: "日" is not in model.vocab`},
	"merge unknown":      {setMerge([]any{"a", "qq"}), `model.merges[0]: "qq" is not in model.vocab`},
	"merge to nothing":   {setMerge("q q"), `model.merges[0]: "qq" is not in model.vocab`},
	"merge twice":        {func(f object) { m := f["model"].(object)["merges"].([]any); m[5] = m[4] }, "model.merges[5]:"},
	"merge to special": {func(f object) {
		vocabOf(f)["<|endoftext|>"] = 379
		vocabOf(f)["<|"] = 990
		vocabOf(f)["endoftext|>"] = 991
		setMerge("<| endoftext|>")(f)
	}, "makes the special token"},
	"no pre-tokenizer": {func(f object) { f["pre_tokenizer"] = nil }, "pre_tokenizer: missing"},
	"unknown type": {func(f object) { f["pre_tokenizer"].(object)["type"] = "CharDelimiterSplit" },
		`pre_tokenizer.type: found "CharDelimiterSplit"`},
	"unknown child": {func(f object) { child(f, 0)["type"] = "Whitespace" }, `pre_tokenizer.pretokenizers[0].type: found "Whitespace"`},
	"bad pattern":   {func(f object) { child(f, 0)["pattern"] = object{"Regex": "("} }, "pre_tokenizer.pretokenizers[0].pattern.Regex:"},
	"endless pattern": {func(f object) { child(f, 0)["pattern"] = object{"Regex": "(a+)+b"} },
		"pre_tokenizer.pretokenizers[0].pattern.Regex: a pattern with catastrophic backtracking"},
	"no pattern":     {func(f object) { delete(child(f, 0), "pattern") }, "pre_tokenizer.pretokenizers[0].pattern.Regex: missing"},
	"other behavior": {func(f object) { child(f, 0)["behavior"] = "Removed" }, `found behavior "Removed"`},
	"inverted":       {func(f object) { child(f, 0)["invert"] = true }, "invert true"},
	"prefix space":   {func(f object) { child(f, 1)["add_prefix_space"] = true }, "pre_tokenizer.pretokenizers[1].add_prefix_space"},
	"no byte level": {func(f object) {
		seq := f["pre_tokenizer"].(object)
		seq["pretokenizers"] = seq["pretokenizers"].([]any)[:1]
	}, "expected ByteLevel as the last"},
	"byte level first": {func(f object) {
		slices.Reverse(f["pre_tokenizer"].(object)["pretokenizers"].([]any))
	}, "ByteLevel must be the last"},
	"other normalizer": {func(f object) { f["normalizer"] = object{"type": "NFKC"} }, `normalizer.type: found "NFKC"`},
	"nested normalizer": {func(f object) {
		f["normalizer"] = object{"type": "Sequence", "normalizers": []any{object{"type": "Lowercase"}}}
	}, `normalizer.normalizers[0].type: found "Lowercase"`},
	"other decoder": {func(f object) {
		f["decoder"] = object{"type": "WordPiece"}
	}, `decoder.type: found "WordPiece", expected ByteLevel`},
	"no decoder":     {func(f object) { f["decoder"] = nil }, "decoder.type: found none, expected ByteLevel"},
	"added id taken": {func(f object) { addedOf(f, 0)["id"] = 5 }, "both have id 5"},
	"added id elsewhere": {func(f object) {
		addedOf(f, 1)["content"] = "<|endoftext|>"
	}, `"<|endoftext|>" has id 380 here and 379 elsewhere`},
	"added empty": {func(f object) { addedOf(f, 0)["content"] = "" }, "added_tokens[0].content: missing"},
	"added vanishes": {func(f object) {
		a := addedOf(f, 0)
		f["normalizer"] = object{"type": "Replace", "pattern": object{"String": a["content"]}, "content": ""}
		a["normalized"] = true
	}, "the normalizer makes"},
	"added id huge": {func(f object) { addedOf(f, 0)["id"] = 1 << 40 }, "added_tokens[0].id: found"},
	"added strips":  {func(f object) { addedOf(f, 2)["rstrip"] = true }, "added_tokens[2]:"},
	"added a text":  {func(f object) { f["added_tokens"] = "x" }, "added_tokens: found a JSON string"},
	"model a text":  {func(f object) { f["model"] = "x" }, "model: found a JSON string"},
}

func vocabOf(f object) object        { return f["model"].(object)["vocab"].(object) }
func addedOf(f object, i int) object { return f["added_tokens"].([]any)[i].(object) }
func child(f object, i int) object {
	return f["pre_tokenizer"].(object)["pretokenizers"].([]any)[i].(object)
}
func setMerge(v any) func(f object) {
	return func(f object) { f["model"].(object)["merges"].([]any)[0] = v }
}

func writeFile(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkRefused requires a one-line input error that names the file and has the text want.
func checkRefused(t *testing.T, path string, err error, want string) {
	t.Helper()
	if err == nil || !badinput.Is(err) {
		t.Fatalf("got %v, expected an input error", err)
	}
	msg := err.Error()
	if !strings.HasPrefix(msg, path) || !strings.Contains(msg, want) || strings.Contains(msg, "\n") {
		t.Errorf("got %q, expected %s and %q on one line", msg, path, want)
	}
}

func TestDamagedFiles(t *testing.T) {
	for name, tc := range damaged {
		t.Run(name, func(t *testing.T) {
			_, f := smallFile(t)
			tc.change(f)
			data, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			path := writeFile(t, filepath.Join(t.TempDir(), "tokenizer.json"), data)
			_, err = Load(path)
			checkRefused(t, path, err, tc.want)
		})
	}
}

func TestBrokenJSON(t *testing.T) {
	text, _ := smallFile(t)
	repeated := strings.Replace(string(text), `"vocab": {`, `"vocab": { "a": 64,`, 1)
	for name, tc := range map[string]struct{ data, want string }{
		"empty":          {"", "the JSON ends too early, after 0 bytes"},
		"cut short":      {string(text[:len(text)/2]), "the JSON ends too early"},
		"not JSON":       {"<html>", "not JSON at byte 1"},
		"a comma more":   {`{"model": 1,}`, "not JSON at byte 13: invalid character '}'"},
		"a list":         {"[]", "found a JSON array, expected an object"},
		"repeated token": {repeated, `model.vocab: "a" is there twice`},
		"a pointer file": {"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of Git LFS"},
	} {
		path := writeFile(t, filepath.Join(t.TempDir(), "tokenizer.json"), []byte(tc.data))
		_, err := Load(path)
		t.Log(name)
		checkRefused(t, path, err, tc.want)
	}
	missing := filepath.Join(t.TempDir(), "none")
	_, err := Load(missing)
	checkRefused(t, missing, err, "no such file")
	dir := t.TempDir()
	_, err = Load(dir)
	checkRefused(t, filepath.Join(dir, "tokenizer.json"), err, "no such file")
}

// beside writes the small tokenizer.json with another file beside it.
func beside(t *testing.T, name, data string) (dir, path string) {
	t.Helper()
	text, _ := smallFile(t)
	dir = t.TempDir()
	writeFile(t, filepath.Join(dir, "tokenizer.json"), text)
	return dir, writeFile(t, filepath.Join(dir, name), []byte(data))
}

func TestCompanions(t *testing.T) {
	for _, tc := range []struct {
		name, data, template string
		eos                  []int32
	}{
		{"tokenizer_config.json", `{"eos_token":"<|im_end|>","chat_template":"T"}`, "T", []int32{381}},
		{"tokenizer_config.json", `{"eos_token":{"content":"<|im_end|>"},` +
			`"chat_template":[{"name":"tool","template":"U"},{"name":"default","template":"T"}]}`, "T", []int32{381}},
		{"tokenizer_config.json", `{"eos_token":null,"chat_template":null}`, "", nil},
		{"generation_config.json", `{"eos_token_id":[381,379,381]}`, "", []int32{381, 379}},
		{"generation_config.json", `{"eos_token_id":379}`, "", []int32{379}},
		{"generation_config.json", `{"eos_token_id":null}`, "", nil},
		{"generation_config.json", `{}`, "", nil},
		{"chat_template.jinja", "T\n", "T\n", nil},
	} {
		dir, _ := beside(t, tc.name, tc.data)
		tok, err := Load(dir)
		if err != nil {
			t.Errorf("%s %s: %v", tc.name, tc.data, err)
			continue
		}
		if !slices.Equal(tok.EOS(), tc.eos) || tok.ChatTemplate() != tc.template {
			t.Errorf("%s %s: EOS %v, template %q", tc.name, tc.data, tok.EOS(), tok.ChatTemplate())
		}
	}
}

func TestDamagedCompanions(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"tokenizer_config.json", `{"eos_token":"</s>"}`, `eos_token: "</s>" is no token`},
		{"tokenizer_config.json", `{"eos_token":3}`, "eos_token: expected a text"},
		{"tokenizer_config.json", `{"chat_template":3}`, "chat_template: expected a text"},
		{"tokenizer_config.json", `{"chat_`, "the JSON ends too early"},
		{"tokenizer_config.json", `{"added_tokens_decoder":{"381":{"content":"<|im_end|>"},"384":{"content":"<new>"}}}`,
			`added_tokens_decoder: "<new>" is no token of tokenizer.json`},
		{"generation_config.json", `{"eos_token_id":"x"}`, `eos_token_id: found "x"`},
		{"generation_config.json", `{"eos_token_id":[-1]}`, "eos_token_id: found -1"},
		{"generation_config.json", `{"EOS_token_id":1}`, `found the key "EOS_token_id", expected eos_token_id`},
		{"tokenizer_config.json", `{"Chat_template":"x"}`, `found the key "Chat_template", expected chat_template`},
		{"additional_chat_templates", "no folder", "additional_chat_templates: not a directory"},
	} {
		dir, path := beside(t, tc.name, tc.data)
		_, err := Load(dir)
		checkRefused(t, path, err, tc.want)
	}
}

// A dangling link is not treated like a missing file, because other tokens could then end a completion, or another template be used.
func TestLinksThatLeadNowhere(t *testing.T) {
	for _, name := range []string{"tokenizer_config.json", "generation_config.json", "chat_template.jinja"} {
		dir, path := beside(t, "other", "")
		path = filepath.Join(filepath.Dir(path), name)
		if err := os.Symlink("nowhere", path); err != nil {
			t.Fatal(err)
		}
		_, err := Load(dir)
		checkRefused(t, path, err, "a link that leads nowhere")
	}
}

// A special token may be in the vocabulary as well as in added_tokens, and have characters outside the alphabet, as in DeepSeek's files.
func TestAddedTokenInTheVocabulary(t *testing.T) {
	_, parsed := smallFile(t)
	vocabOf(parsed)["<｜end▁of▁sentence｜>"] = 999
	parsed["added_tokens"] = append(parsed["added_tokens"].([]any), object{"id": 999, "content": "<｜end▁of▁sentence｜>", "special": true})
	text, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if ids := tok.EncodeSpecial("a<｜end▁of▁sentence｜>"); !slices.Equal(ids, []int32{64, 999}) {
		t.Errorf("got %v", ids)
	}
}

// A merge written as ["a","b"] means the same as "a b".
func TestMergesAsPairs(t *testing.T) {
	_, f := smallFile(t)
	list := f["model"].(object)["merges"].([]any)
	for i, m := range list {
		left, right, _ := strings.Cut(m.(string), " ")
		list[i] = []any{left, right}
	}
	data, _ := json.Marshal(f) // also escapes <
	tok, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.EncodeSpecial(corpus(t)+"<|im_end|>"), small(t).EncodeSpecial(corpus(t)+"<|im_end|>"); !slices.Equal(got, want) {
		t.Error("merges as pairs give other ids")
	}
}

// Parsing any file returns either a usable tokenizer or an error on one line.
func FuzzParse(f *testing.F) {
	text, _ := smallFile(f)
	f.Add(text)
	for _, tc := range damaged {
		if strings.Contains(tc.want, "catastrophic backtracking") {
			continue // these are slow, and TestDamagedFiles has them
		}
		_, parsed := smallFile(f)
		tc.change(parsed)
		data, _ := json.Marshal(parsed)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := parse(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") || err.Error() == "" {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		tok.split = scanner(gpt2End) // the fuzzer's pattern may take for ever
		for _, text := range seeds {
			ids := tok.EncodeSpecial(text)
			for _, id := range ids {
				if _, ok := tok.Token(id); !ok {
					t.Errorf("%q encodes to %v, and %d is no token", text, ids, id)
				}
			}
		}
	})
}
