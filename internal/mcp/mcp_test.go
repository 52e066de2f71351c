package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// TestMain runs the tests, or a server on standard input and output.
func TestMain(m *testing.M) {
	switch os.Getenv("MCP_TEST") {
	case "serve":
		_ = exampleServer().Run(context.Background(), &sdk.StdioTransport{})
		os.Exit(0)
	case "knows":
		runFakeServer(strings.Fields(os.Getenv("MCP_KNOWS")), os.Stdin, os.Stdout)
		os.Exit(0)
	case "broken":
		fmt.Fprintln(os.Stderr, "starting\nno such disk")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

type none struct{}

type number struct {
	N int `json:"n"`
}

func said(parts ...sdk.Content) *sdk.CallToolResult { return &sdk.CallToolResult{Content: parts} }

// exampleServer is a server with all kinds of tools.
func exampleServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "example", Version: "1"}, nil)
	count := 0
	add := func(name string, answer func(context.Context, number) (*sdk.CallToolResult, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "What " + name + " does"},
			func(ctx context.Context, _ *sdk.CallToolRequest, in number) (*sdk.CallToolResult, any, error) {
				r, err := answer(ctx, in)
				return r, nil, err
			})
	}
	add("count", func(_ context.Context, in number) (*sdk.CallToolResult, error) {
		count += in.N
		return said(&sdk.TextContent{Text: fmt.Sprint(count)}), nil
	})
	add("crash", func(context.Context, number) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(1)
		return nil, nil
	})
	add("hang", func(ctx context.Context, _ number) (*sdk.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("fail", func(context.Context, number) (*sdk.CallToolResult, error) { return nil, errors.New("no such page") })
	add("show.all", func(context.Context, number) (*sdk.CallToolResult, error) {
		return said(&sdk.TextContent{Text: "a picture:"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("four")},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///a", Text: "its text"}},
			&sdk.ResourceLink{Name: "more", URI: "file:///b"}), nil
	})
	add("python", func(context.Context, number) (*sdk.CallToolResult, error) {
		return said(&sdk.TextContent{Text: strings.Join(os.Environ(), " ")}), nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "structured"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, number, error) {
		return nil, number{7}, nil
	})
	return s
}

// write writes a file of servers.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "servers.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// open starts the servers of a file.
func open(t *testing.T, within time.Duration, text string) *Servers {
	t.Helper()
	return openIn(t, within, usualPatience, text)
}

// openIn starts servers with a given patience.
func openIn(t *testing.T, within time.Duration, p patience, text string) *Servers {
	t.Helper()
	named, err := Read(write(t, text))
	require.NoError(t, err)
	all, err := openWith(t.Context(), named, Options{CallTimeout: within, ReservedNames: []string{"python", "trace"}}, p)
	require.NoError(t, err)
	t.Cleanup(all.Close)
	return all
}

// converse opens the tools of a conversation, and returns a function that calls them.
func converse(t *testing.T, all *Servers) (*Kit, func(name, args string) string) {
	t.Helper()
	k, err := all.Kit(t.Context())
	require.NoError(t, err)
	return k, func(name, args string) string {
		t.Helper()
		require.True(t, k.Has(name), name)
		text, err := k.Call(t.Context(), name, json.RawMessage(args))
		require.NoError(t, err)
		return text
	}
}

func testBinary() string {
	text, _ := json.Marshal(os.Args[0])
	return string(text)
}

// A server that is a command answers calls, is restarted if it ends, and gets only the allowed environment variables.
func TestCommand(t *testing.T) {
	t.Setenv("MCP_SECRET", "hush")
	t.Setenv("MCP_OTHER", "loud")
	all := open(t, time.Minute, `{"mcpServers": {"ex": {"command": `+testBinary()+`, "env": {"MCP_TEST": "serve", "KEY": "${MCP_SECRET}"}}}}`)
	k, call := converse(t, all)
	require.Equal(t, "3", call("count", `{"n": 3}`))
	require.Equal(t, "error: no such page", call("fail", `{"n": 3}`))
	require.Contains(t, call("count", `{"m": 3}`), "error: ")
	require.Equal(t, "error: the arguments are no JSON object", call("count", `[3]`))
	require.Equal(t, "a picture:\n[an image, image/png of 4 bytes, which cannot be shown]\n[the resource file:///a]\nits text\n"+
		"[a resource: more, file:///b]", call("show_all", `{"n": 0}`))
	require.Equal(t, `{"n":7}`, call("structured", ``))
	env := call("ex_python", `{"n": 0}`)
	require.Contains(t, env, "KEY=hush")
	require.NotContains(t, env, "loud")
	require.Equal(t, 3, k.Wrong())

	require.Equal(t, "error: the server ended before it answered: out of luck", call("crash", `{"n": 0}`))
	require.Equal(t, "1", call("count", `{"n": 1}`), "after a crash the server is started again")
	for range mostGoes - 1 {
		_, err := k.Call(t.Context(), "crash", json.RawMessage(`{"n": 0}`))
		require.NoError(t, err)
	}
	_, err := k.Call(t.Context(), "crash", json.RawMessage(`{"n": 0}`))
	var down *UnavailableError
	require.ErrorAs(t, err, &down)
	require.EqualError(t, err, `the MCP server "ex" ended 5 times without an answer to a call`)
	k.Close()

	require.Equal(t, []string{"mcp: the tool python of the server ex is called ex_python",
		"mcp: the tool show.all of the server ex is called show_all"}, all.Notes)
	var schema struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        struct{ Required []string }
		}
	}
	require.NoError(t, json.Unmarshal(all.Tools()[0].Schema, &schema))
	require.Equal(t, []any{"function", "count", "What count does", []string{"n"}},
		[]any{schema.Type, schema.Function.Name, schema.Function.Description, schema.Function.Parameters.Required})
}

// State that one conversation leaves in its own server is not seen by others; a shared server keeps it.
func TestSessions(t *testing.T) {
	t.Parallel()
	for _, isolate := range []bool{false, true} {
		all := open(t, time.Minute, fmt.Sprintf(`{"servers": {"ex": {"type": "stdio", "command": %s, "env": {"MCP_TEST": "serve"},
			"tools": ["count"], "isolate": %t}}}`, testBinary(), isolate))
		require.Len(t, all.Tools(), 1)
		one, call := converse(t, all)
		other, again := converse(t, all)
		require.Equal(t, "2", call("count", `{"n": 2}`))
		want := "7"
		if isolate {
			want = "5"
		}
		require.Equal(t, want, again("count", `{"n": 5}`))
		one.Close()
		other.Close()
	}
}

// A server that is slow with one call is kept, with its state.
func TestASlowCall(t *testing.T) {
	t.Parallel()
	all := open(t, 500*time.Millisecond, `{"servers": {"ex": {"command": `+testBinary()+`, "env": {"MCP_TEST": "serve"}}}}`)
	k, call := converse(t, all)
	defer k.Close()
	require.Equal(t, "2", call("count", `{"n": 2}`))
	require.Equal(t, "error: no answer within 500ms", call("hang", `{"n": 0}`))
	require.Equal(t, "3", call("count", `{"n": 1}`))
}

// A server with an address gets the configured headers, and no other does; a call that hangs is abandoned.
func TestAddress(t *testing.T) {
	t.Setenv("MCP_TOKEN", "hush")
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header.Get("Authorization"))
		http.Error(w, "not here", http.StatusNotFound)
	}))
	defer away.Close()
	shared := exampleServer()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return shared }, nil)
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, away.URL, http.StatusTemporaryRedirect)
		case r.Header.Get("Authorization") != "Bearer hush":
			http.Error(w, "who are you", http.StatusUnauthorized)
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	defer home.Close()
	entry := func(path, token string) string {
		return fmt.Sprintf(`{"mcpServers": {"ex": {"url": "%s%s", "headers": {"Authorization": "Bearer %s"}}}}`, home.URL, path, token)
	}
	all := open(t, 100*time.Millisecond, entry("/mcp?key=quiet", "${MCP_TOKEN}"))
	k, call := converse(t, all)
	defer k.Close()
	require.Equal(t, "error: no answer within 100ms", call("hang", `{"n": 0}`))
	require.Equal(t, 1, k.Wrong())
	require.Equal(t, "https://host/mcp", (&Server{URL: "https://me:hush@host/mcp?key=quiet"}).String())
	for _, c := range []struct{ path, token, says string }{
		{"/mcp?key=quiet", "wrong", `cannot be used: calling "initialize": sending "initialize": Unauthorized`},
		{"/away", "hush", `cannot be used: calling "initialize": sending "initialize": Not Found`},
	} {
		named, err := Read(write(t, entry(c.path, c.token)))
		require.NoError(t, err)
		_, err = Open(t.Context(), named, Options{CallTimeout: time.Minute})
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, "check that the server is up, and its headers")
		require.NotContains(t, err.Error(), "hush")
		require.True(t, badinput.Is(err))
	}
}

// A faulty file, and a server that cannot be reached, give an error of one line.
func TestFaults(t *testing.T) {
	t.Parallel()
	for text, message := range map[string]string{
		`{`:                         "the JSON value ends too early; expected {",
		`{}`:                        "names no server; expected {",
		`{"mcpServer": {}}`:         `unknown field "mcpServer"`,
		`{"mcpServers": {"a": {}}}`: `server "a": found neither "command" nor "url"`,
		`{"mcpServers": {"a": {"command": "x", "url": "http://y"}}}`:     `found "command" and "url"`,
		`{"mcpServers": {"a": {"command": "x", "cwd": "/no/such"}}}`:     `server "a": cwd: found "/no/such", which is no directory here`,
		`{"mcpServers": {"a": {"command": "x", "env": {"PORT": 3000}}}}`: `server "a": field "env": found a JSON number, expected a text;`,
		`[]`: "servers.json: found a JSON array, expected an object",
		`{"mcpServers": {"a": {"command": "x", "type": "http"}}}`:                `type: found "http" beside "command"`,
		`{"mcpServers": {"a": {"url": "http://y", "type": "sse"}}}`:              `type: found "sse" beside "url"`,
		`{"mcpServers": {"a": {"url": "localhost:80"}}}`:                         `url: found "localhost:80", expected one such as`,
		`{"mcpServers": {"a": {"command": "x", "headers": {"b": "c"}}}}`:         "headers: a command has none",
		`{"mcpServers": {"a": {"url": "http://y", "args": ["b"]}}}`:              `a "url" has "headers"`,
		`{"mcpServers": {"a": {"command": "x", "env": {"b": "${MCP_NO_ONE}"}}}}`: "MCP_NO_ONE is not set; type export MCP_NO_ONE=…",
		`{"mcpServers": {"a": {"command": "x", "disabled": true}}}`:              `all of its servers are "disabled"`,
		`{"mcpServers": {"a": {"command": "x"}}}` + "\n" + `{"mcpServers": {}}`:  `found "{\"mcpServers\": {}}" at byte 40, after the JSON value`,
		`{"mcpServers": {"a": {"command": "x"}}} ]`:                              `found "]" at byte 40, after the JSON value`,

		`{"mcpServers": {"a": {"isolate": "yes"}}}`:             `server "a": field "isolate": found a JSON string,`,
		`{"mcpServers": {"a": {"command": "x", "arg": ["b"]}}}`: `servers.json: server "a": unknown field "arg"; expected {`,
		`{"mcpServers": []}`:                                    `servers.json: field "mcpServers": found a JSON array, expected an object`,
	} {
		_, err := Read(write(t, text))
		require.ErrorContains(t, err, message, text)
		require.True(t, badinput.Is(err))
	}
	serve := `"command": ` + testBinary() + `, "env": {"MCP_TEST": "serve"}`
	for text, message := range map[string]string{
		`"command": "/nowhere/at/all"`:                                   "(/nowhere/at/all) cannot be started",
		`"command": ` + testBinary() + `, "env": {"MCP_TEST": "broken"}`: ": no such disk; run its command by itself to see what is wrong",
		serve + `, "tools": ["cont"]`:                                    `tools: it has no tool "cont"; it has count, crash`,
	} {
		named, err := Read(write(t, `{"mcpServers": {"a": {`+text+`}}}`))
		require.NoError(t, err)
		_, err = Open(t.Context(), named, Options{CallTimeout: time.Minute})
		require.ErrorContains(t, err, message)
		require.True(t, badinput.Is(err))
	}
}
