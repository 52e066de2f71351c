package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Load reads a tokenizer.json, or the one in a folder, and what stands beside it:
// tokenizer_config.json, generation_config.json, chat_template.jinja, each of which may be absent.
func Load(path string) (*Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, badinput.Errorf("%s: no such file; expected a tokenizer.json or the folder of a model", path)
	}
	if err != nil {
		return nil, err
	}
	t, err := parse(data)
	if err != nil {
		return nil, badinput.Errorf("%s: %w", path, err)
	}
	if err := t.readCompanions(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return t, nil
}

// parse makes a tokenizer of the text of a tokenizer.json. Every error is the file's.
func parse(data []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, explain(err, len(data))
	}
	return f.build()
}

// explain says in the words of the file what encoding/json says in Go's.
func explain(err error, size int) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && int(syntax.Offset) >= size:
		return fmt.Errorf("the JSON ends too early, after %d bytes: is the download complete?", size)
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("%s: found a JSON %s, expected %s", kind.Field, kind.Value, kind.Type)
	case errors.As(err, &kind):
		return fmt.Errorf("found a JSON %s, expected an object", kind.Value)
	}
	return err
}

// companion is tokenizer_config.json, as far as this package reads it.
type companion struct {
	EOS      tokenName      `json:"eos_token"`
	Template namedTemplates `json:"chat_template"`
}

// tokenName is "text" or {"content":"text", …}.
type tokenName string

func (n *tokenName) UnmarshalJSON(data []byte) error {
	var object struct{ Content string }
	if json.Unmarshal(data, (*string)(n)) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return errors.New(`eos_token: expected a text or an object with "content"`)
	}
	*n = tokenName(object.Content)
	return nil
}

// namedTemplates is a template, or a list of named ones of which we take "default".
type namedTemplates string

func (n *namedTemplates) UnmarshalJSON(data []byte) error {
	var list []struct{ Name, Template string }
	if json.Unmarshal(data, (*string)(n)) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New(`chat_template: expected a text or a list of {"name":…,"template":…}`)
	}
	for _, t := range list {
		if t.Name == "default" {
			*n = namedTemplates(t.Template)
		}
	}
	return nil
}

func (t *Tokenizer) readCompanions(dir string) error {
	var c companion
	path := filepath.Join(dir, "tokenizer_config.json")
	if err := readJSON(path, &c); err != nil {
		return err
	}
	t.chatTemplate = string(c.Template)
	if c.EOS != "" {
		id, ok := t.TokenID(string(c.EOS))
		if !ok {
			return badinput.Errorf("%s: eos_token: %q is no token of tokenizer.json", path, string(c.EOS))
		}
		t.eos = []int32{id}
	}
	template, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if err == nil {
		t.chatTemplate = string(template)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ids, err := readEOSTokenID(filepath.Join(dir, "generation_config.json"))
	t.eos = appendNew(t.eos, ids)
	return err
}

// readJSON reads a file that may be absent.
func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return badinput.Errorf("%s: %w", path, explain(err, len(data)))
	}
	return nil
}
