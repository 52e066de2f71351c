package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

type wholeText struct {
	Choices []struct {
		Index    int
		Text     string
		LogProbs *textLogs
		Finish   string `json:"finish_reason"`
	}
	Usage usage
}

func continued(t testing.TB, h http.Handler, fields string) (answer wholeText) {
	t.Helper()
	status, text := post(t, h, "/v1/completions", `{"model":"tiny",`+fields+`}`)
	require.Equal(t, 200, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	return answer
}

// Prompts may have four forms.
func TestPrompts(t *testing.T) {
	s := scripted(t, "a")
	ids := s.Language.Tokenizer.EncodeSpecial("def<|im_end|>")
	text, err := json.Marshal(ids)
	require.NoError(t, err)
	for prompt, n := range map[string]int{
		strings.ReplaceAll(string(text), ",", ".0,"): 1,
		`"def<|im_end|>"`: 1, `["def<|im_end|>","def<|im_end|>"]`: 2, string(text): 1, "[" + string(text) + "," + string(text) + "]": 2,
	} {
		s.asked = nil
		answer := continued(t, New(s, Options{ClientID: func(context.Context) string { return "ada" }}), `"n":2,"seed":5,"prompt":`+prompt)
		require.Len(t, answer.Choices, 2*n)
		require.Len(t, s.asked, n)
		for i, r := range s.asked {
			require.Equal(t, ids, r.Prompt)
			require.Equal(t, i, r.Key.Problem)
			require.NotEmpty(t, r.Job)
			require.Equal(t, []string{s.asked[0].Job, "ada"}, []string{r.Job, r.From}, "all prompts of a request are one job of its client")
			require.Equal(t, usualMaxTokens, r.Params.MaxTokens)
		}
		require.Equal(t, n*len(ids), answer.Usage.Prompt)
	}
	for prompt, want := range map[string]string{
		`""`: "has no tokens", `[]`: "none",
		`7`:    "found 7, expected a text, a list of texts, or token ids",
		`[[]]`: "prompt 0: found []", `["a",7]`: "prompt 1: found 7, expected all",
		`[ "a",[7]]`: "prompt 1: found [7], expected all of them to be texts", `[[7],"a"]`: `prompt 1: found \"a\", expected all of them`,
		`[99999999999]`: "prompt 0", `[` + strings.Repeat(`"a",`, 1024) + `"a"]`: "more than 1024",
	} {
		status, text := post(t, New(s, Options{}), "/v1/completions", `{"model":"tiny","prompt":`+prompt+`}`)
		require.Equal(t, http.StatusBadRequest, status, text)
		require.Contains(t, text, want)
	}
}

// echo returns the prompt with its log-probabilities; with max_tokens 0 nothing is drawn.
func TestEcho(t *testing.T) {
	s := scripted(t, " x")
	fields := `"echo":true,"logprobs":2,"prompt":"return wörld"`
	c := continued(t, New(s, Options{}), fields).Choices[0]
	require.Equal(t, "return wörld x", c.Text)
	prompt := len(s.asked[0].Prompt)
	require.Nil(t, c.LogProbs.LogProbs[0])
	require.Equal(t, float32(-0.5), *c.LogProbs.LogProbs[1])
	require.Equal(t, float32(0), *c.LogProbs.LogProbs[prompt])
	last := len(c.LogProbs.Offsets) - 1
	require.Len(t, c.LogProbs.Tokens, last+1)
	require.Len(t, c.LogProbs.Top, last+1)
	require.Equal(t, utf8.RuneCountInString("return wörld"), c.LogProbs.Offsets[prompt])

	half := s.Language.Tokenizer.Encode("👋")[0]
	for prompt, text := range map[string]string{`"<|im_start|>user"`: "<|im_start|>user", fmt.Sprintf("[%d,%[1]d]", half): "\uFFFD\uFFFD"} {
		c := continued(t, New(s, Options{}), `"echo":true,"logprobs":0,"prompt":`+prompt).Choices[0]
		require.Equal(t, text+" x", c.Text)
		require.Equal(t, utf8.RuneCountInString(text), c.LogProbs.Offsets[2])
	}

	none := continued(t, New(s, Options{}), `"max_tokens":0,`+fields)
	require.Equal(t, "return wörld", none.Choices[0].Text)
	require.Len(t, none.Choices[0].LogProbs.Tokens, prompt)
	require.Equal(t, "length", none.Choices[0].Finish)
	require.Zero(t, none.Usage.Completion)

	both := continued(t, New(s, Options{}), `"max_tokens":0,"max_completion_tokens":1,`+fields)
	require.Equal(t, 1, both.Usage.Completion, "the newer name of a field counts")
	status, text := post(t, New(s, Options{}), "/v1/completions", `{"model":"tiny","prompt":"a","max_tokens":0}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, text, `or \"echo\": true`)
	whole := strings.Repeat("5,", 999) + "5" // as long as the context
	require.Equal(t, 1000, continued(t, New(s, Options{}), `"echo":true,"max_tokens":0,"prompt":[`+whole+`]`).Usage.Prompt)
	status, text = post(t, New(s, Options{}), "/v1/completions", `{"model":"tiny","echo":true,"max_tokens":0,"prompt":[5,`+whole+`]}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, text, `a prompt of 1001 tokens and a completion of 0 exceed the maximum context length of 1000 tokens of tiny`)
	require.Contains(t, text, `"code":"context_length_exceeded"`)
}

// A joined stream of texts is the whole answer, offsets included, with the prompts before it, or only these.
func TestTextStreams(t *testing.T) {
	for _, more := range []string{"", `"echo":true,`, `"echo":true,"n":2,`, `"echo":true,"max_tokens":0,`} {
		streams(t, more+`"logprobs":1,"stop":["ld"],"prompt":["a wör","b"]`)
	}
}

func streams(t *testing.T, fields string) {
	whole := continued(t, New(scripted(t, "wörld", "👋 so"), Options{}), fields)
	_, text := post(t, New(scripted(t, "wörld", "👋 so"), Options{}), "/v1/completions",
		`{"model":"tiny","stream":true,"stream_options":{"include_usage":true},`+fields+`}`)
	list := lines(t, text)
	var used wholeText
	require.NoError(t, json.Unmarshal([]byte(list[len(list)-2]), &used))
	require.Equal(t, whole.Usage, used.Usage)
	list = slices.Delete(list, len(list)-2, len(list)-1)
	joined := make([]textLogs, len(whole.Choices))
	texts, finish := make([]string, len(joined)), make([]string, len(joined))
	for _, line := range list[:len(list)-1] {
		var v wholeText
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		c := v.Choices[0]
		texts[c.Index] += c.Text
		finish[c.Index] += c.Finish
		if l := c.LogProbs; l != nil {
			to := &joined[c.Index]
			to.Tokens, to.LogProbs = append(to.Tokens, l.Tokens...), append(to.LogProbs, l.LogProbs...)
			to.Top, to.Offsets = append(to.Top, l.Top...), append(to.Offsets, l.Offsets...)
		}
	}
	require.Contains(t, []string{"wör", "a wörwör", "a wör"}, whole.Choices[0].Text)
	for i, c := range whole.Choices {
		require.Equal(t, c.Text, texts[i])
		require.Equal(t, c.Finish, finish[i])
		require.Equal(t, *c.LogProbs, joined[i])
	}
}

// A token with a part of a character is given by its bytes.
func TestHalfCharacters(t *testing.T) {
	s := scripted(t)
	tok := s.Language.Tokenizer
	s.tokens = tok.Encode("👋")[:1]
	bytes, _ := tok.Token(s.tokens[0])
	require.False(t, utf8.ValidString(bytes), "a case of this test")
	c := ask(t, New(s, Options{}), `"logprobs":true`).Choices[0]
	require.Equal(t, "\uFFFD", c.content())
	require.Equal(t, []int{int(bytes[0])}, c.LogProbs.Content[0].Bytes)
	text := continued(t, New(s, Options{}), `"prompt":"a","logprobs":1`).Choices[0]
	require.Equal(t, `bytes:\xf0`, text.LogProbs.Tokens[0])
}

func TestModels(t *testing.T) {
	h := New(scripted(t), Options{})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	one := `{"id":"tiny","object":"model","created":7,"owned_by":"grpo","root":"tiny","max_model_len":1000}`
	status, text := get("/v1/models")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"object":"list","data":[`+one+`]}`, text)
	_, text = get("/v1/models/tiny")
	require.JSONEq(t, one, text)
	status, _ = get("/v1/models/" + strings.Repeat("../", 5) + "etc/passwd")
	require.NotEqual(t, 200, status)
	status, text = get("/v1/models/other/name")
	require.Equal(t, 404, status)
	require.Contains(t, text, `model \"other/name\" is not served here`)
	require.Equal(t, float32(-9999), finite(float32(math.Inf(-1))))
	require.Equal(t, float32(-9999), finite(float32(math.NaN())))
}

// Any body is answered with valid JSON, and soon.
func FuzzChat(f *testing.F) {
	fuzz(f, "/v1/chat/completions", with(`"tools":[`+aTool+`],"stop":["b"],"stream":true,"logprobs":true`))
}

func FuzzCompletions(f *testing.F) {
	fuzz(f, "/v1/completions", `{"model":"tiny","prompt":["a",[5,6]],"echo":true,"logprobs":2,"n":2,"stop":"b"}`)
}

func fuzz(f *testing.F, path, seed string) {
	f.Add(seed)
	f.Add(with(`"chat_template_kwargs":{"a":[{}]},"stream_options":{}`))
	s := scripted(f, `a <tool_call>{"name":"f","arguments":{}}</tool_call> b`)
	h := New(s, Options{MaxN: 4})
	f.Fuzz(func(t *testing.T, body string) {
		s.asked = nil
		status, text := post(t, h, path, body)
		require.Contains(t, []int{200, 400, 404}, status, text)
		require.NotEmpty(t, text)
	})
}
