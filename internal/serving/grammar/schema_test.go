package grammar

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documents are schemas with texts that fit and texts that do not.
var documents = []struct {
	schema string
	fit    []string
	unfit  []string
}{
	{`{"type":"object"}`,
		[]string{`{}`, `{"a":1}`, `{"a": [1, {"b": null}], "c": "x\n"}`, "{\n  \"a\": true\n}", `{"":-0.5e-7}`},
		[]string{``, `[]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a" :1}`, `{ "a":01}`, `{"a":1}}`, "{\n\n}", `{"a":tru}`, `{"a":1.}`, ` {}`, `{} `}},
	{`true`, []string{`1`, `"x"`, `[[[]]]`, `null`, `-1.5E+3`, `{"a":[]}`}, []string{`nul`, `+1`, `1e400`, `1e`, `--1`, `'a'`}},
	{`{"type":"string"}`,
		[]string{`""`, `"a"`, `"é日本😀"`, `"\ud83d\ude00"`, `"\u0000\/\b\f"`, `"\uD7ff\ue000"`, "\"\U00100000\"", `"\ud83d\udfff"`},
		[]string{`"`, `"a`, `"\x"`, `"\ud83d"`, `"\ud83d\u0041"`, `"\ude00"`, "\"\n\"", "\"\xff\"",
			"\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", `"\ud83d"x`}},
	{`{"type":"string","minLength":2,"maxLength":3}`,
		[]string{`"ab"`, `"abc"`, `"日本"`, `"\u00e9\ud83d\ude00"`, `"\n😀a"`},
		[]string{`"a"`, `"abcd"`, `"日本日本"`, `"\u00e9"`}},
	{`{"type":"string","allOf":[{"minLength":2,"maxLength":3},{"minLength":1,"maxLength":5}]}`, []string{`"ab"`, `"abc"`},
		[]string{`"a"`, `"abcd"`}},
	{`{"type":"string","pattern":"^[a-c]+$"}`,
		[]string{`"a"`, `"abc"`, `"\u0061"`},
		[]string{`""`, `"d"`, `"\u0064"`, `"a\n"`, `"ab\ud83d\ude00"`}},
	{`{"pattern":"b+"}`, []string{`"b"`, `"aba"`, `"\nb\n"`, `"😀b"`}, []string{`"a"`, `1`}},
	{`{"type":"string","pattern":"^😀[\\u00e9-\\u00ea]$"}`,
		[]string{`"😀é"`, `"\ud83d\ude00\u00eA"`}, []string{`"😁é"`, `"\ud83d\ude01"`}},
	{`{"type":"string","pattern":"(?i)^k$"}`, []string{`"k"`, `"K"`, "\"\u212a\""}, []string{`"l"`}},
	{`{"type":"string","pattern":"^a*$","maxLength":2}`, []string{`""`, `"aa"`}, []string{`"aaa"`}},
	{`{"allOf":[{"type":"string","pattern":"a"},{"pattern":"b"}]}`, []string{`"ab"`, `"xbya"`}, []string{`"a"`, `"b"`}},
	{`{"type":"integer"}`,
		[]string{`0`, `-1`, `9223372036854775807`, `-9223372036854775808`},
		[]string{`-0`, `01`, `1.0`, `1e3`, `9223372036854775808`}},
	{`{"type":"integer","minimum":-5,"exclusiveMaximum":120}`,
		[]string{`-5`, `-1`, `0`, `9`, `99`, `119`},
		[]string{`-6`, `-10`, `120`, `1000`, `0.5`}},
	{`{"type":"integer","minimum":0.5,"maximum":2e1,"multipleOf":3}`, []string{`3`, `18`}, []string{`0`, `4`, `21`}},
	{`{"type":"number","minimum":-1.5,"maximum":0.25}`,
		[]string{`-1.5`, `-1`, `-0.75`, `0`, `0.0`, `0.25`, `0.250`, `-1.50`, `0.2499`},
		[]string{`-1.51`, `0.251`, `1`, `-2`, `-0.0`, `2e-1`}},
	{`{"type":"number","exclusiveMinimum":0}`, []string{`0.001`, `1`, `123.5`}, []string{`0`, `0.0`, `-1`}},
	{`{"type":"number","exclusiveMaximum":10,"minimum":9}`, []string{`9`, `9.99`}, []string{`10`, `8.9`, `10.0`, `90`}},
	{`{"type":"number","multipleOf":0.01}`, []string{`1.25`, `1`, `-0.5`}, []string{`1.255`, `1e3`}},
	{`{"type":"integer","allOf":[{"multipleOf":4},{"multipleOf":6}]}`, []string{`12`, `0`, `-36`}, []string{`4`, `6`, `8`}},
	{`{"type":"number","allOf":[{"multipleOf":0.1},{"multipleOf":0.01}]}`, []string{`1.5`}, []string{`1.55`}},
	{`{"type":"array","items":{"const":1},"allOf":[{"minItems":2},{"minItems":1}]}`, []string{`[1,1]`}, []string{`[1]`}},
	{`{"type":"boolean"}`, []string{`true`, `false`}, []string{`True`, `null`}},
	{`{"type":["string","null"]}`, []string{`null`, `"a"`}, []string{`1`}},
	{`{"type":"integer","nullable":true}`, []string{`null`, `1`}, []string{`"a"`}},
	{`{"enum":["a","ab","b\"c",1,1.5,null,{"x":[1,2]}]}`,
		[]string{`"a"`, `"ab"`, `"b\"c"`, `1`, `1.5`, `null`, `{"x":[1,2]}`, `{"x": [1, 2]}`},
		[]string{`"abc"`, `""`, `2`, `{"x":[1]}`, `"\u0061"`}},
	{`{"enum":["a",1,"abc"],"type":"string","minLength":2}`, []string{`"abc"`}, []string{`"a"`, `1`}},
	{`{"enum":[1,20,3.5],"maximum":5}`, []string{`1`, `3.5`}, []string{`20`}},
	{`{"enum":[1,2,"x"],"allOf":[{"enum":[2.0,"x",3]}]}`, []string{`2`, `"x"`}, []string{`1`, `3`}},
	{`{"const":"</script>"}`, []string{`"</script>"`}, []string{`"\u003c/script>"`}},
	{`{"type":"array","items":{"type":"integer"}}`,
		[]string{`[]`, `[1]`, `[1, 2,3]`, "[\n  1,\n  2\n]"},
		[]string{`[1,]`, `["a"]`, `[,1]`, `[1 ,2]`}},
	{`{"type":"array","items":{"type":"null"},"minItems":1,"maxItems":3}`,
		[]string{`[null]`, `[null,null,null]`},
		[]string{`[]`, `[null,null,null,null]`}},
	{`{"prefixItems":[{"const":1},{"const":2}],"items":{"const":3}}`,
		[]string{`[]`, `[1]`, `[1,2]`, `[1,2,3,3]`},
		[]string{`[2]`, `[1,3]`, `[1,2,2]`}},
	{`{"type":"array","prefixItems":[{"const":1},{"const":2}],"minItems":2}`, []string{`[1,2]`}, []string{`[1]`, `[1,2,3]`}},
	{`{"type":"array","items":[{"const":1}],"additionalItems":false}`, []string{`[]`, `[1]`}, []string{`[1,1]`}},
	{`{"type":"array","items":false}`, []string{`[]`}, []string{`[1]`}},
	{`{"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"]}`,
		[]string{`{"b":2}`, `{"a":1,"b":2}`, `{"a": 1, "b": 2, "c": 3}`, `{"b":2,"c":3}`},
		[]string{`{}`, `{"a":1}`, `{"b":2,"a":1}`, `{"a":1,"c":3}`, `{"b":2,"d":1}`, `{"b":2,"b":2}`, `{"b":2,}`}},
	{`{"properties":{"ab":{"const":1}},"additionalProperties":{"type":"boolean"}}`,
		[]string{`{}`, `{"ab":1}`, `{"ab":1,"a":true}`, `{"x":true,"abc":false}`},
		[]string{`{"ab":true}`, `{"\u0061b":true}`, `{"x":1}`, `{"x":true,"ab":1}`}},
	{`{"type":"object","additionalProperties":false}`, []string{`{}`}, []string{`{"a":1}`}},
	{`{"type":"object","additionalProperties":{"type":"null"},"minProperties":1}`,
		[]string{`{"a":null}`, `{"a":null,"b":null}`},
		[]string{`{}`}},
	{`{"type":"object","required":["k"]}`, []string{`{"k":1}`, `{"k":"v","z":0}`}, []string{`{}`, `{"z":0}`}},
	{`{"anyOf":[{"type":"integer"},{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}]}`,
		[]string{`1`, `{"a":{"a":2}}`}, []string{`{}`, `{"a":{}}`}},
	{`{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
		[]string{`{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`}, []string{`{}`}},
	{`{"oneOf":[{"type":"integer"},{"type":["string","null"]}]}`, []string{`1`, `null`, `"a"`}, []string{`true`, `[]`}},
	{`{"oneOf":[{"const":1},{"enum":[2,"b"]},{"type":"object"}]}`, []string{`1`, `2`, `"b"`, `{}`}, []string{`3`}},
	{`{"oneOf":[{"properties":{"k":{"const":"a"},"v":{"const":1}},"required":["k","v"]},
		{"properties":{"k":{"enum":["b","c"]}},"required":["k"]}]}`,
		[]string{`{"k":"a","v":1}`, `{"k":"c"}`}, []string{`{"k":"a"}`, `{"k":"b","v":1}`}},
	{`{"oneOf":[{"properties":{"a":{"const":1}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{"const":2}},
		"required":["b"]}]}`, []string{`{"a":1}`, `{"b":2}`}, []string{`{}`}},
	{`{"type":"object","oneOf":[{"properties":{"o":{"$ref":"#/$defs/x"}},"required":["o"]},{"properties":{"o":{"oneOf":[{"type":"null"},
		{"$ref":"#/$defs/y"}]}},"required":["o"]}],"$defs":{"x":{"type":"object","properties":{"k":{"const":1}},"required":["k"]},
		"y":{"type":"object","properties":{"k":{"type":"string"}},"required":["k"]}}}`,
		[]string{`{"o":{"k":1}}`, `{"o":null}`, `{"o":{"k":"z"}}`}, []string{`{"o":{}}`, `{"o":1}`}},
	{`{"oneOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"}}]}`, []string{`null`, `[null,[]]`}, []string{`1`}},
	{`{"oneOf":[{"type":"string"}]}`, []string{`"a"`}, []string{`1`}},
	{`{"allOf":[{"properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"maximum":3},"b":{"const":0}}}],"type":"object"}`,
		[]string{`{"a":2.5}`, `{"a":1,"b":0}`}, []string{`{"a":4}`, `{"b":0}`, `{"a":"x"}`}},
	{`{"allOf":[{"properties":{"a":{"const":1}},"additionalProperties":false},{"properties":{"a":true,"b":true}}]}`,
		[]string{`{}`, `{"a":1}`}, []string{`{"b":1}`}},
	{`{"$ref":"#/$defs/no~1de","$defs":{"no/de":{"type":"object",
		"properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/no~1de"},{"type":"null"}]}},"required":["v","next"]}}}`,
		[]string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":null}}`}, []string{`{"v":1}`, `{"v":1,"next":{}}`}},
	{`{"type":"string","format":"date"}`,
		[]string{`"2024-02-29"`, `"1999-12-31"`, `"2000-02-29"`},
		[]string{`"2023-02-29"`, `"1900-02-29"`, `"2024-04-31"`, `"2024-13-01"`, `"24-01-01"`}},
	{`{"format":"date-time"}`,
		[]string{`"2024-02-29T12:00:00Z"`, `"2024-01-01T00:00:00.123+05:30"`},
		[]string{`"2024-01-01"`, `"2024-01-01T24:00:00Z"`}},
	{`{"format":"ipv6"}`, []string{`"::"`, `"::1"`, `"1:2:3:4:5:6:7:8"`, `"fe80::1:2"`}, []string{`"1:2:3"`, `"1::2::3"`, `":::"`}},
	{`{"format":"uuid"}`, []string{`"123e4567-e89b-12d3-a456-426614174000"`}, []string{`"123e4567"`}},
}

func TestDocuments(t *testing.T) {
	v := fixture(t)
	rng := random(1)
	for _, c := range documents {
		g := compiled(t, v, c.schema)
		for range 3 {
			for _, text := range c.fit {
				ok, at := accepts(g, text, rng)
				require.True(t, ok, "%s does not take %s: %s", c.schema, text, at)
			}
			for _, text := range c.unfit {
				ok, at := accepts(g, text, rng)
				require.False(t, ok, "%s takes %s: %s", c.schema, text, at)
			}
		}
	}
}

// Unsupported or impossible schemas are refused in one line that names the keyword.
func TestRefused(t *testing.T) {
	v := fixture(t)
	deep := strings.Repeat(`{"items":`, 101) + `{}` + strings.Repeat("}", 101)
	for schema, want := range map[string]string{
		``:                            "schema: empty, expected a JSON object",
		`{"type":`:                    "schema: not JSON after byte 8",
		`{} {}`:                       "more than one JSON value",
		`[]`:                          "expected, an object or a boolean",
		`{"type":"strnig"}`:           `schema #: type: found "strnig", expected null,`,
		`{"a":1,"a":2}`:               `the key "a" twice`,
		deep:                          "nested more than 100 deep; name what recurs in $defs",
		`{"not":{}}`:                  `schema #: "not" is not supported`,
		`{"uniqueItems":true}`:        "uniqueItems is not supported",
		`{"uniqueItems":"true"}`:      "schema #: uniqueItems: expected true or false",
		`{"items":{"nullable":null}}`: "schema #/items: nullable: expected true or false",
		`{"minLength":-1}`:            "minLength: expected an integer from 0",
		`{"minLength":"1"}`:           "minLength: expected an integer from 0",
		`{"enum":[]}`:                 "enum: expected a list of values",
		`{"anyOf":[]}`:                "anyOf: expected a list of schemas",
		`{"oneOf":[]}`:                "oneOf: expected a list of schemas",
		`{"required":"a"}`:            "required: expected a list of names",
		`{"properties":[]}`:           "properties: expected an object",
		`{"$ref":"other.json"}`:       `$ref: found "other.json", expected a schema within this one, such as #/$defs/node`,
		`{"$ref":"#"}`:                "refers to itself without anything in between",
		`{"properties":{"a~/b":{"items":{"format":"colour"}}}}`: `schema #/properties/a~0~1b/items: format: found "colour", expected one of`,
		`{"pattern":"(?=a)"}`:                           `the pattern "(?=a)": `,
		`{"pattern":"a)(b"}`:                            `the pattern "a)(b": `,
		`{"pattern":"\\bword"}`:                         `has \b, \B or (?m), which are not supported`,
		`{"multipleOf":-2}`:                             "multipleOf: expected a number above 0",
		`{"multipleOf":0.3}`:                            "multipleOf: found 0.3; integers up to 1000 are supported, and powers of ten like 0.01",
		`{"minimum":1e999}`:                             "minimum: 1e999 is out of reach",
		`{"type":"integer","exclusiveMinimum":true}`:    "exclusiveMinimum: expected a number",
		`{"type":"string","minLength":3,"maxLength":2}`: "need numbers of too many digits, or a value must contain itself",
		`{"type":"integer","minimum":3,"maximum":2}`:    "no value matches",
		`false`: "no value matches",
		`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`: "a value must contain itself",
		`{"type":"object","minProperties":2}`:                                "minProperties: found 2 where 0 properties are required",
		`{"type":"object","maxProperties":2}`:                                "maxProperties: found 2",
		`{"enum":[{"a":1}],"properties":{"a":{}}}`:                           "in enum or const is not supported together",
		`{"type":"array","minItems":5000}`:                                   "found 5000, at most 4096 is supported",
	} {
		_, err := JSONSchema(v, json.RawMessage(schema))
		require.ErrorContains(t, err, want, schema)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := Regex(v, `a^b`)
	require.ErrorContains(t, err, `the pattern "a^b" matches no text`)
}
