package tools

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A form that is not there is told of by its flag.
func TestForm(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.py")
	require.NoError(t, os.WriteFile(file, []byte("print(1)\n"), 0o600))
	cmd := Command()
	cmd.SetArgs([]string{"trace", file, "--form", "tbl"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	require.EqualError(t, cmd.ExecuteContext(t.Context()), `--form: found "tbl", expected lines, table or story`)
}

// What a server says of its tools is shown, and does nothing to a terminal; a schema that is none says less.
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
