package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// maxFile bounds a tokenizer.json. The largest have 35 MB.
const maxFile = 64 << 20

// Load reads a tokenizer.json, or the one in a folder, and the optional files beside it:
// tokenizer_config.json, generation_config.json, chat_template.jinja and additional_chat_templates.
func Load(path string) (*Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxFile {
		return nil, badinput.Errorf("%s: found %d bytes, expected %d at most", path, info.Size(), maxFile)
	}
	data, err := openfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, badinput.Errorf("%s: no such file; expected a tokenizer.json or the folder of a model", path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, badinput.Errorf("%w; make it readable, or choose another model", err)
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

// parse makes a tokenizer from a tokenizer.json. Its errors are all faults of the file.
func parse(data []byte) (*Tokenizer, error) {
	var f file
	if bytes.HasPrefix(data, []byte("version https://git-lfs")) {
		return nil, errors.New("it is a pointer of Git LFS, not the tokenizer; type git lfs pull in its folder")
	}
	if err := json.Unmarshal(data, &f); err != nil {
		// Other types of models write the vocabulary in another form; their type makes the better message.
		var kind struct{ Model struct{ Type string } }
		if json.Unmarshal(data, &kind) == nil && kind.Model.Type != "" && kind.Model.Type != "BPE" {
			return nil, (&model{Type: kind.Model.Type}).supported(&spelling{})
		}
		return nil, explain(err, len(data))
	}
	return f.build()
}

// explain rewords an error of encoding/json in terms of the file instead of Go types.
func explain(err error, size int) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && int(syntax.Offset) >= size && strings.HasPrefix(syntax.Error(), "unexpected end"):
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

// tokenizerConfig is tokenizer_config.json, as far as this package reads it.
type tokenizerConfig struct {
	Template namedTemplates `json:"chat_template"`
	Added    map[string]struct {
		Content string
	} `json:"added_tokens_decoder"`
}

// checkAdded requires that tokenizer.json has all tokens of added_tokens_decoder. Hugging Face's transformers would add missing
// ones, and then encode text with one of them differently.
func (c *tokenizerConfig) checkAdded(t *Tokenizer) error {
	for _, key := range slices.Sorted(maps.Keys(c.Added)) {
		content := c.Added[key].Content
		if _, ok := t.TokenID(content); !ok && content != "" {
			return badinput.Errorf("added_tokens_decoder: %q is no token of tokenizer.json; take both files from the same model", content)
		}
	}
	return nil
}

// roleKeys are the keys of tokenizer_config.json that give a token a role.
var roleKeys = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// readRoles reads the values of roleKeys, each "text", {"content":"text", …}, or null, and returns the text of each token by its role.
func readRoles(path string) (map[string]string, error) {
	var file map[string]json.RawMessage
	if err := readJSON(path, &file); err != nil {
		return nil, err
	}
	roles := map[string]string{}
	for _, role := range roleKeys {
		var text string
		var object struct{ Content string }
		raw, ok := file[role]
		switch {
		case !ok:
		case json.Unmarshal(raw, &text) == nil:
		case json.Unmarshal(raw, &object) == nil:
			text = object.Content
		default:
			return nil, badinput.Errorf(`%s: %s: expected a text or an object with "content"`, path, role)
		}
		if text != "" {
			roles[role] = text
		}
	}
	return roles, nil
}

// namedTemplates are chat templates by name: "default", and "tool_use" for conversations with tools. A plain string is "default".
type namedTemplates map[string]string

func (n *namedTemplates) UnmarshalJSON(data []byte) error {
	var list []struct{ Name, Template string }
	var whole string
	if json.Unmarshal(data, &whole) == nil {
		*n = namedTemplates{"default": whole}
		return nil
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New(`chat_template: expected a text or a list of {"name":…,"template":…}`)
	}
	*n = namedTemplates{}
	for _, t := range list {
		(*n)[t.Name] = t.Template
	}
	return nil
}

// templatesBeside reads the chat templates that have files of their own: chat_template.jinja, and those in additional_chat_templates.
func templatesBeside(dir string) (namedTemplates, error) {
	found := namedTemplates{}
	read := func(name, path string) error {
		text, there, err := readBeside(path)
		if there {
			found[name] = string(text)
		}
		return err
	}
	if err := read("default", filepath.Join(dir, "chat_template.jinja")); err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, "additional_chat_templates")
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, badinput.Errorf("%s: the chat templates cannot be read: %w", folder, err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".jinja"); ok {
			if err := read(name, filepath.Join(folder, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func (t *Tokenizer) readCompanions(dir string) error {
	var c tokenizerConfig
	path := filepath.Join(dir, "tokenizer_config.json")
	if err := readJSON(path, &c); err != nil {
		return err
	}
	if err := c.checkAdded(t); err != nil {
		return badinput.Errorf("%s: %w", path, err)
	}
	roles, err := readRoles(path)
	if err != nil {
		return err
	}
	t.roles = roles
	if eos := roles["eos_token"]; eos != "" {
		id, ok := t.TokenID(eos)
		if !ok {
			return badinput.Errorf("%s: eos_token: %q is no token of tokenizer.json", path, eos)
		}
		t.eos = []int32{id}
	}
	beside, err := templatesBeside(dir)
	if err != nil {
		return err
	}
	if len(beside) > 0 { // they replace all of tokenizer_config.json, as in Hugging Face's transformers
		c.Template = beside
	}
	maps.DeleteFunc(c.Template, func(_, text string) bool { return text == "" })
	t.chatTemplate, t.toolTemplate = c.Template["default"], c.Template["tool_use"]
	t.templates = slices.Sorted(maps.Keys(c.Template))
	ids, err := readEOSTokenID(filepath.Join(dir, "generation_config.json"))
	t.eos = appendNew(t.eos, ids)
	return err
}

// readJSON decodes a file that may be absent.
func readJSON(path string, v any) error {
	data, there, err := readBeside(path)
	if err != nil || !there {
		return err
	}
	if err := jsonl.UnmarshalExactCase(data, v); err != nil {
		return badinput.Errorf("%s: %w", path, explain(err, len(data)))
	}
	return nil
}

// readBeside reads a file that may be absent. A dangling link, which remains when files are deleted from a cache, is an error: otherwise
// the settings in the missing file would be silently ignored.
func readBeside(path string) (data []byte, there bool, err error) {
	data, err = openfile.Read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err == nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, false, badinput.Errorf("%s: a link that leads nowhere; fetch the file again, or delete the link", path)
	}
	return nil, false, nil
}
