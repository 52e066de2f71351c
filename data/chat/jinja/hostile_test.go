package jinja

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// Without limits, every template here would take for ever, or all memory. By default a few are tested; GRPO_TEXTS tests all.
var (
	few = []string{
		"loops", "loops over nothing", "doubling", "nested", "repeat", "recursion", "two recursions", "replace", "join", "format",
		"brackets", "elifs",
	}
	hostile = map[string]string{
		"loops": `{% for a in range(9**5) %}{% for b in range(9**5) %}` +
			`{% for c in range(9**5) %}x{% endfor %}{% endfor %}{% endfor %}`,
		"range":              `{{ range(10**18)|length }}`,
		"range of one loop":  `{% for a in range(10**18) %}{% endfor %}`,
		"loops over nothing": `{% set s = range(9**5) %}{% for a in s %}{% for b in s %}{% endfor %}{% endfor %}`,
		"texts compared": `{% set s = 'a' * 9**6 ~ 'a' %}{% set t = 'a' * 9**6 ~ 'b' %}` +
			`{% for i in range(9**5) %}{% if s < t %}{% endif %}{% endfor %}`,
		"equal texts": `{% set s = 'a' * 9**6 ~ 'a' %}{% set t = 'a' * 9**6 ~ 'b' %}` +
			`{% for i in range(9**5) %}{% if s == t %}{% endif %}{% endfor %}`,
		"lower": `{% set s = 'a' * 9**6 %}{% for i in range(9**5) %}{% if s is lower %}{% endif %}{% endfor %}`,
		"long keys": `{% set s = 'a' * 9**6 %}` +
			`{% for i in range(9**5) %}{% if s in {} %}{% endif %}{{ {}[s] }}{{ {}.get(s) }}{% endfor %}`,
		"prefixes": `{% set s = 'a' * 9**6 %}{% set t = s ~ 'b' %}` +
			`{% for i in range(9**5) %}{% if t.startswith(s) %}{% endif %}{% endfor %}`,
		"doubling": `{% set n = namespace(s='ab') %}` +
			`{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}{{ n.s|length }}`,
		"doubling lists": `{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}{{ n.s|length }}`,
		"tilde":          `{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s ~ 'x' }}`,
		"json": `{% set n = namespace(s=[1]) %}` +
			`{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s|tojson }}`,
		"equality": `{% set n = namespace(s=[1], t=[1]) %}{% for i in range(99) %}` +
			`{% set n.s = [n.s, n.s] %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ n.s == n.t }}`,
		"nested":            `{% set n = namespace(s=[1]) %}{% for i in range(9**5) %}{% set n.s = [n.s] %}{% endfor %}{{ n.s }}`,
		"itself":            `{% set n = namespace() %}{% set n.n = n %}{{ n }}`,
		"repeat":            `{{ 'x' * 10**15 }}`,
		"repeat lists":      `{{ ([1] * 10**15)|length }}`,
		"recursion":         `{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}`,
		"two recursions":    `{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}`,
		"recursive loop":    `{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}`,
		"caller":            `{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}`,
		"replace":           `{% set s = 'a' * 9**5 %}{{ s.replace('a', s).replace('a', s)|length }}`,
		"replace with none": `{% set s = 'a' * 9**6 %}{{ s.replace('', s)|length }}`,
		"join":              `{% set s = 'a' * 9**5 %}{{ (s|list)|join(s) }}`,
		"join text":         `{% set s = 'a' * 9**5 %}{{ s.join(s) }}`,
		"indent":            `{{ ('a\n' * 9**5)|indent(10**9) }}`,
		"json indent":       `{{ [1]|tojson(indent=10**9) }}`,
		"json text indent": `{% set s = ' ' * 9**6 %}{{ [[[[[[[1,2,3,4]]]]]]]|tojson(indent=s) }}{% for i in range(9**6) %}` +
			`{{ [[[[[1,2,3,4]]]]]|tojson(indent=s) }}{% endfor %}`,
		"separators": `{% set s = ' ' * 9**6 %}{{ range(9**6)|list|tojson(separators=(s, s)) }}`,
		"format":     `{% set s = '%s' * 9**5 %}{% set t = 'a' * 9**5 %}{{ s % ((t,) * 9**5) }}`,
		"braces":     `{% set s = '{0}' * 9**5 %}{% set t = 'a' * 9**5 %}{{ s.format(t) }}`,
		"split":      `{% for i in range(9**9) %}{% set x = ('a ' * 9**5).split(' ') %}{% endfor %}`,
		"batch":      `{{ [1]|batch(10**12, 'x')|list }}`,
		"sort":       `{% for i in range(9**5) %}{% set x = range(9**4)|sort %}{% endfor %}`,
		"search":     `{% set s = 'a' * 9**6 %}{% for i in range(9**9) %}{{ 'b' in s }}{% endfor %}`,
		"strip":      `{% set s = 'a' * 9**6 %}{% for i in range(9**9) %}{{ s.strip(s) }}{% endfor %}`,
		"output":     `{% set s = 'a' * 9**6 %}{% for i in range(9**9) %}{{ s }}{% endfor %}`,
		"captured":   `{% for i in range(9**9) %}{% set x %}{{ x }}{{ x }}aaaaaaaaaaaaaaaa{% endset %}{% endfor %}`,
		"keys":       `{% set n = namespace(d={}) %}{% for i in range(9**9) %}{% set n.d = dict(n.d, **{}) %}{% endfor %}`,
		"many keys": `{% set n = namespace(d={'a':1}) %}{% for i in range(9**9) %}` +
			`{% set n.d = {'a': n.d, 'b': n.d} %}{{ n.d == n.d }}{% endfor %}`,
		"power":             `{{ 9 ** 9 ** 9 }}`,
		"numbers":           `{% set n = namespace(x=3) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}{{ n.x }}`,
		"brackets":          `{{ ` + strings.Repeat("(", 80_000) + `1`,
		"brackets of lists": `{{ ` + strings.Repeat("[", 80_000) + `1`,
		"nots":              `{{ ` + strings.Repeat("not ", 50_000) + `1 }}`,
		"signs":             `{{ ` + strings.Repeat("-", 200_000) + `1 }}`,
		"sum":               `{{ 1` + strings.Repeat("+1", 80_000) + ` }}`,
		"dots":              `{{ a` + strings.Repeat(".a", 80_000) + ` }}`,
		"calls":             `{{ a` + strings.Repeat("()", 80_000) + ` }}`,
		"filters":           `{{ a` + strings.Repeat("|d", 80_000) + ` }}`,
		"filter block":      `{% filter d` + strings.Repeat("|d", 80_000) + ` %}{% endfilter %}`,
		"ifs":               strings.Repeat("{% if 1 %}", 20_000),
		"elifs":             `{% if 0 %}` + strings.Repeat("{% elif 0 %}", 20_000) + `{% endif %}`,
		"choices":           `{{ 1` + strings.Repeat(" if 0 else 1", 20_000) + ` }}`,
		"powers":            `{{ 1` + strings.Repeat("**1", 80_000) + ` }}`,
		"size":              strings.Repeat("x", 2<<20),
	}
)

func TestHostile(t *testing.T) {
	for name, source := range hostile {
		if os.Getenv("GRPO_TEXTS") == "" && !slices.Contains(few, name) {
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cputime.Used()
		tpl, err := Parse(source)
		if err == nil {
			_, err = tpl.Render(NewDict(), Options{})
		}
		took := cputime.Used() - start
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: it ends well", name)
		}
		if took > time.Second && !race.Enabled { // the race detector is slow
			t.Errorf("%s: it took %v", name, took)
		}
		// The total of allocations is a bound of what was in use.
		if made := after.TotalAlloc - before.TotalAlloc; made > 256<<20 {
			t.Errorf("%s: it took %d MB", name, made>>20)
		}
		if testing.Verbose() {
			t.Logf("%s: %v, %d MB: %.120v", name, took, (after.TotalAlloc-before.TotalAlloc)>>20, err)
		}
	}
}
