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

// row is a record of a set, with the first thing that was wrong with it.
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

// has tells whether a column is there.
func (r row) has(name string) bool { return r.Cells[name] != nil }

// text is a column that must be a string; one that is wanted must not be blank.
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

// list is a column of strings; as text it is JSON of one.
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

// day is a column with a time, as a text or as a count since 1970, of seconds or a part of them. It gives YYYY-MM-DD.
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

// id is a column that names the row: text, or a whole number.
func (r row) id(name string) string {
	var n int64
	if raw := r.Cells[name]; raw != nil && json.Unmarshal(raw, &n) == nil {
		return strconv.FormatInt(n, 10)
	}
	return r.text(name, true)
}

// hasCollection tells whether a folder has a collection; what is no folder here is on the Hub, or not there at all.
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

// located says where an error is.
func located(r dataset.Record, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", r.Where, err)
}
