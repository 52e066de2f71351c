package dataset

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
)

// Assertions survive the normal form unchanged.
func TestAssertions(t *testing.T) {
	rows := `{"prompt":"x","fn_name":"f","kind":"assert","tests":[{"assert":"assert f(1) == 2","setup":"a = 1","given":"b = 2",` +
		`"calls":["g"],"public":true,"time_limit_ms":5},{"assert":"assert f(2)"}]}
{"prompt":"y","tests":[{"assert":"assert C()","calls":["C"]}]}` + "\n"
	set := open(t, write(t, t.TempDir(), "a.jsonl", rows), Options{Strict: true})
	problems := set.Problems()
	require.Equal(t, []data.Kind{data.Assert, data.Assert}, []data.Kind{problems[0].Kind, problems[1].Kind})
	tests, err := problems[0].Tests(ctx)
	require.NoError(t, err)
	want := []data.Test{{Assert: "assert f(1) == 2", Setup: "a = 1", Given: "b = 2", Calls: []string{"g"}, Public: true,
		Limits: data.Limits{TimeMS: 5}}, {Assert: "assert f(2)"}}
	require.Equal(t, want, tests)
	var normal bytes.Buffer
	require.NoError(t, set.WriteNormal(ctx, &normal))
	path := filepath.Join(t.TempDir(), "a.jsonl")
	require.NoError(t, os.WriteFile(path, normal.Bytes(), 0o644))
	again := open(t, path, Options{Strict: true})
	require.Equal(t, set.Manifest().SHA256, again.Manifest().SHA256)
	tests, err = again.Problems()[0].Tests(ctx)
	require.NoError(t, err)
	require.Equal(t, want, tests)
}

func TestAssertionsThatAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		`{"prompt":"x","tests":[{"assert":"assert f(1)"}]}`:                                   `"fn_name" in the row, or "calls"`,
		`{"prompt":"x","fn_name":"f","tests":[{"assert":" "}]}`:                               "found blank text",
		`{"prompt":"x","fn_name":"f g","tests":[{"assert":"1"}]}`:                             `"fn_name"`,
		`{"prompt":"x","fn_name":"class","tests":[{"args":[1],"returns":1}]}`:                 `found "class", expected the name`,
		`{"prompt":"x","tests":[{"assert":"1","calls":["a b"]}]}`:                             `"calls": found "a b"`,
		`{"prompt":"x","fn_name":"f","tests":[{"assert":"1","stdin":"","stdout":""}]}`:        `a test with "assert" may have`,
		`{"prompt":"x","fn_name":"f","tests":[{"assert":"1"},{"args":[1],"returns":1}]}`:      "of kind call",
		`{"prompt":"x","fn_name":"f","checker":"def check(): pass","tests":[{"assert":"1"}]}`: "do not apply to tests with",
		`{"prompt":"x","fn_name":"f","kind":"call","tests":[{"assert":"1"}]}`:                 "of kind assert",
		`{"prompt":"x","fn_name":"f","tests":[{"setup":"1"}]}`:                                `or "assert"`,
	} {
		_, err := normalise(&row{line: []byte(text)})
		var refused *Refused
		require.True(t, errors.As(err, &refused), text)
		require.Contains(t, refused.Detail, says, text)
	}
}
