package openai

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// plainFields is readFields implemented with encoding/json.
func plainFields(text []byte) (all map[string]json.RawMessage, err error) {
	top, count := values(text)
	if top > mostFields {
		return nil, refusal.Errorf(http.StatusBadRequest, "the body: found %d fields, expected at most %d", top, mostFields)
	}
	var prompts struct {
		Prompt json.RawMessage `json:"prompt"`
	}
	if json.Unmarshal(text, &prompts) == nil {
		_, tokens := values(prompts.Prompt)
		count -= tokens
	}
	if count > mostValues {
		return nil, refusal.Errorf(http.StatusBadRequest, "the body: found %d values, expected at most %d", count, mostValues)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, body.Explain(err, &all)
	}
	if all == nil {
		return nil, refusal.Errorf(http.StatusBadRequest, "the body: found null, expected a JSON object")
	}
	return all, body.Check(text)
}

// noFraction matches the fraction of an integer such as 1.0, which encoding/json refuses.
var noFraction = regexp.MustCompile(`(\d)\.0+(\s*[,\]])`)

// plainWholes is wholes implemented with encoding/json.
func plainWholes(raw []byte) (list []int32, is bool) {
	raw = noFraction.ReplaceAll(raw, []byte("$1$2"))
	return list, raw[0] == '[' && !bytes.Contains(raw, []byte("null")) && json.Unmarshal(raw, &list) == nil && len(list) > 0
}

// alike compares the parsed fields of a text with those of encoding/json.
func alike(t *testing.T, text string) {
	t.Helper()
	want, why := plainFields([]byte(text))
	got, err := readFields([]byte(text))
	if why != nil {
		require.EqualError(t, err, why.Error(), "%.200q", text)
		return
	}
	require.NoError(t, err, "%.200q", text)
	require.Equal(t, want, got.all, "%.200q", text)
	for _, raw := range want {
		said, isText := quoted(raw)
		var plain string
		require.Equal(t, raw[0] == '"', isText)
		if isText {
			require.NoError(t, json.Unmarshal(raw, &plain))
			require.Equal(t, plain, said)
		}
		list, is := plainWholes(raw)
		found, ok := wholes(raw)
		require.Equal(t, is, ok, "%.200q", raw)
		if is {
			require.Equal(t, list, found)
		}
	}
}

var someTexts = []string{`{}`, ` {"a":1}` + "\n", `{"a":1,"a":null}`,
	`{"a" : [ 1 , -2,0 ] , "b":"\u00e9\"}" ,"\u0061":{"c":[{}]}}`, `null`, `[]`, `7`, ``, `{`,
	`{"a":1}x`, `{"a":1,}`, `{"a":[2147483647,-2147483648,-0]}`, `{"a":[2147483648]}`, `{"a":[-2147483649]}`, `{"a":[1.0]}`, `{"a":[1e2]}`,
	`{"a":[1,null]}`, `{"a":[[1]]}`, `{"a":["1"]}`, `{"a":[]}`, `{"a":[99999999999999999999]}`, `{"a":"\ud800\\","b":true}`, `{"":false}`,
	"{\"a\":\"\xff\"}", `{"a":[ ]}`, `{"a":[1]  ,"b": [1, 2 ]}`, `{"a":"null"}`, `{"a":-1,"b":1e5,"c":[1,"null"]}`}

func TestFieldsAreThoseOfEncodingJSON(t *testing.T) {
	for _, text := range someTexts {
		alike(t, text)
	}
	many := strings.Repeat(",5", mostValues)
	for _, text := range []string{
		`{"prompt":[5` + many + `]}`, `{"Prompt":[5` + many + `],"a":1}`, `{"prompt":[5` + many + `],"PROMPT":[5]}`,
		`{"PROMPT":[5],"prompt":[5` + many + `]}`, `{"a":[5` + many + `]}`, `{"prompt":[5` + many + `],`, `[5` + many + `]`,
		`{"a":1` + strings.Repeat(`,"a":1`, mostFields+1) + `}`, `{"a":[1` + strings.Repeat(",[2]", 30000) + `]}`} {
		alike(t, text)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	letters := []string{`{`, `}`, `[`, `]`, `,`, `:`, `"a"`, `"`, `\`, `1`, `-2.5e3`, `null`, ` `, `"prompt"`}
	for range 3000 { // nearly valid JSON
		text := []byte(someTexts[rng.IntN(len(someTexts))])
		if len(text) > 0 {
			at := rng.IntN(len(text))
			text = slices.Concat(text[:at], []byte(letters[rng.IntN(len(letters))]), text[at+rng.IntN(2):])
		}
		alike(t, string(text))
	}
}

// For any body, the fields and the errors are those of encoding/json.
func FuzzFields(f *testing.F) {
	for _, text := range someTexts {
		f.Add(text)
	}
	f.Fuzz(alike)
}

// Invalid prompts, however many, cost time proportional to their length.
func TestWhatIsNoPromptIsCheap(t *testing.T) {
	s := scripted(t, "a")
	h := New(s, Options{})
	for _, part := range []string{`[5]`, `"a"`, `{}`, `1.5`} {
		text := `{"model":"tiny","prompt":[` + part + strings.Repeat(","+part, 1<<17) + `]}`
		var status int
		made := testing.AllocsPerRun(1, func() { status, _ = post(t, h, "/v1/completions", text) })
		require.Equal(t, 400, status)
		require.Less(t, made, 30_000.0, "allocations for 131,073 times %s", part)
	}
}
