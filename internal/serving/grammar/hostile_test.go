package grammar

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// hostile are schemas that are expensive, or would be without limits.
var hostile = map[string]string{
	"deep":         strings.Repeat(`{"items":`, 90) + `{}` + strings.Repeat("}", 90),
	"items":        `{"items":{"items":{"items":{"maxItems":4096},"minItems":4096},"minItems":4096},"minItems":4096}`,
	"product":      `{"allOf":[` + strings.Repeat(`{"anyOf":[{"minimum":1},{"maximum":2},{"minLength":3}]},`, 20) + `{}]}`,
	"pattern":      `{"pattern":"(a|b)*a(a|b){20}"}`,
	"patterns":     `{"anyOf":[` + strings.Repeat(`{"pattern":"\\pL{100}\\d{100}[^x]{50}"},`, 200) + `{}]}`,
	"repeat":       `{"pattern":"((a{0,100}){0,100}){0,100}"}`,
	"lengths":      `{"pattern":"^(ab|a|b){0,90}$","minLength":1,"maxLength":9000}`,
	"pointers":     `{"$defs":{` + chain(3000) + `"x3000":{"type":"null"}},"$ref":"#/$defs/x0"}`,
	"nesting":      `{"$defs":{` + nested(3000) + `"x3000":{"type":"null"}},"$ref":"#/$defs/x0"}`,
	"ambiguous":    `{"anyOf":[` + alike(300) + `{"type":"null"}]}`,
	"itself":       `{"anyOf":[{"$ref":"#"},{"allOf":[{"$ref":"#"},{"type":"null"}]},{"items":{"$ref":"#"}}]}`,
	"names":        `{"properties":{` + strings.TrimSuffix(names(5000), ",") + `},"additionalProperties":true}`,
	"enum":         `{"enum":[` + strings.Repeat(`"abcdefghijklmnopqrstuvwxyz",`, 20000) + `1]}`,
	"limit":        `{"minimum":1e-60,"maximum":1e60,"multipleOf":1000,"type":"integer"}`,
	"multiples":    `{"allOf":[` + strings.Repeat(`{"multipleOf":997},{"multipleOf":991},`, 9) + `{}]}`,
	"options":      `{"pattern":"` + strings.Repeat("a?", 8000) + `"}`,
	"long pattern": `{"pattern":"` + strings.Repeat("a?", 1<<18) + `"}`,
	"unicode":      `{"pattern":"` + strings.Repeat(`[\\pL\\pN]?`, 200) + `"}`,
	"long":         `{"const":"` + strings.Repeat("a", 900_000) + `"}`,
	"constants":    `{"oneOf":[` + constants(200) + `{"type":"null"}]}`,
	"longest name": `{"properties":{"` + strings.Repeat("a", 90_000) + `":{"not":{}}}}`,
}

func constants(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`{"const":[%d%s]},`, i, strings.Repeat(",1", 1000))
	}
	return text
}

func chain(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`"x%d":{"$ref":"#/$defs/x%d"},`, i, i+1)
	}
	return text
}

func nested(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`"x%d":{"items":{"$ref":"#/$defs/x%d"},"minItems":1},`, i, i+1)
	}
	return text
}

func alike(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`{"properties":{"a":{"$ref":"#"},"b%d":{"type":"null"}}},`, i)
	}
	return text
}

func names(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`"name %d":{"type":"string"},`, i)
	}
	return text
}

// Any schema is answered within a second and 64 MB: by a grammar, some of which are walked, or by an error of one line. By default a few
// schemas are tested; GRPO_TEXTS tests all.
func TestHostileSchemas(t *testing.T) {
	v := fixture(t)
	few := []string{"product", "pattern", "itself", "long", "names", "constants"}
	for name, schema := range hostile {
		if os.Getenv("GRPO_TEXTS") == "" && !slices.Contains(few, name) {
			continue
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := cputime.Used()
		g, err := JSONSchema(v, json.RawMessage(schema))
		took := cputime.Used() - start
		runtime.GC()
		runtime.ReadMemStats(&after)
		t.Logf("%-12s %6d ms %4d MB kept, %4d MB allocated: %.120v", name, took.Milliseconds(), int64(after.HeapAlloc-before.HeapAlloc)>>20,
			(after.TotalAlloc-before.TotalAlloc)>>20, err)
		if !race.Enabled {
			require.Less(t, took, time.Second, name)
		}
		require.Less(t, int64(after.HeapAlloc-before.HeapAlloc), int64(64<<20), name)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 600)
			continue
		}
		s, rng := g.Start(), random(1)
		for range 8 {
			ids := allowed(s)
			require.NotEmpty(t, ids, name)
			s.Accept(ids[rng.IntN(len(ids))])
		}
	}
}

// FuzzSchema: any schema is refused in one line, or gives a grammar whose documents are JSON.
func FuzzSchema(f *testing.F) {
	for _, c := range documents {
		f.Add(c.schema, uint64(1))
	}
	v := fixture(f)
	f.Fuzz(func(t *testing.T, schema string, seed uint64) {
		g, err := JSONSchema(v, json.RawMessage(schema))
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		s, rng := g.Start(), random(seed)
		var text []byte
		for range 100 {
			ids := allowed(s)
			require.NotEmpty(t, ids, "%s: stuck after %q", schema, text)
			id := closing(v, ids, ids[rng.IntN(len(ids))], rng)
			if s.Accept(id); id == v.ends[0] {
				require.True(t, json.Valid(text), "%s: %q", schema, text)
				return
			}
			text = append(text, v.texts[id]...)
		}
	})
}
