package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

var errNoObject = errors.New("expected a JSON object")

// Flatten returns the members of an object in their order, those of nested objects with dotted names. Lists are flattened
// the same way if numbered is set, else each is one cell. Incomplete JSON, or text after the object, is an error.
func Flatten(object []byte, numbered bool) ([]Cell, error) {
	if !json.Valid(object) {
		return nil, json.Unmarshal(object, new(any)) // returns the position of the error
	}
	if !bytes.HasPrefix(object, []byte("{")) {
		return nil, errNoObject
	}
	return members(object, numbered), nil
}

// members are the cells of a valid object.
func members(object []byte, numbered bool) (row []Cell) {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token() // the opening brace
	for dec.More() {
		key, _ := dec.Token()
		var value json.RawMessage
		_ = dec.Decode(&value)
		row = append(row, flattenValue(fmt.Sprint(key), value, numbered)...)
	}
	return row
}

func flattenValue(name string, value json.RawMessage, numbered bool) (row []Cell) {
	switch {
	case value[0] == '{':
		row = members(value, numbered)
	case value[0] == '[' && numbered:
		var list []json.RawMessage
		_ = json.Unmarshal(value, &list)
		for i, v := range list {
			row = append(row, flattenValue(strconv.Itoa(i), v, numbered)...)
		}
	default:
		return []Cell{{name, value}}
	}
	for i := range row {
		row[i].Name = name + "." + row[i].Name
	}
	return row
}

// Columns are the names of all cells in some rows. A new name is inserted after the one that it follows in its row, so
// that related columns stay together.
type Columns struct {
	Names []string
	known map[string]bool
}

// Has reports whether any row had a cell of that name.
func (c *Columns) Has(name string) bool { return c.known[name] }

// Add adds the names of a row.
func (c *Columns) Add(row []Cell) {
	if c.known == nil {
		c.known = map[string]bool{}
	}
	at := 0
	for _, cell := range row {
		if !c.known[cell.Name] {
			c.known[cell.Name] = true
			c.Names = slices.Insert(c.Names, at, cell.Name)
		} else if at < len(c.Names) && c.Names[at] == cell.Name {
			at++
			continue
		} else {
			at = slices.Index(c.Names, cell.Name)
		}
		at++
	}
}
