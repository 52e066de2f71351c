package parquet

import (
	"bytes"
	"io"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/rows"
)

// record has all fields that a line may have.
type record struct {
	Step    int            `json:"step"`
	Mean    float64        `json:"mean"`
	Updated bool           `json:"updated"`
	Name    string         `json:"name"`
	Counts  map[string]int `json:"counts"`
	Tokens  []int32        `json:"tokens"`
	Logs    []float32      `json:"logs"`
	Small   uint8          `json:"small"`
	Word    uint32         `json:"word"`
	Wide    uint64         `json:"wide"` // exceeds the integers of a column
	inside
	Hidden  int `json:"-"`
	Unnamed int
}

type inside struct {
	Interval [2]float64 `json:"interval"`
}

func TestKindsAreThoseOfTheTypes(t *testing.T) {
	declared := Kinds(false, reflect.TypeFor[record]())
	require.Equal(t, map[string]Kind{"step": Integer, "mean": Double, "updated": Bool, "name": Text, "counts.*": Integer,
		"tokens": Integers, "logs": Doubles, "interval": Doubles, "small": Integer, "word": Integer}, declared)
	require.Equal(t, Double, Kinds(true, reflect.TypeFor[record]())["interval.*"])
}

// back is a table as the library reads it.
func back(t *testing.T, c *Columns, all [][]rows.Cell) (names, types []string, got []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	w := New(&out, "table", c)
	for _, row := range all {
		require.NoError(t, w.Row(row))
	}
	require.NoError(t, w.Close())
	file, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	for _, f := range file.Schema().Fields() {
		kind := "list"
		if f.Leaf() {
			kind = f.Type().String()
		}
		names, types = append(names, f.Name()), append(types, kind)
	}
	r := parquet.NewGenericReader[map[string]any](file, file.Schema())
	got = make([]map[string]any, len(all))
	for i := range got {
		got[i] = map[string]any{}
	}
	n, _ := r.Read(got)
	require.Equal(t, len(all), n)
	require.NoError(t, r.Close())
	return names, types, got
}

func flat(t *testing.T, lines ...string) (all [][]rows.Cell) {
	t.Helper()
	for _, line := range lines {
		row, err := rows.Flatten([]byte(line), false)
		require.NoError(t, err)
		all = append(all, row)
	}
	return all
}

func TestTablesReadBack(t *testing.T) {
	all := flat(t,
		`{"step":1,"mean":1,"updated":true,"name":"é\n","counts":{"AC":3},"tokens":[1,2],"logs":[-1,0.5],"new":5,"x,y":null}`,
		`{"step":2,"mean":0.5,"updated":false,"counts":{"CE":1},"tokens":[],"logs":null,"new":"text","note":true}`)
	c := &Columns{Declared: Kinds(false, reflect.TypeFor[record]())}
	for _, row := range all {
		c.Add(row)
	}
	names, types, got := back(t, c, all)
	require.Equal(t, []string{"step", "mean", "updated", "counts.CE", "name", "counts.AC", "tokens", "logs", "new", "note", "x_y"}, names)
	require.Equal(t, []string{"INT(64,true)", "DOUBLE", "BOOLEAN", "INT(64,true)", "STRING", "INT(64,true)", "list", "list", "STRING",
		"BOOLEAN", "STRING"}, types)
	require.Equal(t, int64(1), got[0]["step"])
	require.Equal(t, 1.0, got[0]["mean"])
	require.Equal(t, true, got[0]["updated"])
	require.Equal(t, "é\n", got[0]["name"])
	require.Equal(t, int64(3), got[0]["counts.AC"])
	require.Nil(t, got[0]["counts.CE"])
	require.Equal(t, "5", got[0]["new"])
	require.Equal(t, int64(2), got[1]["step"])
	require.Nil(t, got[1]["name"])
	require.Equal(t, "text", got[1]["new"])
	require.Nil(t, got[1]["x_y"])
}

// Lists are read with their lengths; a missing one differs from an empty one.
func TestListsReadBack(t *testing.T) {
	all := flat(t, `{"step":1,"tokens":[1,2,3],"logs":[-1.5]}`, `{"step":2,"tokens":[],"logs":null}`, `{"step":3,"tokens":[4],"logs":[0,1]}`)
	c := &Columns{Declared: Kinds(false, reflect.TypeFor[record]())}
	for _, row := range all {
		c.Add(row)
	}
	var out bytes.Buffer
	w := New(&out, "table", c)
	for _, row := range all {
		require.NoError(t, w.Row(row))
	}
	require.NoError(t, w.Close())
	type line struct {
		Step   *int64    `parquet:"step,optional"`
		Tokens []int64   `parquet:"tokens,optional,list"`
		Logs   []float64 `parquet:"logs,optional,list"`
	}
	got, err := parquet.Read[line](bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, []int64{1, 2, 3}, got[0].Tokens)
	require.Equal(t, []float64{-1.5}, got[0].Logs)
	require.Empty(t, got[1].Tokens)
	require.NotNil(t, got[1].Tokens)
	require.Nil(t, got[1].Logs)
	require.Equal(t, []int64{4}, got[2].Tokens)
	require.Equal(t, []float64{0, 1}, got[2].Logs)
	require.Equal(t, int64(3), *got[2].Step)
}

// A value of another kind than declared widens its column, and loses nothing.
func TestValuesWidenTheirColumns(t *testing.T) {
	for lines, want := range map[[2]string]Kind{
		{`{"step":1}`, `{"step":1.5}`}: Double, {`{"step":1}`, `{"step":"a"}`}: Text, {`{"step":99999999999999999999}`, `{"step":1}`}: Double,
		{`{"tokens":[1]}`, `{"tokens":[1.5]}`}: Doubles, {`{"tokens":[1]}`, `{"tokens":[null]}`}: Text,
		{`{"updated":true}`, `{"updated":1}`}: Text,
		{`{"free":1}`, `{"free":2}`}:          Double, {`{"free":[1]}`, `{"free":[2]}`}: Doubles, {`{"free":[[1]]}`, `{"free":null}`}: Text,
	} {
		c := &Columns{Declared: Kinds(false, reflect.TypeFor[record]())}
		for _, row := range flat(t, lines[0], lines[1]) {
			c.Add(row)
		}
		require.Equal(t, want, c.kinds[c.Names[0]], lines)
	}
}

// A value that the columns cannot hold is refused, and not written as zero.
func TestOtherValuesThanTheColumnsAreForAreRefused(t *testing.T) {
	c := &Columns{Declared: Kinds(false, reflect.TypeFor[record]())}
	c.Add(flat(t, `{"step":1,"mean":0.5,"tokens":[1],"logs":[0.5]}`)[0])
	w := New(io.Discard, "table", c)
	for _, line := range []string{`{"step":1.5}`, `{"mean":"a"}`, `{"tokens":[0.5]}`, `{"logs":["a"]}`} {
		require.Error(t, w.Row(flat(t, line)[0]), line)
	}
}

// Names come from models and users: none of them breaks a table, and each has a column.
func FuzzNames(f *testing.F) {
	for _, seed := range [][2]string{{"a", "b"}, {"a,b", "a_b"}, {"", " "}, {`q"`, "`"}, {"\\", "\n"}, {"A", "a"}, {"é", "e\u0301"},
		{"1", "_1"}, {"a.b", "a b"}, {"\xff", "\x00"}, {"-", "list"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		all := [][]rows.Cell{{{Name: a, JSON: []byte("1")}, {Name: b, JSON: []byte(`"x"`)}}}
		if a == b {
			all[0] = all[0][:1]
		}
		c := &Columns{}
		c.Add(all[0])
		var out bytes.Buffer
		w := New(&out, "table", c)
		require.NoError(t, w.Row(all[0]))
		require.NoError(t, w.Close())
		file, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
		require.NoError(t, err)
		require.Len(t, file.Schema().Fields(), len(all[0]))
		read := make([]parquet.Row, 1)
		n, _ := file.RowGroups()[0].Rows().ReadRows(read)
		require.Equal(t, 1, n)
		require.Equal(t, 1.0, read[0][0].Double())
	})
}
