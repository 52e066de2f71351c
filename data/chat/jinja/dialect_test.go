package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

func render(source string, vars string) (Text, error) {
	t, err := Parse(source)
	if err != nil {
		return Text{}, err
	}
	v, err := FromJSON([]byte(vars))
	if err != nil {
		return Text{}, err
	}
	return t.Render(v.(*Dict), Options{Strftime: func(string) (string, error) { return "DATE", nil }})
}

// testdata/dialect.json has the output of Python's jinja2 3.1.6 for templates, configured as in transformers
// (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, its tojson); null if it raises an error.
func TestDialect(t *testing.T) {
	data, err := os.ReadFile("testdata/dialect.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vars  json.RawMessage
		Cases []struct {
			Template string
			Want     *string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%d cases: %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		switch text, err := render(c.Template, string(file.Vars)); {
		case c.Want == nil && err == nil:
			t.Errorf("%q gives %q, expected an error", c.Template, text.S)
		case c.Want != nil && (err != nil || text.S != *c.Want):
			t.Errorf("%q: %v\n got %q\nwant %q", c.Template, err, text.S, *c.Want)
		}
	}
}

// The errors about unsupported features name them, and what is supported.
func TestNotSupported(t *testing.T) {
	for source, want := range map[string]string{
		"{% include 'a' %}":                      "line 1: the tag {% include %} is not supported; supported are for, if, set,",
		"\n{% extends 'a' %}":                    "line 2: the tag {% extends %} is not supported",
		"{% import 'a' as b %}":                  "the tag {% import %} is not supported",
		"{% do x %}":                             "the tag {% do %} is not supported",
		"{{ 1|random }}":                         `the filter "random" is not supported; supported are abs,`,
		"{{ 1 is escaped }}":                     `the test "escaped" is not supported; supported are !=,`,
		"{{ lipsum() }}":                         "the function lipsum is not supported",
		"{{ f(*x) }}":                            "* before an argument is not supported",
		"{{ ''.zfill(3) }}":                      "call of an undefined value: a str has no zfill",
		"{{ ''.__class__ }}{{ ''.__class__() }}": "a str has no __class__",
		"{{ messages.append(1) }}":               ".append of an undefined value: messages is undefined",
		"{{ (1)() }}":                            "an int cannot be called",
		"{{ none.x() }}":                         "None has no x",
		"{{ raise_exception|tojson }}":           "tojson: a function cannot",
		"{{ [1].append(1) }}":                    "a list has no append",
		"{{ '%x' % 1 }}":                         "the format %x is not supported",
		"{% for a in [1] %}":                     "{% for %} has no {% endfor %}",
		"{{ '\xb1' }}":                           "found bytes that are not UTF-8",
		"{% endif %}":                            "{% endif %} closes no open block",
	} {
		if text, err := render(source, "{}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v; expected %q", source, text.S, err, want)
		}
	}
}

func TestRefusal(t *testing.T) {
	_, err := render(`{{ raise_exception('only ' ~ n ~ ' calls') }}`, `{"n": 1}`)
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Message != "only 1 calls" {
		t.Errorf("got %v", err)
	}
}

// The origin of text from messages is tracked through all operations: here it is shown between « and ».
func TestWords(t *testing.T) {
	const vars = `{"s": " hello world ", "l": ["a", "b"], "d": {"k": "v"}, "n": 7}`
	for source, want := range map[string]string{
		"<{{ s }}>":                                                     "<« hello world »>",
		"<{{ s|trim }}>":                                                "<«hello world»>",
		"{{ '<' + s.strip() + '>' }}":                                   "<«hello world»>",
		"{{ s[1:4] ~ s[-3] }}{{ s[2] }}":                                "«helle»",
		"{{ s.split('o')|join('|') }}":                                  "« hell»|« w»|«rld »",
		"{{ s.split() }}":                                               "[«'hello'», «'world'»]",
		"{{ s.replace('l', 'L', 1) }}":                                  "« he»L«lo world »",
		"{{ 'xay'.replace('a', s|trim) }}":                              "x«hello world»y",
		"{{ s|upper|trim }} {{ s|title }}":                              "«HELLO WORLD» « Hello World »",
		"{{ l|join(', ') }}":                                            "«a», «b»",
		"{{ l|map('upper')|join }}":                                     "«AB»",
		"{{ l|tojson }} {{ [1]|tojson }}":                               `«["a", "b"]» [1]`,
		"{{ d|tojson(indent=1) }}":                                      "«{\n \"k\": \"v\"\n}»",
		"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}":        "«k»=«v»",
		"{{ '%s-%s' % (l[0], 'b') }}":                                   "«a»-b",
		"{{ '{}-{}'.format(l[0], 'b') }}":                               "«a»-b",
		"{% set x %}({{ l[0] }}){% endset %}{{ x * 2 }}":                "(«a»)(«a»)",
		"{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(l[1]) }}":          "[«b»]",
		"{% filter upper %}a{{ l[0] }}{% endfilter %}":                  "«AA»",
		"{{ n }}{{ n + 1 }}":                                            "78",
		"{{ s|reverse|trim }}":                                          "«dlrow olleh»",
		"{{ ('a' ~ s)|indent }}":                                        "a« hello world »",
		"{{ l|first ~ l|last }}{{ l|sort(reverse=true)|join }}":         "«abba»",
		"{{ s.lstrip().partition is defined }}":                         "False",
		"{{ (s|trim).splitlines()[0] }}":                                "«hello world»",
		"{{ zz|default(l[0]) }}{{ l[0] if n else '' }}{{ '' or l[1] }}": "«aab»",
	} {
		text, err := render(source, vars)
		if err != nil {
			t.Errorf("%q: %v", source, err)
			continue
		}
		var got strings.Builder
		at := 0
		for _, d := range text.Data {
			got.WriteString(text.S[at:d.Start] + "«" + text.S[d.Start:d.End] + "»")
			at = d.End
		}
		got.WriteString(text.S[at:])
		if got.String() != want {
			t.Errorf("%q\n got %q\nwant %q", source, got.String(), want)
		}
	}
}

// Integers of more than 64 bits, which may be arguments of a tool call, are written like others.
func TestLargeWholeNumbers(t *testing.T) {
	const vars = `{"n": 12345678901234567890123, "d": {"a": [-98765432109876543210]}}`
	for source, want := range map[string]string{
		"{{ n }} {{ n|string }} {{ 'n=' ~ n }}":  "12345678901234567890123 12345678901234567890123 n=12345678901234567890123",
		"{{ d }} {{ d|tojson }}":                 "{'a': [-98765432109876543210]} {\"a\": [-98765432109876543210]}",
		"{{ n|int }} {{ n|float }}":              "12345678901234567890123 1.2345678901234568e+22",
		"{{ n is integer }} {{ n is callable }}": "True False",
		"{{ n == n }} {{ n == 1 }}":              "True False",
	} {
		if text, err := render(source, vars); err != nil || text.S != want {
			t.Errorf("%q: %v\n got %q\nwant %q", source, err, text.S, want)
		}
	}
}

// Filters that differ from the method of the same name, as in jinja2 3.1.6.
func TestFiltersOfTheirOwn(t *testing.T) {
	for source, want := range map[string]string{
		`{{ "it's a 2nd-rate (tEST)"|title }} {{ "it's 2nd".title() }}`:       "It's A 2nd-Rate (Test) It'S 2Nd",
		`{{ "well-known: a_b, c"|wordcount }} {{ ""|wordcount }}`:             "4 0",
		`{{ "a\r\n\r\nb\n"|indent(2) }}|{{ "a\n\nb"|indent(2, true, true) }}`: "a\n\n  b\n|  a\n  \n  b",
	} {
		if text, err := render(source, "{}"); err != nil || text.S != want {
			t.Errorf("%q: %v\n got %q\nwant %q", source, err, text.S, want)
		}
	}
}

// Corner cases of operators, filters and loops, as in jinja2 3.1.6, except for numbers of more than 64 bits.
func TestCorners(t *testing.T) {
	for source, want := range map[string]string{
		"{{ 1 < 1 }} {{ 2 <= 2 }} {{ 'a' < 'a' }} {{ 1 > 1 }} {{ 2 >= 2 }}":        "False True False False True",
		"{{ [1] * 0 }} {{ 'a' * 0 }} {{ [1] * -1 }}":                               "[]  []",
		"{{ 1 ** 65 }} {{ (-1) ** 65 }} {{ 0 ** 65 }} {{ 2 ** 62 }} {{ 2 ** -1 }}": "1 -1 0 4611686018427387904 0.5",
		"{{ 100000.0 }} {{ 1e15 }} {{ 0.1 + 0.2 }}":                                "100000.0 1000000000000000.0 0.30000000000000004",
		"{{ [1, 2, 3, 4][::9] }} {{ [1, 2, 3][::3] }} {{ [1, 2, 3][::-3] }}":       "[1] [1] [3]",
		"{% for x in [1, 1, 2, 1] %}{{ loop.changed(x) }} {% endfor %}":            "True False True True ",
		"{{ 'abc'.startswith(('b', 'a')) }} {{ 'abc'.startswith(('b', 'c')) }}":    "True False",
		"{{ [{}, {'a': 1}]|map(attribute='a')|select('defined')|list }}":           "[1]",
		"{{ [{'a': 2}, {}, {'a': 1}]|map(attribute='a', default=0)|list }}":        "[2, 0, 1]",
	} {
		if text, err := render(source, "{}"); err != nil || text.S != want {
			t.Errorf("%q: %v\n got %q\nwant %q", source, err, text.S, want)
		}
	}
	for source, want := range map[string]string{
		"{{ 2 ** 64 }}":                                 "**: the result has more than 64 bits",
		"{{ 10 ** 20 }}":                                "**: the result has more than 64 bits",
		"{{ none|items }}":                              "items: found None, expected a dict",
		"{{ 'a' * 'b' }}":                               "*",
		"{{ [1]|sort(reversed=true) }}":                 "sort",
		"{{ [1]|unique(x=1) }}":                         "unique",
		"{% for x in [1] %}{{ loop([2]) }}{% endfor %}": "expected a loop that is recursive",
		"{{ [1]|tojson(separators=[',']) }}":            "separators: expected two texts",
	} {
		if text, err := render(source, "{}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v; expected %q", source, text.S, err, want)
		}
	}
}
