package tools

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// An unknown format is reported by its flag.
func TestForm(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.py")
	require.NoError(t, os.WriteFile(file, []byte("print(1)\n"), 0o600))
	cmd := Command()
	cmd.SetArgs([]string{"trace", file, "--form", "tbl"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	require.EqualError(t, cmd.ExecuteContext(t.Context()), `--form: found "tbl", expected lines, table or story`)
}

// If public tests are requested of a task without any, the error says how to have some.
func TestTasksWithoutPublicTests(t *testing.T) {
	dir := t.TempDir()
	file, tasks := filepath.Join(dir, "a.py"), filepath.Join(dir, "tasks.jsonl")
	require.NoError(t, os.WriteFile(file, []byte("print(1)\n"), 0o600))
	for test, want := range map[string]string{
		`"tests": [{"input": "", "output": "1"}]`: "the task marks none of its tests \"public\": true; type --public-tests 1",
		`"answer": "1", "match": "exact"`:         "",
	} {
		require.NoError(t, os.WriteFile(tasks, []byte(`{"prompt": "Print 1.", `+test+"}\n"), 0o600))
		cmd, out, errs := Command(), bytes.Buffer{}, bytes.Buffer{}
		cmd.SetArgs([]string{"run_tests", file, "--problems", tasks})
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.ExecuteContext(t.Context()); badinput.Is(err) {
			t.Skip(err) // no sandbox here
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, "this task has no public tests\n", out.String())
		if want == "" {
			require.Empty(t, errs.String())
		}
		require.Contains(t, errs.String(), want)
	}
}

// A server's descriptions of its tools are shown with control characters escaped; an invalid schema shows less.
func TestToolsOfAServerThatIsStrange(t *testing.T) {
	const server = `read a
echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}'
read a
echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":""}}}'
read a; read a
echo '{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","required":["\u001b[2Jb"]}},
{"name":"c","description":"d","inputSchema":{"type":"object","required":"e"}}]}}' | tr -d '\n'
echo; read a`
	file := filepath.Join(t.TempDir(), "servers.json")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"mcpServers":{"s":{"command":"sh","args":["-c",%q]}}}`, server), 0o600))
	cmd, out := Command(), bytes.Buffer{}
	cmd.SetArgs([]string{"mcp", file})
	cmd.SetOut(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Equal(t, fmt.Sprintf("%-28s s: \n%-28s   needs ␛[2Jb\n%-28s s: d\n", "a", "", "c"), out.String())
}
