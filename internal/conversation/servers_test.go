package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/openenv"
	"github.com/seed-7879b91d/grpo/internal/openenv/openenvtest"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// mcpServer is a server with a tool that repeats a text, and the file that names the server.
func mcpServer(t *testing.T) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "example", Version: "1"}, nil)
	type in struct {
		Text  string `json:"text"`
		Times int    `json:"times"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "repeat", Description: "Says it again."},
		func(_ context.Context, _ *sdk.CallToolRequest, i in) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat(i.Text, i.Times)}}}, nil, nil
		})
	at := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(at.Close)
	path := filepath.Join(t.TempDir(), "servers.json")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{"mcpServers": {"ex": {"url": %q}}}`, at.URL), 0o600))
	return path
}

// Tools of servers can be offered together with those of the sandbox, or alone: then a run needs no sandbox.
func TestToolsOfServers(t *testing.T) {
	for _, own := range []string{"tools=[trace]", "tools=[]"} {
		cfg, l, j, p := openParts(t, "env=tools", "mcp="+mcpServer(t), own)
		if own == "tools=[]" {
			j = &judging.Judging{Grader: reward.GraderFunc(func(_ context.Context, c reward.Completion) (reward.Score, error) {
				return reward.Score{Reward: float64(len(c.Text))}, nil
			})}
		}
		r, err := Open(t.Context(), cfg, l, j, &sources.Problems{}, nil)
		require.NoError(t, err)
		require.Contains(t, r.String(), ", with the tools of ex (repeat)")
		_, text, err := l.Prompt(t.Context(), &p)
		require.NoError(t, err)
		require.Contains(t, text, `"name": "repeat", "description": "Says it again."`)
		require.Equal(t, own == "tools=[trace]", strings.Contains(text, `"name": "trace"`))
		require.NotContains(t, text, `"name": "python"`)
		e, err := r.env.Open(t.Context(), &p)
		require.NoError(t, err)
		say := func(name, args string) string {
			turn := said("", 0, false)
			turn.Calls = []episode.Call{{Name: name, Arguments: []byte(args), ID: "call00000"}}
			a, err := e.Turn(t.Context(), turn)
			require.NoError(t, err)
			return a.Messages[0].Content
		}
		require.Equal(t, "ababab", say("repeat", `{"text": "ab", "times": 3}`))
		require.Contains(t, say("repeat", `{"text": "ab", "times": 9999}`), " bytes left out …")
		require.Contains(t, say("repeat", `{"text": 3}`), "error: ")
		require.Contains(t, say("python", `{"code": "1"}`), "there is no tool")
		a, err := e.Turn(t.Context(), said("x", 1, true))
		require.NoError(t, err)
		require.True(t, a.Over)
		require.NoError(t, e.Close())
		require.NoError(t, r.Close())
	}
	_, _, _, _ = openParts(t)
	_, err := Open(t.Context(), &configs.Config{Env: "tools", MCP: "nothing.json"}, &sources.Language{}, &judging.Judging{}, nil, nil)
	require.ErrorContains(t, err, "mcp: open nothing.json")
	require.True(t, badinput.Is(err))
}

// A conversation is a session: its first observation is appended to the prompt, and each of the model's turns is an action.
func TestOpenEnv(t *testing.T) {
	game := &openenvtest.Server{}
	at := httptest.NewServer(game)
	defer at.Close()
	cfg, l, _, p := openParts(t, "env=openenv:"+at.URL, "openenv_reward=best")
	p.Metadata = []byte(`{"reset": {"seed": 7}}`)
	r, err := Open(t.Context(), cfg, l, &judging.Judging{}, nil, nil)
	require.NoError(t, err)
	require.Contains(t, r.String(), " at "+at.URL+", actions with message (string), sessions by WebSocket")
	_, text, err := l.Prompt(t.Context(), &p)
	require.NoError(t, err)
	require.Contains(t, text, "\n\nSay vowels about 7.<|im_end|>")
	e, err := r.env.Open(t.Context(), &p)
	require.NoError(t, err)
	for turn, want := range []episode.Answer{{Reward: 1}, {Reward: 1}, {Reward: 1, Over: true}} {
		a, err := e.Turn(t.Context(), said([]string{"aa", "bb", "ab"}[turn], turn, turn == 2))
		require.NoError(t, err)
		require.Equal(t, want, episode.Answer{Reward: a.Reward, Over: a.Over})
		require.Equal(t, fmt.Sprintf("reply: so %d\nturn: %d", []int{2, 0, 1}[turn], turn+1), a.Messages[0].Content)
	}
	require.NoError(t, e.Close())

	e, err = r.env.Open(t.Context(), &p)
	require.NoError(t, err)
	_, err = e.Turn(t.Context(), said("vanish", 0, false))
	var down *openenv.UnavailableError
	require.ErrorAs(t, err, &down)
	var s reward.Score
	require.True(t, machineFailed(err, &s))
	require.Equal(t, reward.ExcludedInfra, s.Excluded)
	require.NoError(t, e.Close())
	require.Eventually(t, func() bool { // a client that disappears does not close its session
		_, _, open := game.SessionCounts()
		return open == 0
	}, time.Minute, time.Millisecond)

	moody := httptest.NewServer(&openenvtest.Server{Seedless: true})
	defer moody.Close()
	cfg, l, _, p = openParts(t, "env=openenv:"+moody.URL)
	r, err = Open(t.Context(), cfg, l, &judging.Judging{}, nil, nil)
	require.NoError(t, err)
	_, err = r.env.Open(t.Context(), &data.Problem{ID: p.ID})
	require.ErrorContains(t, err, "for the same seed, but all conversations of a problem must begin alike; make it use the seed")
	require.True(t, badinput.Is(err))
	_, err = r.env.Open(t.Context(), &data.Problem{ID: "odd", Metadata: []byte(`{"reset": 7}`)})
	require.ErrorContains(t, err, `metadata: field "reset": found a JSON number, expected an object, such as {"reset": {"seed"`)
	moody.Close()
	_, err = r.env.Open(t.Context(), &data.Problem{ID: "another"})
	require.ErrorAs(t, err, &down)
}

// A template can put observations into words.
func TestOpenEnvTemplate(t *testing.T) {
	at := httptest.NewServer(&openenvtest.Server{})
	defer at.Close()
	words := filepath.Join(t.TempDir(), "words")
	for text, want := range map[string]string{
		"{{.prompt}} Please.{{with .messages}}{{.text}}{{end}}": "",
		"{{": "openenv_template: template: openenv_template:1",
		"{{.promt}} {{if not .turn}}{{.reply | print}}{{end}}": "found {{.promt}}, but the server's observations have messages, note, prompt, " +
			"reply, turn",
	} {
		require.NoError(t, os.WriteFile(words, []byte(text), 0o644))
		cfg, l, _, p := openParts(t, "env=openenv:"+at.URL, "openenv_template="+words)
		p.Metadata = []byte(`{"reset": {"seed": 7}}`)
		r, err := Open(t.Context(), cfg, l, &judging.Judging{}, nil, nil)
		if strings.HasPrefix(want, "found") { // another observation may have it
			require.NoError(t, err)
			require.Equal(t, []string{"openenv_template: " + want}, r.Notes)
			continue
		}
		if want != "" {
			require.ErrorContains(t, err, want)
			require.True(t, badinput.Is(err))
			continue
		}
		require.NoError(t, err)
		require.Empty(t, r.Notes)
		_, text, err := l.Prompt(t.Context(), &p)
		require.NoError(t, err)
		require.Contains(t, text, "\n\nSay vowels about 7. Please.<|im_end|>")
	}
}

// A session that is done at its reset is an error.
func TestSessionsThatAreDoneAsTheyBegin(t *testing.T) {
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reset" {
			fmt.Fprint(w, `{"observation": {"a": "x"}, "done": true}`)
			return
		}
		http.NotFound(w, r)
	}))
	defer at.Close()
	cfg, l, _, p := openParts(t, "env=openenv:"+at.URL, "openenv_action=a")
	_, err := Open(t.Context(), cfg, l, &judging.Judging{}, nil, nil)
	require.NoError(t, err)
	_, _, err = l.Prompt(t.Context(), &p)
	require.EqualError(t, err, "problem plus: env=openenv: the episode is done right after its reset; check metadata.reset of its row")
}

// Reset parameters of a row are passed to the server unchanged.
func TestParametersOfAReset(t *testing.T) {
	all, err := parameters(&data.Problem{ID: "p", Metadata: []byte(`{"reset": {"task": 9007199254740993, "level": 1.0}}`)})
	require.NoError(t, err)
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.Contains(t, string(text), `"task":9007199254740993`)
	require.Contains(t, string(text), `"seed":2055610871`, "of the problem's ID, in every run that asks for it")
}

// Stopping a run does not wait for a slow server to reset its sessions.
func TestStoppingWhileProblemsBegin(t *testing.T) {
	cfg, l, _, p := openParts(t)
	ctx, stop := context.WithCancel(t.Context())
	begun := 0
	l.Begin = func(context.Context, *data.Problem) (string, error) { begun++; stop(); return "", nil }
	_, err := (&sources.Problems{Train: []data.Problem{p, p, p}}).Longest(ctx, l, cfg, true)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, begun)
}

// Nor for a single one that is slow.
func TestStoppingWhileAServerBegins(t *testing.T) {
	game := &openenvtest.Server{Plain: true}
	ctx, stop := context.WithCancel(t.Context())
	resets := 0
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reset" {
			if resets++; resets > 1 { // the first reset was to test the server
				_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
				stop()
				<-r.Context().Done()
				return
			}
		}
		game.ServeHTTP(w, r)
	}))
	defer at.Close()
	cfg, l, _, p := openParts(t, "env=openenv:"+at.URL)
	_, err := Open(ctx, cfg, l, &judging.Judging{}, nil, nil)
	require.NoError(t, err)
	_, _, err = l.Prompt(ctx, &p)
	require.ErrorIs(t, err, context.Canceled)
}

// The remedy depends on what failed: grpo doctor only checks the sandbox, and not an environment server.
func TestWhatMendsAnEnvironment(t *testing.T) {
	require.Contains(t, remedy(&openenv.UnavailableError{URL: "http://x", Err: io.EOF}), "fix it, and type the same command again")
	require.Contains(t, remedy(fmt.Errorf("a turn: %w", &sandbox.InfraError{})), "grpo doctor")
}
