package openenv

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openenv/openenvtest"
)

// connect serves the game, and connects to it.
func connect(t *testing.T, game *openenvtest.Server) (*Server, *httptest.Server) {
	t.Helper()
	at := httptest.NewServer(game)
	t.Cleanup(at.Close)
	s, err := Open(t.Context(), Options{URL: at.URL, Timeout: time.Minute})
	require.NoError(t, err)
	return s, at
}

// play sends a text in a session.
func play(t *testing.T, s *Server, c *Session, text string) (Result, error) {
	t.Helper()
	action, err := s.Act(text)
	require.NoError(t, err)
	return c.Step(t.Context(), action)
}

// A session is reset, answers actions, refuses some, and ends; with WebSockets and without.
func TestSession(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Setenv("OPENENV_TOKEN", "hush")
		game := &openenvtest.Server{Plain: plain, Token: "hush"}
		s, at := connect(t, game)
		require.Equal(t, plain, s.plain)
		require.Equal(t, map[bool]int{true: 1, false: sessionsMax}[plain], s.limit)
		require.Contains(t, s.Describe(), at.URL+", actions with message (string), ")
		c, r, err := s.Begin(t.Context(), map[string]any{"seed": 7})
		require.NoError(t, err)
		require.Nil(t, r.Reward)
		text, err := s.Text(r)
		require.NoError(t, err)
		require.Equal(t, "Say vowels about 7.", text)
		r, err = play(t, s, c, " aab ")
		require.NoError(t, err)
		require.InDelta(t, 2.0/3, float64(*r.Reward), 1e-12)
		text, err = s.Text(r)
		require.NoError(t, err)
		require.Equal(t, "reply: so 2\nturn: 1", text)
		_, err = c.Step(t.Context(), map[string]any{"massage": "x"})
		var refused *RejectedError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Why, "message: expected a text and nothing else")
		_, err = play(t, s, c, "b")
		require.NoError(t, err)
		r, err = play(t, s, c, "c")
		require.NoError(t, err)
		require.True(t, r.Done)
		_, err = play(t, s, c, "raise")
		var down *UnavailableError
		require.ErrorAs(t, err, &down)
		require.ErrorContains(t, err, "division by zero")
		c.Close()
		require.Zero(t, s.open)
	}
}

// A boolean reward says whether an action was right.
func TestRewardThatIsNoNumber(t *testing.T) {
	for text, want := range map[string]Reward{"true": 1, "false": 0, "0.5": 0.5} {
		var r Result
		require.NoError(t, json.Unmarshal([]byte(`{"reward": `+text+`}`), &r))
		require.Equal(t, want, *r.Reward)
	}
	require.Error(t, json.Unmarshal([]byte(`{"reward": "1"}`), new(Result)))
}

// A session whose connection breaks is an error, and the next one works.
func TestCutOff(t *testing.T) {
	s, _ := connect(t, &openenvtest.Server{})
	c, _, err := s.Begin(t.Context(), nil)
	require.NoError(t, err)
	_, err = play(t, s, c, "vanish")
	var down *UnavailableError
	require.ErrorAs(t, err, &down)
	_, again := play(t, s, c, "a")
	require.Equal(t, err, again)
	c.Close()
	c, _, err = s.Begin(t.Context(), nil)
	require.NoError(t, err)
	_, err = play(t, s, c, "a")
	require.NoError(t, err)
	c.Close()
}

// No more sessions are opened than a server has room for, and all get their turn.
func TestFewSessions(t *testing.T) {
	for _, plain := range []bool{false, true} {
		game := &openenvtest.Server{Sessions: 2, Plain: plain}
		s, _ := connect(t, game)
		var wait sync.WaitGroup
		for range 9 {
			wait.Go(func() {
				c, _, err := s.Begin(t.Context(), nil)
				if err == nil {
					_, err = play(t, s, c, "a")
					c.Close()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		most, _, _ := game.SessionCounts()
		require.LessOrEqual(t, most, 2)
		require.Equal(t, 9, game.Actions)
	}
}

// If a server is full, a session waits for another one of its own to end, and does not ask the server again meanwhile.
func TestRoomForOneSession(t *testing.T) {
	game := &openenvtest.Server{Sessions: 1}
	s, _ := connect(t, game)
	c, _, err := s.Begin(t.Context(), nil)
	require.NoError(t, err)
	began := make(chan error)
	go func() {
		c, _, err := s.Begin(t.Context(), nil)
		if err == nil {
			c.Close()
		}
		began <- err
	}()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.limit == 1 && s.open == 1
	}, time.Minute, time.Millisecond)
	c.Close()
	require.NoError(t, <-began)
	require.Zero(t, s.open)
}

// The field of an action is chosen by the schema.
func TestChoose(t *testing.T) {
	const two = `{"properties": {"b": {"type": "string"}, "a": {"type": "integer"}, "metadata": {"type": "object"}}`
	for _, c := range []struct{ schema, asked, want string }{
		{`{"properties": {"code": {"type": "string"}}, "required": ["code"]}`, "", "actions with code (string)"},
		{two + `}`, "", "actions with b (string)"},
		{two + `, "required": ["a"]}`, "", "actions with a (integer)"},
		{two + `, "required": ["a", "b"]}`, "", "openenv_action: the server's actions have a, b; type openenv_action=NAME of the field " +
			"for the model's text, or openenv_action=json for a model that writes the action itself"},
		{two + `, "required": ["a", "b"]}`, "json", "actions as JSON"},
		{two + `}`, "a", "actions with a (integer)"},
		{two + `}`, "c", `openenv_action: found "c", but the server's actions have a, b`},
		{`{"properties": {"a": {"type": "array"}}}`, "a",
			"openenv_action: a is array, not a text; type openenv_action=json for a model that writes the action itself"},
		{``, "x", "actions with x (string)"},
		{``, "", "openenv_action: the server's /schema does not list the fields of actions; " +
			"type openenv_action=NAME of the field for the model's text, or openenv_action=json"},
	} {
		got, err := choose(json.RawMessage(c.schema), c.asked)
		if err != nil {
			require.True(t, badinput.Is(err))
			require.EqualError(t, err, c.want)
			continue
		}
		require.Equal(t, c.want, got.String())
	}
}

// A text is converted to the type of its field.
func TestAct(t *testing.T) {
	for _, c := range []struct {
		field
		text, want string
	}{
		{field{"message", "string"}, " a `b`\n", `{"message":"a ` + "`b`" + `"}`},
		{field{"code", "string"}, "print(1)\n", `{"code":"print(1)"}`},
		{field{"code", "string"}, "So:\n```python\nprint(1)\n```\n", `{"code":"print(1)"}`},
		{field{"action_id", "integer"}, "Not 3 but -4.", `{"action_id":-4}`},
		{field{"at", "number"}, "0.5", `{"at":0.5}`},
		{field{"action_id", "integer"}, "Agent 007, at -00", `{"action_id":-0}`},
		{field{"at", "number"}, "It is 01.50", `{"at":1.50}`},
		{field{"at", "number"}, "It is 1.5e-3", `{"at":1.5e-3}`},
		{field{"at", "number"}, "some −.25 or so", `{"at":-0.25}`},
		{field{"at", "number"}, "1,250.5", `{"at":1250.5}`},
		{field{"n", "integer"}, "1,000,000.", `{"n":1000000}`},
		{field{"n", "integer"}, "3.0", `{"n":3}`},
		{field{"n", "integer"}, "2e3 of 123456789012345678901", `{"n":123456789012345678901}`},
		{field{"n", "integer"}, "3 or 4.5", "there is no action; expected a whole number"},
		{field{"go", "boolean"}, "No. Yes!", `{"go":true}`},
		{field{}, `{"seed": 9007199254740993}`, `{"seed":9007199254740993}`},
		{field{}, "```json\n{\"a\": [1]}\n```", `{"a":[1]}`},
		{field{}, "a", "there is no action; expected a JSON object"},
		{field{"n", "integer"}, "none", "there is no action; expected a number"},
		{field{"go", "boolean"}, "maybe", "there is no action; expected true or false"},
	} {
		action, err := (&Server{field: c.field}).Act(c.text)
		if err != nil {
			require.EqualError(t, err, c.want)
			continue
		}
		got, err := json.Marshal(action)
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
	}
}

// An observation is put into words by the template, if there is one.
func TestText(t *testing.T) {
	s := &Server{base: nil, Options: Options{Template: template.Must(template.New("").Parse("{{.a}} of {{index .b 1}}\n"))}}
	text, err := s.Text(Result{Observation: json.RawMessage(`{"a": "x", "b": [1, 2]}`)})
	require.NoError(t, err)
	require.Equal(t, "x of 2", text)
	s.Template = template.Must(template.New("").Parse(`{{.a}} {{.b}} {{if gt .c 1.0}}{{printf "%.2f" .c}}{{end}} {{.d}}`))
	text, err = s.Text(Result{Observation: json.RawMessage(`{"a": 1000000, "b": [20000000, 0.5], "c": 1.5, "d": 9007199254740993}`)})
	require.NoError(t, err)
	require.Equal(t, "1000000 [20000000 0.5] 1.50 9007199254740993", text)
	s.Template = template.Must(template.New("").Parse("{{index .b 5}}"))
	_, err = s.Text(Result{Observation: json.RawMessage(`{"b": [1]}`)})
	require.ErrorContains(t, err, "openenv_template: template")
	require.True(t, badinput.Is(err))
	s.base = &url.URL{}
	for _, words := range []*template.Template{s.Template, nil} {
		s.Template = words
		_, err = s.Text(Result{Observation: json.RawMessage(`[1]`)})
		require.ErrorContains(t, err, "gave an observation that is no JSON object")
	}
	text, err = s.Text(Result{Observation: json.RawMessage(`{"z": "one\ntwo\n", "a": [1], "n": null, "e": ""}`)})
	require.NoError(t, err)
	require.Equal(t, "z:\none\ntwo\na: [1]", text)
}

// An address without a server, or with another kind of server, gives an error of one line.
func TestFaults(t *testing.T) {
	nothing := httptest.NewServer(http.NotFoundHandler())
	defer nothing.Close()
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))
	gone := slow.URL
	slow.Close()
	for url, message := range map[string]string{
		"localhost:8000": "expected an address, such as env=openenv:http://localhost:8000",
		gone:             "cannot be reached",
		nothing.URL:      "answered /reset with 404 Not Found",
	} {
		_, err := Open(t.Context(), Options{URL: url, Action: "message"})
		require.ErrorContains(t, err, message)
		require.True(t, badinput.Is(err))
	}
}

// An answer that is truncated, invalid, or does not come is an error, and never an empty observation.
func TestAnswersThatAreNone(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"broke off: unexpected EOF": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			fmt.Fprint(w, `{"done": true}`)
		},
		"answered /step with something unexpected": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"gave no answer within 50ms; make it faster, or raise turn_seconds": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice the end of the connection
			<-r.Context().Done()
		},
	}
	for want, answer := range answers {
		at := httptest.NewServer(answer)
		base, err := url.Parse(at.URL)
		require.NoError(t, err)
		c := &Session{server: &Server{Options: Options{Timeout: time.Minute}, base: base, client: at.Client()}}
		if strings.HasPrefix(want, "gave no answer") {
			c.server.Timeout = 50 * time.Millisecond
		}
		_, err = c.Step(t.Context(), nil)
		require.ErrorContains(t, err, want)
		at.Close()
	}
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := websocket.Accept(w, r, nil); err == nil {
			_, asked, _ := conn.Read(r.Context())
			_ = conn.Write(r.Context(), websocket.MessageText, asked)
			_, _, _ = conn.Read(r.Context())
		}
	}))
	defer at.Close()
	base, err := url.Parse(at.URL)
	require.NoError(t, err)
	s := &Server{base: base}
	s.freed, s.limit = sync.NewCond(&s.mu), 1
	_, _, err = s.Begin(t.Context(), nil)
	require.ErrorContains(t, err, `answered reset with something unexpected: its type is "reset"`)
	require.Zero(t, s.open)
}

// A server that refuses access, or fails, is distinguished from one that has no schema.
func TestWhyASchemaIsNotTold(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusUnauthorized:        "answered /schema with 401 Unauthorized: no; set OPENENV_TOKEN to its token",
		http.StatusForbidden:           "answered /schema with 403 Forbidden: no; set OPENENV_TOKEN to its token",
		http.StatusServiceUnavailable:  "answered /schema with 503 Service Unavailable: no; check that it is up, and serves an environment",
		http.StatusNotFound:            "answered /schema with 404 Not Found: no; check that it is an OpenEnv server; if it has no",
		http.StatusTeapot:              "answered /schema with 418 I'm a teapot; check that it is an OpenEnv server",
		http.StatusInternalServerError: "answered /schema with 500 Internal Server Error: no; check that it is up",
	} {
		said := "no"
		if status == http.StatusTeapot {
			said = "<!DOCTYPE HTML><p>no</p>"
		}
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, said, status) }))
		_, err := Open(t.Context(), Options{URL: at.URL, Timeout: time.Minute})
		require.ErrorContains(t, err, want)
		require.True(t, badinput.Is(err))
		at.Close()
	}
}
