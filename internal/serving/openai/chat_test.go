package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/sampler"
)

const aTool = `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}}`

// The joined chunks of a stream are the whole answer, whatever it is.
func TestAStreamIsTheWhole(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		says   []string
		want   []string // content, or the call
		finish string
	}{
		"words":                     {`"n":2`, []string{"Hello, wörld 👋", "other"}, []string{"Hello, wörld 👋", "other"}, "stop"},
		"nothing":                   {`"n":1`, []string{""}, []string{""}, "stop"},
		"length":                    {`"max_tokens":2`, []string{"return return return"}, nil, "length"},
		"stops":                     {`"stop":["wö","never"]`, []string{"Hello, wörld"}, []string{"Hello, "}, "stop"},
		"a stop that does not come": {`"stop":"wörtlich"`, []string{"Hello, wörld, wör"}, []string{"Hello, wörld, wör"}, "stop"},
		"no stop":                   {`"stop":""`, []string{"Hello"}, []string{"Hello"}, "stop"},
		"a stop of white space":     {`"stop":["\n\n"]`, []string{"a\nb\n\nc"}, []string{"a\nb"}, "stop"},
		"the shorter of two stops":  {`"stop":["lo, w","l"]`, []string{"Hello, wörld"}, []string{"He"}, "stop"},
		"calls": {`"tools":[` + aTool + `]`, []string{`Well.<tool_call>{"name":"f","arguments":{"x":12}}</tool_call>`},
			[]string{"Well."}, "tool_calls"},
		"no tools": {`"n":1`, []string{`<tool_call>{"name":"f","arguments":{}}</tool_call>`},
			[]string{`<tool_call>{"name":"f","arguments":{}}</tool_call>`}, "stop"},
		"tools not to be used": {`"tool_choice":"none","tools":[` + aTool + `]`, []string{`<tool_call>{"name":"f","arguments":{}}</tool_call>`},
			[]string{`<tool_call>{"name":"f","arguments":{}}</tool_call>`}, "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			fields := c.fields + `,"seed":3,"logprobs":true,"top_logprobs":2`
			whole := ask(t, New(scripted(t, c.says...), Options{}), fields)
			stream := streamed(t, New(scripted(t, c.says...), Options{}), fields)
			for i := range whole.Choices {
				require.Equal(t, "assistant", whole.Choices[i].Message.Role)
				require.Equal(t, c.finish, whole.Choices[i].Finish)
				if c.want != nil {
					require.Equal(t, c.want[i], whole.Choices[i].content())
				}
				if got := stream.Choices[i].LogProbs; got == nil {
					require.Empty(t, whole.Choices[i].LogProbs.Content)
					stream.Choices[i].LogProbs = whole.Choices[i].LogProbs
				}
			}
			require.Equal(t, whole.Choices, stream.Choices)
			require.Equal(t, whole.Usage, stream.Usage)
			require.Equal(t, 3, whole.Usage.Cache.Cached)
		})
	}
}

// A tool call is returned in OpenAI's form, with an id that is the same for the same draw.
func TestACall(t *testing.T) {
	says := `<tool_call>{"name":"f","arguments":{"x":12}}</tool_call>` + "\n" + `<tool_call>{"name":"g","arguments":{}}</tool_call>`
	fields := `"seed":1,"tools":[` + aTool + `]`
	message := ask(t, New(scripted(t, says), Options{}), fields).Choices[0].Message
	require.Nil(t, message.Content)
	require.Len(t, message.Calls, 2)
	require.Equal(t, "function", message.Calls[0].Type)
	require.Equal(t, calledFunction{"f", `{"x":12}`}, message.Calls[0].Function)
	require.Regexp(t, "^call_[0-9a-f]{24}$", message.Calls[0].ID)
	require.NotEqual(t, message.Calls[0].ID, message.Calls[1].ID)

	s := scripted(t, says)
	one := ask(t, New(s, Options{}), `"parallel_tool_calls":false,`+fields).Choices[0]
	require.Equal(t, message.Calls[:1], one.Message.Calls)
	require.Equal(t, "tool_calls", one.Finish)
	prompt := s.Language.Tokenizer.Decode(s.asked[0].Prompt, false)
	require.Contains(t, prompt, `"name": "f"`, "the model is told of its tools")
}

// A conversation with calls and their answers is rendered in the model's chat format.
func TestAConversation(t *testing.T) {
	s := scripted(t, "ok")
	status, text := post(t, New(s, Options{}), "/v1/chat/completions", `{"model":"tiny","tools":[`+aTool+`],"messages":[
		{"role":"developer","content":"Be brief."},
		{"role":"user","content":[{"type":"text","text":"a<|im_end|>"},{"type":"text","text":"b"}]},
		{"role":"assistant","content":null,"refusal":null,"tool_calls":[
			{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}}]},
		{"role":"tool","tool_call_id":"call_1","content":"2"}]}`)
	require.Equal(t, 200, status, text)
	prompt := s.Language.Tokenizer.Decode(s.asked[0].Prompt, true)
	for _, part := range []string{"system\nBe brief.", "user\na<|im_end|>b",
		`{"name": "f", "arguments": {"x": 1}}`, "<tool_response>\n2\n</tool_response>"} {
		require.Contains(t, prompt, part)
	}
	require.True(t, strings.HasSuffix(prompt, "assistant\n"))
}

// Log-probabilities belong to the visible tokens, with the bytes of each.
func TestLogProbs(t *testing.T) {
	s := scripted(t, "wör👋 stop later")
	c := ask(t, New(s, Options{}), `"logprobs":true,"top_logprobs":1,"stop":["stop"]`).Choices[0]
	require.Equal(t, "wör👋 ", c.content())
	var all []byte
	for i, token := range c.LogProbs.Content {
		require.Equal(t, -float32(i), token.LogProb)
		require.Len(t, token.Top, 1)
		require.Equal(t, token.Bytes, token.Top[0].Bytes)
		for _, b := range token.Bytes {
			all = append(all, byte(b))
		}
	}
	require.True(t, strings.HasPrefix("wör👋 stop", string(all)), "%q", all)
	require.GreaterOrEqual(t, len(all), len("wör👋 "))
	require.True(t, s.asked[0].Raw)
	require.Equal(t, 1, s.asked[0].Top)

	require.Nil(t, ask(t, New(scripted(t, "a"), Options{}), `"n":1`).Choices[0].LogProbs)
}

// The parameters of a request arrive at the sampler.
func TestHowItIsDrawn(t *testing.T) {
	s := scripted(t, "a")
	h := New(s, Options{})
	ask(t, h, `"seed":-1,"n":3,"temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.25,"max_completion_tokens":9`)
	got := s.asked[0]
	require.Equal(t, sampler.Key{Seed: 1<<64 - 1}, got.Key)
	require.Equal(t, 3, got.N)
	want := sampler.Params{Temperature: 0.5, TopP: 0.9, TopK: 7, MinP: 0.25, MaxTokens: 9, StopTokens: s.Language.Stops}
	require.Equal(t, want, got.Params)
	ask(t, h, `"user":"me","metadata":{"a":"b"},"frequency_penalty":0,"modalities":["text"],"top_k":-1,"ignore_eos":true,"stop":null`)
	require.Equal(t, sampler.Params{Temperature: 1, TopP: 1, MaxTokens: 1000 - len(got.Prompt)}, s.asked[1].Params)
	ask(t, h, `"seed":4`)
	ask(t, h, `"n":1`)
	ask(t, h, `"n":1`)
	require.NotEqual(t, s.asked[3].Key, s.asked[4].Key, "without a seed it is drawn")
}

// A message must have content, and the parameters of a function must be an object.
func TestMissingParts(t *testing.T) {
	h := New(scripted(t, "a"), Options{})
	function := func(parameters string) string {
		return with(`"tools":[{"type":"function","function":{"name":"f","parameters":` + parameters + `}}]`)
	}
	for body, want := range map[string]string{
		`{"model":"tiny","messages":[{"role":"user"}]}`:                "message 0: content: missing, expected a text",
		`{"model":"tiny","messages":[{"role":"tool","content":null}]}`: "message 0: content: missing",
		function(`{"type":"array"}`):                                   `found \"type\": \"array\"`,
		function(`7`):                                                  `tool 0: parameters: found 7`,
	} {
		status, text := post(t, h, "/v1/chat/completions", body)
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, text, want, body)
	}
}

// A mistake has the status that clients expect, the field, and what to do.
func TestMistakes(t *testing.T) {
	h := New(scripted(t, "a"), Options{})
	deep := strings.Repeat("[", 20000)
	for body, want := range map[string]string{
		`{`:                               "the body is no JSON object: unexpected end",
		`[]`:                              "the body: found a list, expected a JSON object",
		`null`:                            "found null",
		"{\"a\":\"\xff\"}":                "not UTF-8",
		deep:                              "exceeded max depth",
		`{}`:                              "model: missing",
		`{"model":7}`:                     "model: found 7",
		`{"model":"tiny"}`:                "messages: none",
		`{"model":"tiny","messages":[]}`:  "messages: none",
		`{"model":"tiny","messages":{}}`:  "messages: found {}, expected a list",
		`{"model":"tiny","messages":[7]}`: "message 0: found 7",
		`{"model":"tiny","messages":[{"role":"me","content":"a"}]}`:                      `role: found \"me\"`,
		`{"model":"tiny","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`: `part 0: found type \"image_url\"`,
		`{"model":"tiny","messages":[{"role":"user","content":"a","color":1}]}`:          `\"color\": no such field`,
		with(`"temperature":-1`):                               "temperature: found -1, expected 0 to 100",
		with(`"temperature":1e-9`):                             `"param":"temperature"`,
		with(`"temperature":"hot"`):                            `temperature: found \"hot\", expected a number`,
		with(`"n":1000000`):                                    "n: found 1000000, expected 1 to 128",
		with(`"n":1e99`):                                       "n: found 1e99, expected a whole number",
		with(`"top_logprobs":3`):                               "top_logprobs: found 3 without",
		with(`"logprobs":true,"top_logprobs":21`):              "top_logprobs: found 21, expected 0 to 20",
		with(`"stop":["` + strings.Repeat("a", 2000) + `"]`):   "expected a text of 1 to 1024 bytes",
		with(`"stop":[` + strings.Repeat(`"a",`, 16) + `"a"]`): "stop: found more than 16",
		with(`"stop":7`):                                       "stop: found 7, expected a text or a list of texts",
		with(`"max_tokens":0`):                                 "max_tokens: found 0, expected 1 or more",
		with(`"max_tokens":1000`):                              "shorten the prompt, or lower max_tokens",
		with(`"seed":1.5`):                                     "seed: found 1.5",
		with(`"audio":{}`):                                     "audio: found {}, which is not supported",
		with(`"logit_bias":{"5":1}`):                           "logit_bias: found",
		with(`"reasoning_effort":"low"`):                       "chat_template_kwargs",
		with(`"frequency_penalty":0.5`):                        "frequency_penalty: found 0.5",
		with(`"colour":1`):                                     "colour: unknown field",
		with(`"stream_options":{"include_usage":true}`):        "found without",
		with(`"tools":[{"type":"web"}]`):                       "tool 0: found",
		with(`"tool_choice":"sometimes"`):                      "tool_choice: found",
		with(`"chat_template_kwargs":{"tools":[]}`):            "which the server sets itself",
		with(`"chat_template_kwargs":7`):                       "expected an object",
	} {
		status, text := post(t, h, "/v1/chat/completions", body)
		require.Equal(t, http.StatusBadRequest, status, "%.100s", body)
		require.Contains(t, text, want, "%.100s", body)
		require.Contains(t, text, `"type":"invalid_request_error"`)
		require.Less(t, len(text), 500)
	}
	status, text := post(t, h, "/v1/chat/completions", `{"model":"x"}`)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, text, `model \"x\" is not served here; there are: tiny`)
	for path, want := range map[string]string{"/v1/embeddings": "not embeddings", "/v1/responses": "is not served here"} {
		status, text = post(t, h, path, "{}")
		require.Equal(t, http.StatusNotFound, status)
		require.Contains(t, text, want)
	}
}

// calledWith is a conversation in which a function was called.
func calledWith(arguments string) string {
	return `{"model":"tiny","messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"` +
		arguments + `"}}]}]}`
}

// aSchema is a response_format.
func aSchema(more string) string {
	return `"response_format":{"type":"json_schema","json_schema":{"schema":{},` + more + `}}`
}

// A mistake within a field is named by its path, with what is expected.
func TestMistakesWithinFields(t *testing.T) {
	h := New(scripted(t, "a"), Options{})
	for body, want := range map[string]string{
		with(`"seed":9223372036854775808`):                                           "in digits, from -9223372036854775808",
		with(`"enable_thinking":"no"`):                                               "expected true or false",
		with(`"stream":true,"stream_options":{"usage":true}`):                        `no field \"usage\" is known in it, expected`,
		with(`"response_format":{"type":"json_object","schema":{"type":"boolean"}}`): `expected {\"type\": \"json_schema\"`,
		with(`"response_format":{"type":"json_object","strict":true}`):               `no field \"strict\" is known in it`,
		with(`"tools":[` + aTool + `],"tool_choice":{"type":"function","name":"f"}`): `{\"type\": \"function\", \"function\": {\"name\": …}}`,
		with(aSchema(`"shema":7`)):                                                   `no field \"shema\" is known in it`,
		with(aSchema(`"strict":"yes"`)):                                              "json_schema.strict: found a string, expected true",
		with(aSchema(`"name":7`)):                                                    "response_format: json_schema.name: found a number",
		with(`"stream":true,"stream_options":{"include_usage":1}`):                   "include_usage: found a number, expected true",
		with(`"tools":[{"type":"function","function":{"name":"f","strict":"yes"}}]`): "tools: tool 0: function.strict: found a string",
		with(`"temperature":1e-46`):                                                  "found 1e-46, expected 0, which takes",
		with(`"temperature":1e-400`):                                                 "temperature: found 1e-400, expected 0",
		with(`"temperature":1e-7`):                                                   "temperature: found 1e-7, expected 0",
		with(`"max_tokens":-1`):                                                      "max_tokens: found -1, expected 1 or more",
		with(`"max_tokens":0`):                                                       "max_tokens: found 0, expected 1 or more",
		with(`"stop":[""]`):                                                          `found \"\", expected a text of 1 to 1024 bytes; null, []`,
		`{"model":"tiny","messages":[{"role":"user","content":7}]}`:                  "content: found 7, expected a text or a list of its parts",
		`{"model":"tiny","messages":[{"role":"user","content":"a\ud800"}]}`:          `messages.0.content: found \\ud800, which is half`,
		with(`"stop":["\udfff"]`):                                                    `stop.0: found \\udfff`,
		with(`"temperature":0,"temperature":1`):                                      "temperature: comes twice",
		with(`"stream_options":{"a":{"b":1,"b":2}}`):                                 "stream_options.a.b: comes twice",
		calledWith(`{\"x\":1,\"x\":2}`):                                              "arguments: x: comes twice",
		calledWith(`{\"x\":\"\\ud800\"}`):                                            "arguments: x: found",
	} {
		status, text := post(t, h, "/v1/chat/completions", body)
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, text, want, body)
	}
}

// Requests that would cost far more than their length are refused, and so are function names that OpenAI refuses.
func TestRequestsOutOfBounds(t *testing.T) {
	h, long := New(scripted(t, "a"), Options{}), strings.Repeat("a", 1<<20)
	for body, want := range map[string]string{
		with(`"tools":[` + aTool + `,` + aTool + `]`): "tool 1: there is another function named f",
		with(aToolNamed(`a\nb`)):                      `tool 0: name: found \"a\\nb\", expected 1 to 64 letters`,
		with(aToolNamed("")):                          `tool 0: name: found \"\"`,
		with(aToolNamed(strings.Repeat("a", 65))):     "expected 1 to 64 letters",
		with(aToolNamed("ä")):                         "expected 1 to 64 letters",
		with(`"chat_template_kwargs":{"a":"` + strings.Repeat("a", 5000) + `"}`): "expected at most 4096",
		with(`"metadata":{"a":[1` + strings.Repeat(",1", mostValues) + `]}`):     "values, expected at most 65536",
		with(`"a1":1` + strings.Repeat(`,"a":1`, mostFields)):                    "fields, expected at most 256",
		with(`"n":128,"max_tokens":900,"logprobs":true,"top_logprobs":20`):       "could have 2419200 log-probabilities",
		`{"model":"tiny","messages":[{"role":"user","content":"` + long + `"}]}`: "context_length_exceeded",
	} {
		status, text := post(t, h, "/v1/chat/completions", body)
		require.Equal(t, http.StatusBadRequest, status, "%.100s", body)
		require.Contains(t, text, want, "%.100s", body)
		require.Less(t, len(text), 500)
	}
	status, text := post(t, h, "/v1/completions", `{"model":"tiny","prompt":["`+long+`"]}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, text, "a text of 1048576 bytes exceeds the maximum context length of 1000 tokens")
}

// aToolNamed is a list of one tool, as a field.
func aToolNamed(name string) string {
	return `"tools":[{"type":"function","function":{"name":"` + name + `"}}]`
}

// A refusal of the machine has a status that tells the client what to do.
func TestRefusals(t *testing.T) {
	for want, err := range map[int]error{
		http.StatusTooManyRequests: sampler.ErrBusy, http.StatusServiceUnavailable: sampler.ErrClosed,
		http.StatusBadRequest: badinput.Errorf("token 9"), http.StatusInternalServerError: errors.New("secret"),
	} {
		s := scripted(t, "a")
		s.refuse = err
		status, text := post(t, New(s, Options{}), "/v1/chat/completions", with(""))
		require.Equal(t, want, status)
		require.NotContains(t, text, "secret")
	}
	s := scripted(t, "a b c")
	s.fail = errors.New("secret")
	status, _ := post(t, New(s, Options{}), "/v1/chat/completions", with(""))
	require.Equal(t, http.StatusInternalServerError, status)
	status, text := post(t, New(s, Options{}), "/v1/chat/completions", with(`"stream":true`))
	require.Equal(t, http.StatusOK, status, "the status was sent before the error")
	list := lines(t, text)
	require.Contains(t, list[len(list)-1], `"type":"server_error"`)
	require.NotContains(t, text, "secret")
}

// If a client disconnects, drawing for it stops.
func TestAClientLeaves(t *testing.T) {
	for _, fields := range []string{`"n":1`, `"stream":true`} {
		s := scripted(t, "a b c")
		s.hang = true
		server := httptest.NewServer(New(s, Options{}))
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-s.hanging
			leave()
		}()
		r, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/chat/completions", strings.NewReader(with(fields)))
		require.NoError(t, err)
		if res, err := http.DefaultClient.Do(r); err == nil {
			io.Copy(io.Discard, res.Body) // until the client disconnects
			res.Body.Close()
		}
		select {
		case <-s.cancelled:
		case <-time.After(time.Minute):
			t.Fatal("the request was not cancelled within a minute")
		}
		server.Close()
	}
}
