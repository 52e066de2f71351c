// Package parquet writes the rows of a record as a Parquet file with typed columns. It knows the types of values, not their
// meaning.
package parquet

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/rows"
)

// Kind is the type of a column.
type Kind int

// The kinds. Any other value, such as a list of lists, is written as text.
const (
	Bool Kind = iota + 1
	Integer
	Double
	Integers // a list
	Doubles
	Text
)

// Kinds are the kinds of the columns that Go types are flattened to, by name; a name ending in .* stands for all with that
// prefix. numbered says that lists have a column for each item.
func Kinds(numbered bool, types ...reflect.Type) map[string]Kind {
	kinds := map[string]Kind{}
	for _, t := range types {
		declare(kinds, t, "", numbered)
	}
	return kinds
}

func declare(kinds map[string]Kind, t reflect.Type, name string, numbered bool) {
	switch t.Kind() {
	case reflect.Pointer:
		declare(kinds, t.Elem(), name, numbered)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && key == "":
				declare(kinds, f.Type, name, numbered)
			case key != "-" && key != "":
				declare(kinds, f.Type, join(name, key), numbered)
			}
		}
	case reflect.Map:
		declare(kinds, t.Elem(), join(name, "*"), numbered)
	case reflect.Slice, reflect.Array:
		if numbered {
			declare(kinds, t.Elem(), join(name, "*"), numbered)
		} else if item := plain(t.Elem()); item == Integer || item == Double {
			kinds[name] = item + Integers - Integer
		}
	default:
		if kind := plain(t); kind != 0 {
			kinds[name] = kind
		}
	}
}

func join(name, key string) string { return strings.TrimPrefix(name+"."+key, ".") }

// plain is the kind of a single value; 0 if unknown.
func plain(t reflect.Type) Kind {
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return Bool
	case k >= reflect.Int && k <= reflect.Int64, k >= reflect.Uint8 && k <= reflect.Uint32:
		return Integer
	case k == reflect.Float32 || k == reflect.Float64:
		return Double
	case k == reflect.String:
		return Text
	}
	return 0
}

// Columns are the columns of rows, with declared kinds as far as all values fit these.
type Columns struct {
	rows.Columns
	Declared map[string]Kind
	kinds    map[string]Kind
}

// Add adds the columns of a row.
func (c *Columns) Add(row []rows.Cell) {
	if c.kinds == nil {
		c.kinds = map[string]Kind{}
	}
	c.Columns.Add(row)
	for _, cell := range row {
		if string(cell.JSON) == "null" {
			continue
		}
		kind := c.kinds[cell.Name]
		if kind == 0 {
			kind = c.declared(cell)
		}
		for !fits(kind, cell.JSON) {
			kind = map[Kind]Kind{Integer: Double, Integers: Doubles}[kind]
			if kind == 0 {
				kind = Text
			}
		}
		c.kinds[cell.Name] = kind
	}
}

// declared is the kind of a column, inferred from its value if it is not declared.
func (c *Columns) declared(cell rows.Cell) Kind {
	if kind := c.Declared[cell.Name]; kind != 0 {
		return kind
	}
	if at := strings.IndexByte(cell.Name, '.'); at > 0 && c.Declared[cell.Name[:at]+".*"] != 0 {
		return c.Declared[cell.Name[:at]+".*"]
	}
	for _, kind := range []Kind{Bool, Double, Doubles} {
		if fits(kind, cell.JSON) {
			return kind
		}
	}
	return Text
}

// fits reports whether a value is of a kind. All fit text.
func fits(kind Kind, value json.RawMessage) bool {
	var err error
	switch kind {
	case Bool:
		return string(value) == "true" || string(value) == "false"
	case Integer:
		_, err = strconv.ParseInt(string(value), 10, 64)
	case Double:
		_, err = strconv.ParseFloat(string(value), 64)
	case Integers:
		err = json.Unmarshal(value, &jsonl.List[int64]{})
	case Doubles:
		err = json.Unmarshal(value, &jsonl.List[float64]{})
	}
	return err == nil
}
