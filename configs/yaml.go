package configs

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// setting is a key with its value in a layer.
type setting struct {
	key   string
	value value
	where string // "file:line: ", or "" for the command line
}

// maxFile is more than any configuration needs.
const maxFile = 64 << 10

// parseYAML parses a flat mapping: keys with a scalar or a list of scalars. Scalars stay text, which the field parses.
// JSON is YAML too.
func parseYAML(name string, text []byte) ([]setting, error) {
	if len(text) > maxFile {
		return nil, badinput.Errorf("%s: found %d bytes, expected a configuration of at most %d", name, len(text), maxFile)
	}
	if !utf8.Valid(text) {
		return nil, badinput.Errorf("%s: found bytes that are not UTF-8", name)
	}
	file, err := parser.ParseBytes(bytes.TrimPrefix(text, []byte("\ufeff")), 0) // strips the byte order mark that some editors write
	if err != nil {
		return nil, syntaxError(name, err)
	}
	if len(file.Docs) > 1 {
		return nil, badinput.Errorf("%s: found %d documents, expected one", name, len(file.Docs))
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	var pairs []*ast.MappingValueNode
	switch body := file.Docs[0].Body.(type) {
	case *ast.MappingNode:
		pairs = body.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{body}
	default:
		return nil, badinput.Errorf("%s found %s, expected lines of key: value",
			position(name, body), strings.ToLower(body.Type().String()))
	}
	var out []setting
	var mistakes []error
	for _, pair := range pairs {
		s := setting{where: position(name, pair.Key) + " "}
		key, ok := scalar(pair.Key)
		if s.key = key; !ok {
			mistakes = append(mistakes, badinput.Errorf("%sfound %s for a key, expected the name of a setting",
				s.where, strings.ToLower(pair.Key.Type().String())))
			continue
		}
		if s.value, err = nodeValue(pair.Value); err != nil {
			mistakes = append(mistakes, badinput.Errorf("%s%s: %w", s.where, s.key, err))
			continue
		}
		out = append(out, s)
	}
	return out, join(mistakes)
}

// nodeValue is a scalar or a list of scalars.
func nodeValue(node ast.Node) (v value, err error) {
	if list, ok := node.(*ast.SequenceNode); ok {
		v.isList = true
		for _, item := range list.Values {
			text, ok := scalar(item)
			if !ok {
				return v, notScalar(item)
			}
			v.list = append(v.list, text)
		}
		return v, nil
	}
	text, ok := scalar(node)
	if !ok {
		return v, notScalar(node)
	}
	v.text = text
	return v, nil
}

// scalar is the text of a plain, quoted or block scalar.
func scalar(node ast.Node) (text string, ok bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func notScalar(node ast.Node) error {
	if _, null := node.(*ast.NullNode); null || node == nil {
		return badinput.Errorf(`found nothing, expected a value; write "" for no text, [] for no list, or leave the line out`)
	}
	return badinput.Errorf("found %s, expected a plain value", strings.ToLower(node.Type().String()))
}

// position is "file:line:".
func position(name string, node ast.Node) string {
	if t := node.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("%s:%d:", name, t.Position.Line)
	}
	return name + ":"
}

// syntaxError puts an error of the library on one line.
func syntaxError(name string, err error) error {
	var located yaml.Error
	if !errors.As(err, &located) {
		return badinput.Errorf("%s: %s", name, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if t := located.GetToken(); t != nil && t.Position != nil {
		name = fmt.Sprintf("%s:%d", name, t.Position.Line)
	}
	return badinput.Errorf("%s: %s", name, strings.ReplaceAll(located.GetMessage(), "\n", " "))
}

// unquoted are texts that mean themselves without quotes.
var unquoted = regexp.MustCompile(`^[A-Za-z0-9_/.-][A-Za-z0-9_/.@+-]*$`)

// quote writes text as a YAML scalar that reads back as the same text.
func quote(text string) string {
	switch lower := strings.ToLower(text); {
	case unquoted.MatchString(text) && lower != "null" && text[0] != '-' && text != "...":
		return text
	}
	quoted, _ := jsonl.Marshal(text) // every text has a JSON form
	return string(quoted)
}

// formatList writes a flow sequence.
func formatList(list []string) string {
	items := make([]string, len(list))
	for i, s := range list {
		items[i] = quote(s)
	}
	return "[" + strings.Join(items, ", ") + "]"
}
