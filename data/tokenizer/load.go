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

// maxFile bounds a tokenizer.json. The largest have 35 MB.
const maxFile = 64 << 20

// Load reads a tokenizer.json, or the one in a folder, and what stands beside it:
// tokenizer_config.json, generation_config.json, chat_template.jinja, each of which may be absent.
func Load(path string) (*Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxFile {
		return nil, badinput.Errorf("%s: found %d bytes, expected %d at most", path, info.Size(), maxFile)
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
		// The vocabulary of another kind of model has another form, of which that kind tells more.
		var kind struct{ Model struct{ Type string } }
		if json.Unmarshal(data, &kind) == nil && kind.Model.Type != "" && kind.Model.Type != "BPE" {
			return nil, (&model{Type: kind.Model.Type}).supported(&spelling{})
		}
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
	BOS      tokenName      `json:"bos_token"`
	EOS      tokenName      `json:"eos_token"`
	Unknown  tokenName      `json:"unk_token"`
	Separate tokenName      `json:"sep_token"`
	Pad      tokenName      `json:"pad_token"`
	Class    tokenName      `json:"cls_token"`
	Mask     tokenName      `json:"mask_token"`
	Template namedTemplates `json:"chat_template"`
}

// names are the tokens that tokenizer_config.json gives a part to.
func (c *companion) names() map[string]string {
	names := map[string]string{}
	for part, token := range map[string]tokenName{
		"bos_token": c.BOS, "eos_token": c.EOS, "unk_token": c.Unknown, "sep_token": c.Separate,
		"pad_token": c.Pad, "cls_token": c.Class, "mask_token": c.Mask,
	} {
		if token != "" {
			names[part] = string(token)
		}
	}
	return names
}

// tokenName is "text" or {"content":"text", …}.
type tokenName string

func (n *tokenName) UnmarshalJSON(data []byte) error {
	var object struct{ Content string }
	if json.Unmarshal(data, (*string)(n)) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return errors.New(`eos_token and its like: expected a text or an object with "content"`)
	}
	*n = tokenName(object.Content)
	return nil
}

// namedTemplates is a template, or a list of named ones: "default", and "tool_use" for conversations with tools.
type namedTemplates struct{ whole, tools string }

func (n *namedTemplates) UnmarshalJSON(data []byte) error {
	var list []struct{ Name, Template string }
	if json.Unmarshal(data, &n.whole) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New(`chat_template: expected a text or a list of {"name":…,"template":…}`)
	}
	for _, t := range list {
		switch t.Name {
		case "default":
			n.whole = t.Template
		case "tool_use":
			n.tools = t.Template
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
	t.chatTemplate, t.toolTemplate, t.parts = c.Template.whole, c.Template.tools, c.names()
	if c.EOS != "" {
		id, ok := t.TokenID(string(c.EOS))
		if !ok {
			return badinput.Errorf("%s: eos_token: %q is no token of tokenizer.json", path, string(c.EOS))
		}
		t.eos = []int32{id}
	}
	template, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if err == nil {
		t.chatTemplate, t.toolTemplate = string(template), ""
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
