package rows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Flatten gives the members of an object in their order, those of objects inside under names with dots. Lists are
// numbered in the same way, or stay one cell.
func Flatten(object []byte, numbered bool) (row []Cell, err error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the brace
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		cells, err := flattenValue(fmt.Sprint(key), value, numbered)
		if err != nil {
			return nil, err
		}
		row = append(row, cells...)
	}
	return row, nil
}

func flattenValue(name string, value json.RawMessage, numbered bool) (row []Cell, err error) {
	switch {
	case value[0] == '{':
		row, err = Flatten(value, numbered)
	case value[0] == '[' && numbered:
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		for i, v := range list {
			cells, err := flattenValue(strconv.Itoa(i), v, numbered)
			if err != nil {
				return nil, err
			}
			row = append(row, cells...)
		}
	default:
		return []Cell{{name, value}}, nil
	}
	for i := range row {
		row[i].Name = name + "." + row[i].Name
	}
	return row, err
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
