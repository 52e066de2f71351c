package grammar

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// A value that fits, or may fit, two branches of oneOf is refused, and the branches are named.
func TestWhatIsNotApart(t *testing.T) {
	v := fixture(t)
	for _, schema := range []string{
		`{"oneOf":[{"type":"integer"},{"type":"number"}]}`,
		`{"oneOf":[{"const":1.0},{"type":"integer"}]}`,
		`{"oneOf":[{"enum":["a","b"]},{"enum":["b","c"]}]}`,
		`{"oneOf":[{"maxLength":3},{"minLength":2}]}`,
		`{"properties":{"a":{},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`,
		`{"oneOf":[{"properties":{"k":{"const":1}}},{"properties":{"k":{"const":2}}}]}`, // {} fits both
		`{"type":["object","null"],"oneOf":[{"properties":{"k":{"const":1}},"required":["k"]},
			{"properties":{"k":{"const":2}},"required":["k"]}]}`, // so does null
		`{"oneOf":[{"type":"string","nullable":true},{"type":"null"}]}`,
	} {
		_, err := JSONSchema(v, json.RawMessage(schema))
		require.ErrorContains(t, err, "schema #: oneOf: a value may match both of its branches 0 and 1, which a grammar cannot exclude", schema)
	}
	_, err := JSONSchema(v, json.RawMessage(`{"items":{"oneOf":[{"type":"null"},{"type":"string"},true]}}`))
	require.ErrorContains(t, err, "schema #/items: oneOf: a value may match both of its branches 0 and 2")
}

// Documents drawn under the masks of an accepted oneOf fit exactly one of its branches.
func TestDrawnOneOf(t *testing.T) {
	race.SkipSerial(t)
	v := fixture(t)
	taken := 0
	for seed := range 20 * tries(t) {
		d := schemaDrawer{random(seed)}
		s := m{"oneOf": []any{d.schema(1).schema, d.schema(1).schema}}
		if d.coin() {
			s = m{"oneOf": []any{d.schema(1).schema, s, d.tagged("a", d.schema(0)).schema}}
		}
		if d.coin() {
			s["type"] = []any{"object", "null", "string", "array"}[:1+d.IntN(4)]
		}
		text, err := json.Marshal(s)
		require.NoError(t, err)
		g, err := JSONSchema(v, text)
		if err != nil {
			require.Regexp(t, "oneOf: a value may match both|no value matches", err.Error(), "%s", text)
			continue
		}
		taken++
		root, err := parse(string(text))
		require.NoError(t, err)
		for range 3 {
			document := walk(t, g, d.Rand, d.IntN(60))
			if require.True(t, utf8.ValidString(document)); strings.ContainsRune(document, utf8.RuneError) {
				continue // the validator would count half a character
			}
			value, err := parse(document)
			require.NoError(t, err, "%s\ndrew %q", text, document)
			require.NoError(t, validator{root}.check(root, value), "%s\ndrew %q", text, document)
		}
	}
	require.Greater(t, taken, 100)
}

// Many branches are proved disjoint, or given up, in a short time.
func TestManyBranches(t *testing.T) {
	race.SkipSerial(t)
	v := fixture(t)
	tagged, enums := []string{}, []string{}
	for i := range 250 {
		tagged = append(tagged, fmt.Sprintf(`{"type":"object","properties":{"a":{"type":"object"},"k":{"const":"k%d"}},"required":["a","k"]}`, i))
		enums = append(enums, fmt.Sprintf(`{"enum":[%d%s]}`, i, strings.Repeat(fmt.Sprintf(`,"v%d"`, i), 400)))
	}
	deep := `{"type":"object","properties":{` + strings.Repeat(`"a%d":{"$ref":"#/$defs/x"},`, 40) + `"z":{}},"required":["z"` +
		strings.Repeat(`,"a%d"`, 40) + `]}`
	for i := range 40 {
		deep = strings.Replace(deep, "%d", fmt.Sprint(i), 1)
	}
	for i := range 40 {
		deep = strings.Replace(deep, "%d", fmt.Sprint(i), 1)
	}
	for schema, want := range map[string]string{
		`{"oneOf":[` + strings.Join(tagged, ",") + `]}`:                    "",
		`{"oneOf":[` + strings.Join(enums, ",") + `]}`:                     "oneOf: it is too large to prove",
		`{"oneOf":[` + deep + `,` + deep + `],"$defs":{"x":` + deep + `}}`: "oneOf: a value may match both",
	} {
		began := cputime.Used()
		_, err := JSONSchema(v, json.RawMessage(schema))
		t.Logf("%.40s: %v, %v", schema, cputime.Used()-began, err)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
		require.Less(t, (cputime.Used() - began).Seconds(), 5.0, "%.100s", schema)
	}
}
