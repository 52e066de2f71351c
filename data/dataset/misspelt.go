package dataset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/settings"
)

// Columns, and keys of a test, that a row may well be without: nobody would notice that one is misspelt. Without the others a
// row is refused, or nothing hangs on them.
var (
	optionalColumns = []string{"starter_code", "time_limit_ms", "memory_limit_mb", "tolerance", "checker", "metadata", "public_tests",
		"source"}
	optionalKeys = []string{"time_limit_ms", "memory_limit_mb", "public", "setup"}
)

// Misspellings names the columns, and keys of tests, that look like one that is read and was not there, with that one.
func (m *Manifest) Misspellings() (names []string) {
	for _, column := range slices.Sorted(maps.Keys(m.Misspelt)) {
		names = append(names, fmt.Sprintf("%s (did you mean %s?)", column, m.Misspelt[column]))
	}
	return names
}

// meant is the column that a row's column of another name looks like, "" where there is none, or where the row has that, too:
// the other is further data then.
func (w *writer) meant(r *row, column string) string {
	near, known := w.near[column]
	if !known {
		if key, ofTest := strings.CutPrefix(column, "tests[]."); !ofTest {
			near = nearOf(column, optionalColumns)
		} else if near = nearOf(key, optionalKeys); near != "" {
			near = "tests[]." + near
		}
		w.near[column] = near
	}
	if r.cells[near] != nil {
		return ""
	}
	return near
}

// nearOf is the known name that a name could be a slip for: its letters in another case, without the unit at its end, or one slip
// away, of a long name two. Public sets have many columns, and a word too many is worse there than one that is missing.
func nearOf(name string, known []string) string {
	plain := strings.NewReplacer("_", "", "-", "", " ", "", ".", "")
	letters := strings.ToLower(plain.Replace(name))
	for _, k := range known {
		want := plain.Replace(k)
		most := 1
		if len(want) > 8 {
			most = 2
		}
		if letters+"ms" == want || letters+"mb" == want || settings.Slips(letters, want) <= most {
			return k
		}
	}
	return ""
}
