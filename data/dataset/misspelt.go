package dataset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/settings"
)

// Optional columns and keys of a test, of which a misspelling would go unnoticed. Others are not checked: without them a row is
// refused, or nothing depends on them.
var (
	optionalColumns = []string{"starter_code", "time_limit_ms", "memory_limit_mb", "tolerance", "checker", "metadata", "public_tests",
		"source"}
	optionalKeys = []string{"time_limit_ms", "memory_limit_mb", "public", "setup"}
)

// Misspellings describes the unread columns and keys of tests that resemble a known name, with that name.
func (m *Manifest) Misspellings() (names []string) {
	for _, column := range slices.Sorted(maps.Keys(m.Misspelt)) {
		names = append(names, fmt.Sprintf("%s (did you mean %s?)", column, m.Misspelt[column]))
	}
	return names
}

// resembled is the known column that an unread column of a row resembles, or "". It is "" too if the row has the known column,
// because the other is then further data.
func (w *writer) resembled(r *row, column string) string {
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

// nearOf is the known name that a name may be a misspelling of: in another case, without the unit at its end, or one slip away
// (two for long names). It is strict, because public sets have many columns and a false alarm is worse than a missed one.
func nearOf(name string, known []string) string {
	plain := strings.NewReplacer("_", "", "-", "", " ", "", ".", "")
	letters := strings.ToLower(plain.Replace(name))
	for _, k := range known {
		want := plain.Replace(k)
		most := 1
		if len(want) > 8 {
			most = 2
		}
		if letters+"ms" == want || letters+"mb" == want || settings.EditDistance(letters, want) <= most {
			return k
		}
	}
	return ""
}
