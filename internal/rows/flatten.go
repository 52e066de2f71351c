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

// Flatten gives the members of an object in their order, those of objects inside under names with dots. Lists are
// numbered in the same way, or stay one cell. A text that is cut off, or goes on behind the object, is refused.
func Flatten(object []byte, numbered bool) ([]Cell, error) {
	if !json.Valid(object) {
		return nil, json.Unmarshal(object, new(any)) // which says where
	}
	if !bytes.HasPrefix(object, []byte("{")) {
		return nil, errNoObject
	}
	return members(object, numbered), nil
}

// members are those of an object that is valid.
func members(object []byte, numbered bool) (row []Cell) {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token() // the brace
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

// Columns are the names of all cells of some rows. One that a later row brings has its place behind the one that it
// follows there, so what belongs together stays together.
type Columns struct {
	Names []string
	known map[string]bool
}

// Has tells whether a row has brought a cell of that name.
func (c *Columns) Has(name string) bool { return c.known[name] }

// Add adds those of a row.
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
