package openai

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A call truncated by max_tokens is returned as far as it came, wherever that is: none of it becomes content, and the joined stream is
// the whole answer.
func TestACallThatIsCutOff(t *testing.T) {
	const says = `Well.<tool_call>{"name":"f","arguments":{"x":12}}</tool_call>`
	tokens := len(scripted(t, says).Language.Tokenizer.Encode(says))
	seen := map[int]bool{}
	for n := 1; n <= tokens; n++ {
		fields := `"seed":3,"tools":[` + aTool + `],"max_tokens":` + strconv.Itoa(n)
		whole := ask(t, New(scripted(t, says), Options{}), fields)
		stream := streamed(t, New(scripted(t, says), Options{}), fields)
		require.Equal(t, whole.Choices, stream.Choices, n)
		c := whole.Choices[0]
		require.Equal(t, "length", c.Finish, n)
		require.True(t, strings.HasPrefix("Well.<", c.content()), "%d: %q", n, c.content())
		seen[len(c.Message.Calls)] = true
		for _, call := range c.Message.Calls {
			require.Equal(t, "f", call.Function.Name)
			require.True(t, strings.HasPrefix(`{"x":12}`, call.Function.Arguments), call.Function.Arguments)
		}
	}
	require.Len(t, seen, 2)
}

// null counts as a missing field, since some clients write all fields.
func TestNullIsLeftOut(t *testing.T) {
	h := New(scripted(t, "a"), Options{})
	for _, fields := range []string{`"tool_choice":null`, `"tool_choice":null,"tools":[` + aTool + `]`, `"tools":null,"stop":null,"n":null`,
		`"response_format":null,"stream_options":null,"enable_thinking":null`,
		`"response_format":{"type":"text","schema":null,"json_schema":null}`} {
		status, text := post(t, h, "/v1/chat/completions", with(fields))
		require.Equal(t, http.StatusOK, status, text)
	}
}

// Settings of thinking are read wherever clients put them.
func TestThinkingIsHeard(t *testing.T) {
	for body, want := range map[string]string{
		`{"enable_thinking":false}`:                                                 `{"enable_thinking":false}`,
		`{"enable_thinking":false,"chat_template_kwargs":null}`:                     `{"enable_thinking":false}`,
		`{"enable_thinking":false,"chat_template_kwargs":{"a":1}}`:                  `{"a":1,"enable_thinking":false}`,
		`{"enable_thinking":false,"chat_template_kwargs":{"enable_thinking":true}}`: `{"enable_thinking":true}`,
		`{"enable_thinking":null,"chat_template_kwargs":{"a":1}}`:                   `{"a":1}`,
		`{"enable_thinking":true,"chat_template_kwargs":7}`:                         `7`,
		`{"chat_template_kwargs":null}`:                                             ``,
		`{}`:                                                                        ``,
	} {
		f, err := readFields([]byte(body))
		require.NoError(t, err)
		require.Equal(t, want, string(f.kwargs()), body)
		require.NoError(t, f.done())
	}
}

// Integers may be written as 1.0, and fields without effect are accepted, as by the official servers.
func TestNumbersInOtherWords(t *testing.T) {
	s := scripted(t, "one two three")
	h := New(s, Options{})
	want := ask(t, h, `"seed":7,"max_tokens":2,"top_k":3,"n":2,"logprobs":true,"top_logprobs":1`)
	got := ask(t, h, `"seed":7.0,"max_tokens":2.0,"top_k":3.0,"n":2e0,"logprobs":true,"top_logprobs":1.0,"frequency_penalty":-0.0,
		"presence_penalty":0e3,"repetition_penalty":1.00,"length_penalty":1e0,"min_tokens":0.0`)
	require.Equal(t, want.Choices, got.Choices)
	require.Equal(t, s.asked[0].Params, s.asked[1].Params)
	require.Equal(t, s.asked[0].Key, s.asked[1].Key)
	ask(t, h, `"top_k":-1.0`)
	for fields, said := range map[string]string{
		`"max_tokens":1.5`:          "max_tokens: found 1.5, expected a whole number",
		`"n":1.0000001`:             "n: found 1.0000001, expected a whole number",
		`"max_tokens":"1.0"`:        `max_tokens: found \"1.0\", expected a whole number`,
		`"max_tokens":1e300`:        "max_tokens: found 1e300, expected a whole number",
		`"max_tokens":-1.0`:         "max_tokens: found -1, expected 1 or more",
		`"frequency_penalty":1e-9`:  "frequency_penalty: found 1e-9, which is not supported",
		`"frequency_penalty":"0.0"`: "frequency_penalty: found",
		`"repetition_penalty":0.0`:  "repetition_penalty: found 0.0",
	} {
		status, text := post(t, h, "/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"a"}],`+fields+`}`)
		require.Equal(t, 400, status, fields)
		require.Contains(t, text, said)
	}
}

// A wrong method is answered with 405 and the allowed ones.
func TestMethods(t *testing.T) {
	h := New(scripted(t, "x"), Options{})
	for call, methods := range map[string]string{"GET /v1/chat/completions": "POST", "DELETE /v1/completions": "POST",
		"POST /v1/models": "GET, HEAD", "PUT /v1/models/tiny": "GET, HEAD"} {
		method, path, _ := strings.Cut(call, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("{}")))
		require.Equal(t, 405, w.Code, call)
		require.Equal(t, methods, w.Header().Get("Allow"))
		require.Contains(t, w.Body.String(), `{"error":{"message":"the method `+method+" is not allowed for "+path+"; send "+
			strings.ReplaceAll(methods, ", ", " or ")+`","type":"invalid_request_error"`)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/nothing", nil))
	require.Equal(t, 404, w.Code)
}

// A model that computes NaN gives an error, and no garbage.
func TestAModelOfNoNumbers(t *testing.T) {
	s := scripted(t, "one two")
	s.logProb = float32(math.NaN())
	for _, stream := range []string{"", `,"stream":true`} {
		_, text := post(t, New(s, Options{}), "/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"a"}]`+stream+`}`)
		require.Contains(t, text, "tiny computes log-probabilities that are not finite")
		require.NotRegexp(t, `"content":"[^"]`, text)
	}
}
