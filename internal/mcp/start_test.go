package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// results are the answers of a handwritten server to the methods that it knows. "refuse" makes it refuse all others.
var results = map[string]string{
	"initialize":      `{"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "hand", "version": "1"}}`,
	"server/discover": `{"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}`,
	"tools/list":      `{"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "resultType": "complete"}`,
	"tools/call":      `{"content": [{"type": "text", "text": "hello"}], "resultType": "complete"}`,
}

// answer is such a server's answer to a message; "" means none.
func answer(known []string, line []byte) string {
	var asked struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(line, &asked)
	switch {
	case asked.ID == nil:
	case slices.Contains(known, asked.Method):
		return fmt.Sprintf(`{"jsonrpc": "2.0", "id": %s, "result": %s}`, asked.ID, results[asked.Method])
	case slices.Contains(known, "new") && asked.Method == "tools/call":
		return fmt.Sprintf(`{"jsonrpc": "2.0", "id": %s, "result": {"content": [{"type": "smell"}]}}`, asked.ID)
	case slices.Contains(known, "silent") && asked.Method == "tools/call":
		return fmt.Sprintf(`{"jsonrpc": "2.0", "id": %s, "error": {"code": -32603, "message": " "}}`, asked.ID)
	case slices.Contains(known, "twice") && asked.Method == "tools/list":
		return fmt.Sprintf(`{"jsonrpc": "2.0", "id": %s, "result": {"tools": [%s, %[2]s, %s]}}`, asked.ID,
			`{"name": "echo", "description": "first", "inputSchema": {"type": "object"}}`, `{"name": "echo", "inputSchema": {"type": "object"}}`)
	case slices.Contains(known, "greet") && asked.Method == discover:
		return "Welcome"
	case slices.Contains(known, "print") && asked.Method == "tools/call":
		return "done"
	case slices.Contains(known, "refuse"):
		return fmt.Sprintf(`{"jsonrpc": "2.0", "id": %s, "error": {"code": -32601, "message": "what?"}}`, asked.ID)
	}
	return ""
}

// runFakeServer runs a server on a pipe. What it knows begins with its start-up time.
func runFakeServer(known []string, in io.Reader, out io.Writer) {
	if wait, err := time.ParseDuration(known[0]); err == nil {
		time.Sleep(wait)
	}
	fmt.Fprintln(os.Stderr, "listening")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if said := answer(known, lines.Bytes()); said != "" {
			fmt.Fprintln(out, said)
			if slices.Contains(known, "deaf") && strings.Contains(lines.Text(), "tools/list") {
				time.Sleep(time.Hour)
			}
		}
	}
}

// shortPatience has a short patience for optional answers.
var shortPatience = patience{start: time.Minute, sign: 100 * time.Millisecond}

// startFakeServer starts a server that knows some methods, and does not answer others.
func startFakeServer(t *testing.T, p patience, known string) (*Servers, error) {
	t.Helper()
	named, err := Read(write(t, fmt.Sprintf(`{"mcpServers": {"hand": {"command": %s, "env": {"MCP_TEST": "knows", "MCP_KNOWS": %q}}}}`,
		testBinary(), known)))
	require.NoError(t, err)
	return openWith(t.Context(), named, Options{CallTimeout: time.Minute}, p)
}

// Optional answers of a server are waited for only briefly, and it works without them; with a server that starts slowly, no version of
// the protocol is skipped.
func TestNoAnswerToWhatIsOptional(t *testing.T) {
	t.Parallel()
	for _, known := range []string{
		"0s initialize tools/list tools/call",
		"300ms initialize tools/list tools/call refuse",
		"300ms server/discover tools/list tools/call refuse",
	} {
		all, err := startFakeServer(t, shortPatience, known)
		require.NoError(t, err, known)
		k, call := converse(t, all)
		require.Equal(t, "hello", call("echo", ""), known)
		k.Close()
		all.Close()
	}
}

// The same over HTTP, where a missing answer is a response that does not come.
func TestNoAnswerOverHTTP(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line, _ := io.ReadAll(r.Body)
		said := answer([]string{"initialize", "tools/list", "tools/call"}, line)
		switch {
		case said != "":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, said)
		case strings.Contains(string(line), discover):
			<-over
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer home.Close()
	defer close(over)
	all := openIn(t, time.Minute, shortPatience, `{"mcpServers": {"hand": {"url": "`+home.URL+`"}}}`)
	k, call := converse(t, all)
	require.Equal(t, "hello", call("echo", ""))
	k.Close()
}

// A missing required answer is an error that names the method, the time waited and what to do.
func TestNoAnswerToWhatIsRequired(t *testing.T) {
	t.Parallel()
	var wait sync.WaitGroup
	for known, method := range map[string]string{"0s tools/list": "initialize", "0s initialize": "tools/list"} {
		wait.Go(func() {
			_, err := startFakeServer(t, patience{start: 2 * time.Second, sign: 50 * time.Millisecond}, known)
			assert.ErrorContains(t, err, fmt.Sprintf(`the MCP server "hand" (%s) did not answer %q within 2s`, os.Args[0], method))
			assert.ErrorContains(t, err, "; run its command by itself to see what is wrong")
			assert.True(t, badinput.Is(err))
		})
	}
	wait.Wait()
}

// If a server's program prints something else than answers, the error says so, and not that it ended.
func TestAServerThatPrints(t *testing.T) {
	t.Parallel()
	all, err := startFakeServer(t, usualPatience, "0s initialize tools/list print refuse")
	require.NoError(t, err)
	defer all.Close()
	k, call := converse(t, all)
	defer k.Close()
	require.Equal(t, "error: the server printed what is no answer, and was ended "+
		"(invalid character 'd' looking for beginning of value): listening", call("echo", ""))
}

// The same for unreadable answers, and for output before the first answer.
func TestAServerThatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	all, err := startFakeServer(t, usualPatience, "0s initialize tools/list new refuse")
	require.NoError(t, err)
	defer all.Close()
	k, call := converse(t, all)
	defer k.Close()
	require.Equal(t, "error: the answer of the server cannot be read, and it was ended "+
		`(unrecognized content type "smell"): listening`, call("echo", ""))

	_, err = startFakeServer(t, usualPatience, "0s initialize tools/list greet refuse")
	require.ErrorContains(t, err, "printed something other than messages on its standard output "+
		"(invalid character 'W' looking for beginning of value): listening; run its command")
}

// A tool that is listed twice counts once, as listed first, with a note; a refusal without a text gets one.
func TestAServerThatRepeatsItselfAndIsSilent(t *testing.T) {
	t.Parallel()
	all, err := startFakeServer(t, usualPatience, "0s initialize twice silent refuse")
	require.NoError(t, err)
	defer all.Close()
	require.Len(t, all.Tools(), 1)
	require.Contains(t, string(all.Tools()[0].Schema), `"description":"first"`)
	require.Equal(t, []string{"mcp: the server hand lists its tool echo more than once; it is taken as listed first"}, all.Notes)
	k, call := converse(t, all)
	defer k.Close()
	require.Equal(t, "error: the server refused the call (code -32603), and does not say why", call("echo", ""))
	require.Equal(t, 1, k.Wrong())
}

// If a server over HTTP fails, the model is told; if it stays away, the conversation is excluded. Secrets in its address are not shown.
func TestAServerOverHTTPThatIsGone(t *testing.T) {
	t.Parallel()
	fails := false
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line, _ := io.ReadAll(r.Body)
		switch said := answer([]string{"initialize", "tools/list", "tools/call", "refuse"}, line); {
		case fails && strings.Contains(string(line), "tools/call"):
			http.Error(w, "no such disk", http.StatusInternalServerError)
		case said != "":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, said)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	all := open(t, time.Minute, `{"mcpServers": {"hand": {"url": "`+home.URL+`/mcp?key=hush"}}}`)
	k, call := converse(t, all)
	defer k.Close()
	require.Equal(t, "hello", call("echo", ""))
	fails = true
	require.Equal(t, "error: the server gave no answer that can be read", call("echo", ""))
	fails = false
	require.Equal(t, "hello", call("echo", ""))

	home.Close()
	_, err := k.Call(t.Context(), "echo", nil)
	var down *UnavailableError
	require.ErrorAs(t, err, &down)
	require.Regexp(t, `cannot be reached: dial tcp .*connection refused`, err.Error())
	require.NotContains(t, err.Error(), "hush")
}

// Waiting while another conversation starts a server is limited by one's own time, and no server is started for those who have gone.
func TestWaitingForAServerThatIsNotReady(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	h := &host{Server: Server{Name: "slow", Command: "/bin/sh", Args: []string{"-c", `echo x >> "$0"; read a; read a`, starts}}}
	l := (&Servers{waits: usualPatience}).link(h)
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			_, err := l.get(ctx)
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	require.Eventually(t, func() bool { _, err := os.Stat(starts); return err == nil }, time.Minute, time.Millisecond)
	brief, over := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer over()
	_, err := l.get(brief)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, ctx.Err(), "the first caller still waits for the server")
	stop()
	wait.Wait()
	l.close()
	text, err := os.ReadFile(starts)
	require.NoError(t, err)
	require.Equal(t, "x\n", string(text))
}

// A server that stops reading counts as one that does not answer, even if a call is longer than its pipe's buffer.
func TestAServerThatReadsNothing(t *testing.T) {
	t.Parallel()
	all := openIn(t, 200*time.Millisecond, shortPatience, `{"mcpServers": {"hand": {"command": `+testBinary()+`,
		"env": {"MCP_TEST": "knows", "MCP_KNOWS": "0s initialize tools/list deaf"}}}}`)
	k, call := converse(t, all)
	long := fmt.Sprintf(`{"text": %q}`, strings.Repeat("x", 1<<20))
	require.Equal(t, "error: no answer within 200ms", call("echo", long))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := k.Call(ctx, "echo", json.RawMessage(long))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
