package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// row is a record of a set, with the first error found in it.
type row struct {
	dataset.Record
	err *error
}

func refuse(format string, args ...any) error { return badinput.Errorf(format, args...) }

func newRow(r dataset.Record) row { return row{r, new(error)} }

func (r row) fail(err error) {
	if *r.err == nil && err != nil {
		*r.err = err
	}
}

// has reports whether a column is present.
func (r row) has(name string) bool { return r.Cells[name] != nil }

// text is a column that must be a string, and not blank if wanted.
func (r row) text(name string, wanted bool) (text string) {
	raw := r.Cells[name]
	switch {
	case raw == nil && wanted:
		r.fail(refuse("%q: found nothing, expected text", name))
	case raw == nil:
	case json.Unmarshal(raw, &text) != nil:
		r.fail(refuse("%q: found %.40s, expected text", name, raw))
	case wanted && strings.TrimSpace(text) == "":
		r.fail(refuse("%q: found blank text", name))
	}
	return text
}

// list is a column with a list of strings, possibly as JSON in a string.
func (r row) list(name string) (list []string) {
	raw := r.Cells[name]
	if raw == nil {
		return nil
	}
	var inside string
	if json.Unmarshal(raw, &inside) == nil {
		raw = json.RawMessage(inside)
	}
	if json.Unmarshal(raw, &list) != nil {
		r.fail(refuse("%q: found %.40s, expected a list of texts", name, raw))
	}
	return list
}

// number is a column that must be a whole number.
func (r row) number(name string) (n int) {
	raw := r.Cells[name]
	if raw == nil {
		r.fail(refuse("%q: found nothing, expected a whole number", name))
	} else if json.Unmarshal(raw, &n) != nil {
		r.fail(refuse("%q: found %.40s, expected a whole number", name, raw))
	}
	return n
}

// day is the date of a column, as YYYY-MM-DD. The column has a text, or the time since 1970 in s, ms, µs or ns.
func (r row) day(name string) string {
	raw := r.Cells[name]
	var n int64
	if raw != nil && json.Unmarshal(raw, &n) == nil {
		for n > 1e11 {
			n /= 1000
		}
		return time.Unix(n, 0).UTC().Format(time.DateOnly)
	}
	text := r.text(name, true)
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04:05", time.DateTime, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Format(time.DateOnly)
		}
	}
	r.fail(refuse("%q: found %q, expected a date such as 2024-08-01T00:00:00", name, text))
	return ""
}

// id is a column with an id: text, or a whole number.
func (r row) id(name string) string {
	var n int64
	if raw := r.Cells[name]; raw != nil && json.Unmarshal(raw, &n) == nil {
		return strconv.FormatInt(n, 10)
	}
	return r.text(name, true)
}

// hasCollection reports whether a folder has a collection. A source that does not exist here is taken for one on the Hub.
func hasCollection(source, name string) bool {
	info, err := os.Stat(source)
	if err != nil {
		return true
	}
	if !info.IsDir() {
		return false
	}
	info, err = os.Stat(filepath.Join(source, name))
	return err == nil && info.IsDir()
}

func collections(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// located adds the place of the row to an error.
func located(r dataset.Record, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", r.Where, err)
}
