package configs

import (
	_ "embed"
	"encoding"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/settings"
)

// Field describes one setting.
type Field struct {
	Key     string
	Type    string   // in words
	Default string   // as typed after key=
	Help    string   // the comment of the field
	Section string   // its section
	Values  []string // the allowed values; nil: any
}

// Describe lists all settings in the order in which they are written.
func Describe() []Field { return slices.Clone(fields()) }

// source is where the help texts stand: beside what they explain, and nowhere else.
//
//go:embed config.go
var source string

//go:embed machine.go
var sourceInside string

// fields describes the fields of Config, in order.
var fields = sync.OnceValue(func() []Field {
	comments := readComments()
	defaults := Defaults()
	out := make([]Field, len(configFields()))
	for i, f := range configFields() {
		out[i] = comments[f.Name]
		out[i].Key = f.Tag.Get("json")
		out[i].Values = strings.Fields(f.Tag.Get("enum"))
		out[i].Type = typeName(defaults.pointer(i))
	}
	for i := range out {
		out[i].Default = defaults.text(i)
	}
	return out
})

// configFields are the fields of Config and of its embedded structs, in order.
var configFields = sync.OnceValue(func() []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[Config]()), func(f reflect.StructField) bool { return f.Anonymous })
})

// readComments returns the comment of every field of Config, by its Go name, with its section. Fields of an embedded struct
// are in the section where that is embedded.
func readComments() map[string]Field {
	out := map[string]Field{}
	for _, f := range commented(source, "Config") {
		if f.Key != "" {
			out[f.Key] = f
			continue
		}
		for _, inside := range commented(sourceInside, f.Help) {
			inside.Section = f.Section
			out[inside.Key] = inside
		}
	}
	for name, f := range out {
		f.Key = ""
		out[name] = f
	}
	return out
}

// commented parses the fields of a struct: their Go names as Key, comments as Help, and sections. An embedded struct has no
// Key, and its name as Help.
func commented(source, name string) (out []Field) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil {
		panic(err) // it has been compiled
	}
	structure := file.Scope.Lookup(name).Decl.(*ast.TypeSpec).Type.(*ast.StructType)
	attached := map[*ast.CommentGroup]bool{}
	for _, f := range structure.Fields.List {
		attached[f.Doc] = true
	}
	sections := slices.DeleteFunc(slices.Clone(file.Comments), func(c *ast.CommentGroup) bool {
		return attached[c] || c.Pos() < structure.Pos() || c.End() > structure.End()
	})
	section := ""
	for _, f := range structure.Fields.List {
		for len(sections) > 0 && sections[0].Pos() < f.Pos() {
			section, sections = oneLine(sections[0]), sections[1:]
		}
		if len(f.Names) == 0 {
			out = append(out, Field{Help: f.Type.(*ast.Ident).Name, Section: section})
			continue
		}
		out = append(out, Field{Key: f.Names[0].Name, Help: oneLine(f.Doc), Section: section})
	}
	return out
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// Key is the setting meant by a word with dashes or capitals; "" if there is none.
func Key(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	if slices.Contains(keys(), name) || slices.Contains([]string{"batch_size", "group_size"}, name) {
		return name
	}
	return ""
}

// keys are the keys of Config, in order.
var keys = sync.OnceValue(func() []string {
	out := make([]string, len(fields()))
	for i, f := range fields() {
		out[i] = f.Key
	}
	return out
})

// pointer is the address of field i.
func (c *Config) pointer(i int) any {
	return reflect.ValueOf(c).Elem().FieldByIndex(configFields()[i].Index).Addr().Interface()
}

func typeName(pointer any) string {
	switch pointer.(type) {
	case *string:
		return "text"
	case *int, *uint64:
		return "whole number"
	case *float64:
		return "number"
	case *bool:
		return "true or false"
	case *[]string:
		return "list"
	}
	return "memory"
}

// value is the value of a key in a file or a word: text, or a list of texts.
type value struct {
	text   string
	list   []string
	isList bool
}

// set sets field i.
func (c *Config) set(i int, v value) error {
	if list, ok := c.pointer(i).(*[]string); ok {
		if !v.isList {
			return badinput.Errorf("found %q, expected a list, as in [a, b]", v.text)
		}
		*list = append([]string{}, v.list...) // never nil, so that equal lists are equal
		return nil
	}
	if v.isList {
		return badinput.Errorf("found a list, expected %s", article(fields()[i].Type))
	}
	switch p := c.pointer(i).(type) {
	case *string:
		*p = v.text
	case *int:
		return settings.Int(p)(v.text)
	case *float64:
		return settings.Float(p)(v.text)
	case *uint64:
		n, err := strconv.ParseUint(v.text, 10, 64)
		if err != nil {
			return badinput.Errorf("found %q, expected a whole number of at least 0", v.text)
		}
		*p = n
	case *bool:
		if v.text != "true" && v.text != "false" {
			return badinput.Errorf("found %q, expected true or false", v.text)
		}
		*p = v.text == "true"
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(v.text))
	}
	return nil
}

func article(kind string) string {
	if kind == "number" || kind == "whole number" {
		return "a " + kind
	}
	return kind
}

// text is the value of field i, as typed after key=.
func (c *Config) text(i int) string {
	switch p := c.pointer(i).(type) {
	case *string:
		return *p
	case *int:
		return strconv.Itoa(*p)
	case *uint64:
		return strconv.FormatUint(*p, 10)
	case *bool:
		return strconv.FormatBool(*p)
	case *float64:
		return formatNumber(*p)
	case *[]string:
		return formatList(*p)
	case *Bytes:
		return p.String()
	}
	panic("configs: a field of unknown type")
}

// formatNumber is the shortest text for v, with short exponents: 4e-5.
func formatNumber(v float64) string {
	format := byte('g')
	if v != 0 && -0.001 < v && v < 0.001 {
		format = 'e'
	}
	s := strconv.FormatFloat(v, format, -1, 64)
	return strings.NewReplacer("e-0", "e-", "e+0", "e").Replace(s)
}

// bounded adds the limit of single precision to an error if the value exceeds it.
func bounded(expected string, value, most float64) string {
	if most != math.MaxFloat32 || !(value > most) {
		return expected
	}
	least, hint, ok := strings.Cut(expected, ";")
	if ok {
		hint = ";" + hint
	}
	return least + " and at most 3.4e38" + hint
}
