package body

import (
	"errors"
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
)

// ReadAll returns what io.ReadAll does, whatever the size of reads.
func TestAll(t *testing.T) {
	for _, n := range []int{0, 1, 4<<10 - 1, 4 << 10, 4<<10 + 1, 12 << 10, 100_000} {
		text := strings.Repeat("abcdefg", n/7+1)[:n]
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(text), "by halves": iotest.HalfReader(strings.NewReader(text)),
			"its end with it": iotest.DataErrReader(strings.NewReader(text))} {
			got, err := ReadAll(in)
			require.NoError(t, err)
			require.Equal(t, text, string(got), "%d %s", n, name)
		}
	}
}

// A truncated body, or one that is too large, is an error.
func TestAllOfWhatIsCut(t *testing.T) {
	for _, why := range []error{io.ErrUnexpectedEOF, errors.New("too large")} {
		_, err := ReadAll(io.MultiReader(strings.NewReader(strings.Repeat("a", 9000)), iotest.ErrReader(why)))
		require.ErrorIs(t, err, why)
	}
}

// Reading a large body takes little more memory than twice its size.
func TestAllTakesLittle(t *testing.T) {
	race.SkipSerial(t) // the race detector allocates, too
	const size = 16 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := ReadAll(io.LimitReader(endless{}, size))
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Len(t, text, size)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size*5/2))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// Errors in a body name the field.
func TestWhatIsWrongWithABody(t *testing.T) {
	type more struct {
		Count int `json:"count"`
	}
	for text, want := range map[string]string{
		`{"name":1}`:    "name: found a number, expected a string",
		`{"count":"a"}`: "count: found a string, expected a whole number",
		`[1]`:           "the body: found a list, expected a JSON object",
		`{"nmae":"a"}`:  "nmae: is not known here; there are: name, count",
		`{"name":`:      "the body is no JSON object: unexpected EOF",
		`{"name" 1}`:    "the body is no JSON object: invalid character",
		``:              "the body is empty",
	} {
		var into struct {
			Name string `json:"name"`
			more
			Own string `json:"-"`
		}
		_, err := Read(httptest.NewRequest("POST", "/", strings.NewReader(text)), &into)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), ", -")
	}
	cut := io.MultiReader(strings.NewReader(`{}`), iotest.ErrReader(io.ErrUnexpectedEOF))
	_, err := Read(httptest.NewRequest("POST", "/", cut), new(struct{}))
	require.ErrorContains(t, err, "the body ended before all of it had come")
	require.Equal(t, `[1,100,1.5,9007199254740993.0,2]`, string(NormaliseIntegers([]byte(`[1.0,1e2,1.5,9007199254740993.0,2]`))))
}

// Text after the object of a body is an error.
func TestMoreThanOneObject(t *testing.T) {
	for text, fine := range map[string]bool{`{"a":1} `: true, `{"a":1}{}`: false, `{"a":1}]`: false} {
		var into struct{ A int }
		err := Decode([]byte(text), &into)
		if fine {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, "the body: found more after its JSON object", text)
	}
}
