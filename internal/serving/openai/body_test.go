package openai

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Errors shorten long input, wherever it is.
func TestLongInputIsShortened(t *testing.T) {
	long := strings.Repeat("é", 1<<16)
	h := New(scripted(t, "a"), Options{})
	for _, body := range []string{
		`{"model":"` + long + `"}`,
		`{"model":"tiny","messages":[{"role":"` + long + `","content":"a"}]}`,
		`{"model":"tiny","messages":[{"role":"user","content":"a","` + long + `":1}]}`,
		`{"model":"tiny","messages":[{"role":"user","content":[{"type":"` + long + `"}]}]}`,
		with(`"` + long + `":1`),
		with(`"stop":7,"tool_choice":"` + long + `"`),
		with(`"tools":[` + aTool + `],"tool_choice":{"type":"function","function":{"name":"` + long + `"}}`),
		with(`"response_format":{"type":"` + long + `"}`),
		with(`"response_format":{"type":"json_schema","json_schema":{"schema":{"` + long + `":1}}}`),
		with(`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"` + long + `"}}}`),
		with(`"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"` + long + `"}}}`),
	} {
		status, text := post(t, h, "/v1/chat/completions", body)
		require.GreaterOrEqual(t, status, 400, "%.100s", body)
		require.Less(t, len(text), 1000, "%.100s", body)
		require.NotContains(t, text, "\ufffd", "cut between characters")
	}
}

// A request without a body is told so.
func TestNoBody(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
		status, text := post(t, New(scripted(t), Options{}), path, "")
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, text, "the body is empty, expected a JSON object")
	}
}

// The number of cached formats, which clients can vary, is bounded.
func TestFormatsThatAreKept(t *testing.T) {
	l := scripted(t).Language
	for i := range 2*mostFormats + 1 {
		_, err := l.format(fmt.Appendf(nil, `{"a":%d}`, i))
		require.NoError(t, err)
		require.LessOrEqual(t, len(l.chats), mostFormats)
	}
}

// The log-probabilities of a prompt are returned with each of its completions, and count each time against the limit.
func TestLogProbabilitiesOfManyEchoes(t *testing.T) {
	prompt := `[5` + strings.Repeat(",5", 899) + `]`
	status, text := post(t, New(scripted(t, "a"), Options{}), "/v1/completions",
		`{"model":"tiny","echo":true,"max_tokens":1,"n":128,"logprobs":20,"prompt":`+prompt+`}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, text, "could have 2421888 log-probabilities")
}

// Token ids of prompts may be many where other fields may not, and are not quoted in errors.
func TestManyTokens(t *testing.T) {
	h := New(scripted(t, "a"), Options{})
	many := `[5` + strings.Repeat(",5", mostValues) + `]`
	status, text := post(t, h, "/v1/completions", `{"model":"tiny","prompt":`+many+`}`)
	require.Equal(t, 400, status)
	require.Contains(t, text, "context_length_exceeded")
	status, text = post(t, h, "/v1/completions", `{"model":"tiny","prompt":[5],"stop":`+many+`}`)
	require.Equal(t, 400, status)
	require.Contains(t, text, "values, expected at most")
	status, text = post(t, h, "/v1/completions", `{"model":"tiny","prompt":[5,null]}`)
	require.Equal(t, 400, status)
	require.Contains(t, text, "found 5, expected all of them")
	status, text = post(t, h, "/v1/completions", `{"model":"tiny","prompt":[5],"seed":1e17}`)
	require.Equal(t, 400, status)
	require.Contains(t, text, "seed: found 1e17, expected a whole number, in digits")
	status, text = post(t, h, "/v1/completions", `{"model":"tiny","prompt":[5],"max_tokens":1,"seed":1e2,"logit_bias":null,"x":null}`)
	require.Equal(t, 200, status, text)
	for fields, want := range map[string]string{`"n":41,"prompt":[[5]` + strings.Repeat(",[5]", 24) + `]`: "exceed the 1024 completions",
		`"prompt":[5],"best_of":3`: "best_of: found 3"} {
		status, text = post(t, h, "/v1/completions", `{"model":"tiny",`+fields+`}`)
		require.Equal(t, 400, status)
		require.Contains(t, text, want)
	}
	status, text = post(t, h, "/v1/completions", `{"model":"tiny","prompt":[5],"stop":"`+strings.Repeat("a", longestStop+1)+`"}`)
	require.Equal(t, 400, status)
	require.Contains(t, text, "expected a text of 1 to 1024 bytes")
	r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader("{}"))
	r.Header.Set("Content-Encoding", "gzip")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusUnsupportedMediaType, w.Code)
	require.Contains(t, w.Body.String(), `Content-Encoding: found \"gzip\", expected none`)
}

// Drawn tokens are counted, also if the answer was not delivered.
func TestWhatWasDrawnIsCounted(t *testing.T) {
	s := scripted(t, "a b c")
	var drawn []TokenUsage
	h := New(s, Options{OnUsage: func(d TokenUsage) { drawn = append(drawn, d) }})
	ask(t, h, `"n":2`)
	s.fail = errors.New("broken")
	status, _ := post(t, h, "/v1/chat/completions", with(""))
	require.Equal(t, 500, status)
	length := len(s.asked[0].Prompt)
	whole := len(s.Language.Tokenizer.Encode("a b c")) + 1
	require.Equal(t, []TokenUsage{{"tiny", length, 3, 2 * whole}, {"tiny", length, 3, 1}}, drawn)

	s.fail, drawn = nil, nil
	status, _ = post(t, h, "/v1/completions", `{"model":"tiny","prompt":[5,6],"echo":true,"max_tokens":0}`)
	require.Equal(t, 200, status)
	require.Equal(t, []TokenUsage{{"tiny", 2, 3, 0}}, drawn, "of a prompt that is scored alone nothing is shown")
}

// A body that does not arrive, or only in part, is the client's fault, and not logged as an error.
func TestABodyThatDoesNotCome(t *testing.T) {
	why := make(chan error, 1)
	h := New(scripted(t, "a"), Options{OnError: func(_ *http.Request, err error) { why <- err }})
	hasty := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hasty { // only for the body: on a busy machine headers may be as late
			require.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		}
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	for want, ended := range map[int]bool{http.StatusRequestTimeout: false, http.StatusBadRequest: true} {
		hasty = !ended
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n{")
		require.NoError(t, err)
		if ended {
			require.NoError(t, c.(*net.TCPConn).CloseWrite())
		}
		res, text := answerOn(t, c)
		require.Equal(t, want, res.StatusCode, "%s", text)
		require.Contains(t, text, `"type":"invalid_request_error"`)
		require.True(t, ended || res.Close, "the rest of the body could be taken for a request")
		var theirs *refusal.Error
		require.ErrorAs(t, <-why, &theirs)
	}
}

// A client that closes its half of the connection counts as disconnected, and is told so: its answer never looks complete.
func TestAClientThatClosesItsHalf(t *testing.T) {
	s := scripted(t, "a b")
	s.hang = true
	server := httptest.NewServer(New(s, Options{}))
	defer server.Close()
	for body, status := range map[string]int{`{"model":"tiny","prompt":"a"}`: 499, `{"model":"tiny","prompt":"a","stream":true}`: 200} {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		require.NoError(t, err)
		<-s.hanging
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
		res, text := answerOn(t, c)
		require.Equal(t, status, res.StatusCode, "%s", text)
		require.Contains(t, text, "closed its side of the connection")
	}
}

// answerOn reads the response on a connection.
func answerOn(t *testing.T, c net.Conn) (*http.Response, string) {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text)
}
