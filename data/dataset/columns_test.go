package dataset

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
)

// Other columns of a row are kept if requested, and change neither the problem nor the fingerprint.
func TestColumnsAreKept(t *testing.T) {
	const rows = `{"id":"a","prompt":"p","level":3,"hint":"h","none":null,"answer":"8","tests":[{"stdin":"1","stdout":"2"}]}` + "\n" +
		`{"id":"b","prompt":"q","match":"math","answer":"1+1\n#### 2","tags":["x"]}` + "\n" +
		`{"id":"c","prompt":"r","tests":[{"stdin":"","stdout":"2"}]}` + "\n"
	path := write(t, t.TempDir(), "p.jsonl", rows)
	cache := t.TempDir()
	set, err := Open(t.Context(), path, Options{CacheDir: cache, Strict: true, KeepColumns: true})
	require.NoError(t, err)
	defer set.Close()
	plain, err := Open(t.Context(), path, Options{CacheDir: cache, Strict: true})
	require.NoError(t, err)
	defer plain.Close()
	require.Equal(t, plain.Manifest().SHA256, set.Manifest().SHA256)
	require.Equal(t, plain.Manifest().Unread, set.Manifest().Unread)

	kept := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, set.CopyTo(t.Context(), kept))
	copied, err := OpenStore(kept)
	require.NoError(t, err)
	defer copied.Close()
	for i, want := range []map[string]json.RawMessage{
		{"level": json.RawMessage("3"), "hint": json.RawMessage(`"h"`), "answer": json.RawMessage(`"8"`)},
		{"tags": json.RawMessage(`["x"]`), "answer": json.RawMessage(`"1+1\n#### 2"`)},
		nil,
	} {
		for _, problems := range [][]data.Problem{set.Problems(), copied.Problems()} {
			got, err := problems[i].Columns(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		none, err := plain.Problems()[i].Columns(t.Context())
		require.NoError(t, err)
		require.Nil(t, none)
		tests, err := copied.Problems()[i].Tests(t.Context())
		require.NoError(t, err)
		require.Len(t, tests, 1)
	}
}

// What pandas writes for a missing number counts as missing, and does not make a row invalid.
func TestColumnsWithoutANumber(t *testing.T) {
	type record struct {
		Prompt    string    `parquet:"prompt"`
		Answer    string    `parquet:"answer"`
		Match     string    `parquet:"match"`
		Score     float64   `parquet:"score"`
		Parts     []float32 `parquet:"parts,list"`
		Tolerance float64   `parquet:"tolerance"`
	}
	nan := math.NaN()
	path := filepath.Join(t.TempDir(), "p.parquet")
	require.NoError(t, parquet.WriteFile(path, []record{{"p", "a", "exact", nan, []float32{0.1, float32(nan)}, nan},
		{"q", "b", "exact", math.Inf(1), nil, nan}}))
	set, err := Open(t.Context(), path, Options{CacheDir: t.TempDir(), Strict: true, KeepColumns: true})
	require.NoError(t, err)
	defer set.Close()
	for i, want := range []string{`{"answer": "a", "parts": [0.1, null]}`, `{"answer": "b", "parts": []}`} {
		got, err := set.Problems()[i].Columns(t.Context())
		require.NoError(t, err)
		text, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, want, string(text))
	}
	rows := 0
	_, err = Records(t.Context(), path, Options{}, func(Record) error { rows++; return nil })
	require.NoError(t, err)
	require.Equal(t, 2, rows)

	require.NoError(t, parquet.WriteFile(path, []record{{"p", "a", "exact", 0, nil, math.Inf(1)}}))
	_, err = Open(t.Context(), path, Options{CacheDir: t.TempDir()})
	require.ErrorContains(t, err, `"tolerance": json: unsupported value: +Inf`)
}

// All columns of a Parquet file are then read.
func TestColumnsOfParquet(t *testing.T) {
	type record struct {
		Prompt string `parquet:"prompt"`
		Answer string `parquet:"answer"`
		Match  string `parquet:"match"`
		Level  int64  `parquet:"level"`
	}
	path := filepath.Join(t.TempDir(), "p.parquet")
	writeParquet(t, path, 10, record{"x", "7", "math", 3})
	set, err := Open(t.Context(), path, Options{CacheDir: t.TempDir(), Strict: true, KeepColumns: true})
	require.NoError(t, err)
	defer set.Close()
	got, err := set.Problems()[0].Columns(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]json.RawMessage{"level": json.RawMessage("3"), "answer": json.RawMessage(`"7"`)}, got)
	require.Equal(t, map[string]int{"level": 1}, set.Manifest().Unread)
}

// Maps of a Parquet file are read as they were written, in whatever they are nested; the library returns bytes for their text.
func TestMapsOfParquet(t *testing.T) {
	type tag struct {
		Name string `parquet:"name"`
	}
	type inner struct {
		Text string   `parquet:"text"`
		Note *string  `parquet:"note,optional"`
		Tags []string `parquet:"tags,list"`
		Rest []tag    `parquet:"rest,list"`
	}
	type record struct {
		Prompt   string                       `parquet:"prompt"`
		Answer   string                       `parquet:"answer"`
		Match    string                       `parquet:"match"`
		Metadata map[string]string            `parquet:"metadata"`
		Messages []map[string]string          `parquet:"messages,list"`
		Groups   map[string]inner             `parquet:"groups"`
		Some     map[string]*string           `parquet:"some"`
		Lists    map[string][]string          `parquet:"lists"`
		Sizes    map[string]uint32            `parquet:"sizes"`
		Deep     map[string]map[string]string `parquet:"deep"`
		Price    [16]byte                     `parquet:"price,decimal(2:38)"`
	}
	note := "n"
	path := filepath.Join(t.TempDir(), "p.parquet")
	require.NoError(t, parquet.WriteFile(path, []record{{"p", "1", "exact", map[string]string{"ground_truth": "z"},
		[]map[string]string{{"role": "user", "content": "hi"}}, map[string]inner{"g": {"a", &note, []string{"t"}, []tag{{"x"}}}},
		map[string]*string{"a": &note, "b": nil},
		map[string][]string{"l": {"x", "y"}}, map[string]uint32{"u": 4000000000}, map[string]map[string]string{"d": {"e": "f"}},
		[16]byte{15: 200}}}))
	set, err := Open(t.Context(), path, Options{CacheDir: t.TempDir(), Strict: true, KeepColumns: true})
	require.NoError(t, err)
	defer set.Close()
	metadata, err := json.Marshal(set.Problems()[0].Metadata)
	require.NoError(t, err)
	require.JSONEq(t, `{"ground_truth": "z"}`, string(metadata))
	got, err := set.Problems()[0].Columns(t.Context())
	require.NoError(t, err)
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{"answer": "1", "messages": [{"role": "user", "content": "hi"}],
		"groups": {"g": {"text": "a", "note": "n", "tags": ["t"], "rest": [{"name": "x"}]}},
		"some": {"a": "n", "b": null}, "lists": {"l": ["x", "y"]}, "sizes": {"u": 4000000000}, "deep": {"d": {"e": "f"}},
		"price": "2"}`, string(text))
}
