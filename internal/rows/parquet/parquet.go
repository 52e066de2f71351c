package parquet

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/seed-7879b91d/grpo/internal/rows"
)

// Writer writes rows. Every column is optional.
type Writer struct {
	to    *parquet.GenericWriter[any]
	at    map[string]int // index of a column, by name
	kinds []Kind
}

// New starts a table with these columns.
func New(to io.Writer, table string, c *Columns) *Writer {
	w := &Writer{at: map[string]int{}}
	group := parquet.Group{}
	var order []string
	for i, name := range c.Names {
		kind := c.kinds[name]
		if kind == 0 { // only nulls
			kind = Text
		}
		w.at[name], w.kinds = i, append(w.kinds, kind)
		column := column(name)
		for group[column] != nil {
			column += "_"
		}
		group[column], order = node(kind), append(order, column)
	}
	w.to = parquet.NewGenericWriter[any](to, parquet.NewSchema(table, ordered{group, order}), parquet.Compression(&parquet.Snappy),
		parquet.CreatedBy("grpo", "1", ""))
	return w
}

// column is a column's name as the library allows it.
func column(name string) string { return strings.ReplaceAll(name, ",", "_") }

func node(kind Kind) parquet.Node {
	switch kind {
	case Bool:
		return parquet.Optional(parquet.Leaf(parquet.BooleanType))
	case Integer:
		return parquet.Optional(parquet.Int(64))
	case Double:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType))
	case Integers:
		return parquet.Optional(parquet.List(parquet.Int(64)))
	case Doubles:
		return parquet.Optional(parquet.List(parquet.Leaf(parquet.DoubleType)))
	}
	return parquet.Optional(parquet.String())
}

// ordered is a group that keeps the order of its columns; the library would sort them.
type ordered struct {
	parquet.Group
	names []string
}

func (o ordered) Fields() []parquet.Field {
	fields := o.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int { return slices.Index(o.names, a.Name()) - slices.Index(o.names, b.Name()) })
	return fields
}

// Row adds a row. Missing columns are null.
func (w *Writer) Row(row []rows.Cell) error {
	columns := make([][]parquet.Value, len(w.kinds))
	for _, c := range row {
		at := w.at[c.Name]
		values, err := values(w.kinds[at], c, at)
		if err != nil {
			return err
		}
		columns[at] = values
	}
	var all parquet.Row
	for at, values := range columns {
		if values == nil {
			values = []parquet.Value{parquet.NullValue().Level(0, 0, at)}
		}
		all = append(all, values...)
	}
	_, err := w.to.WriteRows([]parquet.Row{all})
	return err
}

// Close completes the file.
func (w *Writer) Close() error { return w.to.Close() }

// values are the Parquet values of a cell.
func values(kind Kind, c rows.Cell, at int) (all []parquet.Value, err error) {
	if string(c.JSON) == "null" {
		return nil, nil
	}
	switch kind {
	case Integers:
		var list []int64
		err = json.Unmarshal(c.JSON, &list)
		return items(list, parquet.Int64Value, at), err
	case Doubles:
		var list []float64
		err = json.Unmarshal(c.JSON, &list)
		return items(list, parquet.DoubleValue, at), err
	}
	var value parquet.Value
	switch kind {
	case Bool:
		value = parquet.BooleanValue(c.JSON[0] == 't')
	case Integer:
		var v int64
		err = json.Unmarshal(c.JSON, &v)
		value = parquet.Int64Value(v)
	case Double:
		var v float64
		err = json.Unmarshal(c.JSON, &v)
		value = parquet.DoubleValue(v)
	default:
		value = parquet.ByteArrayValue([]byte(c.Text()))
	}
	return []parquet.Value{value.Level(0, 1, at)}, err
}

// items are the Parquet values of a list: the first one begins a row, and an empty list is not null.
func items[T any](list []T, value func(T) parquet.Value, at int) (all []parquet.Value) {
	for i, v := range list {
		all = append(all, value(v).Level(min(i, 1), 2, at))
	}
	if len(list) == 0 {
		all = append(all, parquet.NullValue().Level(0, 1, at))
	}
	return all
}
