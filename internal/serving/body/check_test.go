package body

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Values that the decoder would change silently are refused, with their path.
func TestCheck(t *testing.T) {
	many := strings.Builder{}
	for i := range 100 {
		many.WriteString(`"k` + strconv.Itoa(i) + `":0,`)
	}
	for text, want := range map[string]string{
		`{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}`:   "",
		`{"a":"\ud83d\ude00 \\ud83d \\\"a\":"}`:       "",
		`{"a":{"x":1},"b":{"y":1,"x":"a\",\"x\":"}}`:  "",
		`{` + many.String() + `"a":0}`:                "",
		`[1,[2,3]]`:                                   "",
		`{"a":1,"a":1}`:                               "a: comes twice, expected once",
		`{"a":1,"\u0061":1}`:                          `\u0061: comes twice, expected once`,
		`{"m":[{"r":1},{"r":1,"c":{},"r":2}]}`:        "m.1.r: comes twice, expected once",
		`{` + many.String() + `"k7":0}`:               "k7: comes twice, expected once",
		`{"lora_name":"a","LORA_NAME":"b"}`:           "LORA_NAME: comes twice, expected once",
		`{"a":[{"na\u006de":"a","x":{},"Name":"b"}]}`: "a.0.Name: comes twice, expected once",
		`{` + many.String() + `"K7":0}`:               "K7: comes twice, expected once",
		`{"user_metadata":{"a":1,"A":{"b":1,"B":1}}}`: "",
		`{"user_metadata":{"a":1,"a":2}}`:             "user_metadata.a: comes twice, expected once",
		`{"tools":[{"parameters":[{"a":1,"A":2}]}]}`:  "",
		`{"user_metadata":{},"x":{"a":1,"A":2}}`:      "x.A: comes twice, expected once",
		`{"m":[0,{"c":"a\ud800"}]}`:                   `m.1.c: found \ud800, which is half of a surrogate pair and no character;`,
		`{"a":{"\uDC00":1}}`:                          `a.\uDC00: found \uDC00, which is half`,
		`"\ud800"`:                                    `the body: found \ud800, which is half`,
		"{\"a\":\"\xff\"}":                            "the body is not UTF-8, expected JSON in UTF-8",
	} {
		if err := Check([]byte(text)); want == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, want, text)
		}
	}
}

// Decode does this check.
func TestDecodeChecks(t *testing.T) {
	var into struct {
		A, B string
	}
	require.ErrorContains(t, Decode([]byte("\n"), &into), "the body is empty, expected a JSON object")
	require.ErrorContains(t, Decode([]byte("null\n"), &into), "the body: found null, expected a JSON object")
	require.ErrorContains(t, Decode([]byte(`{"a":"x","a":"y"}`), &into), "a: comes twice")
	require.ErrorContains(t, Decode([]byte(`{"a":"x","A":"y"}`), &into), "A: comes twice")
	require.NoError(t, CheckClientKeys([]byte(`{"a":"x","A":"y"}`)))
	require.ErrorContains(t, Decode([]byte(`{"b":"\udfff"}`), &into), "b: found")
	require.ErrorContains(t, Decode([]byte("{\"b\":\"\xff\"}"), &into), "the body is not UTF-8")
	require.NoError(t, Decode([]byte(`{"a":"x","b":"y"}`), &into))
}

// Check accepts any bytes, and finds duplicate keys like a decoder that compares all keys.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{`{"a":1,"a":2}`, `{"a":{"a":[{}]},"b":"\\"}`, `}{,":"`, `["a","a"]`, `{"a\`, `{"x":"\ud800"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := CheckClientKeys([]byte(text))
		if err != nil {
			require.Error(t, Check([]byte(text)), text)
		}
		if json.Valid([]byte(text)) && !strings.Contains(text, `\u`) && strings.ToValidUTF8(text, "") == text {
			dec := json.NewDecoder(strings.NewReader(text))
			require.Equal(t, repeats(t, dec), err != nil, text)
		}
	})
}

func repeats(t *testing.T, dec *json.Decoder) (twice bool) {
	token, err := dec.Token()
	require.NoError(t, err)
	open, is := token.(json.Delim)
	if !is {
		return false
	}
	there := map[string]bool{}
	for dec.More() {
		if open == '{' {
			key, err := dec.Token()
			require.NoError(t, err)
			twice = twice || there[key.(string)]
			there[key.(string)] = true
		}
		twice = repeats(t, dec) || twice
	}
	_, err = dec.Token()
	require.NoError(t, err)
	return twice
}

// The cost of Check next to the decoder, for a body of tokens and one of messages.
func BenchmarkCheck(b *testing.B) {
	tokens := `{"data":[` + strings.Repeat(`{"tokens":[`+strings.Repeat("12345,", 1000)+`1],"weights":[`+
		strings.Repeat("0.123,", 1000)+`1]},`, 300) + `{}]}`
	messages := `{"messages":[` +
		strings.Repeat(`{"role":"user","content":"`+strings.Repeat(`a text of some length\n`, 20)+`"},`, 8000) + `{}]}`
	for name, text := range map[string]string{"tokens": tokens, "messages": messages} {
		raw := []byte(text)
		b.Run(name+"/check", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				require.NoError(b, Check(raw))
			}
		})
		b.Run(name+"/decode", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			var into struct {
				Data []struct {
					Tokens  []int64
					Weights []float64
				}
				Messages []struct{ Role, Content string }
			}
			for b.Loop() {
				require.NoError(b, json.Unmarshal(raw, &into))
			}
		})
	}
}
