package doctor

import (
	"context"
	"time"

	"github.com/seed-7879b91d/grpo/internal/mcp"
	"github.com/seed-7879b91d/grpo/reward/tools"
)

// ExamineServers starts each MCP server of a file by itself, and lists its tools.
func ExamineServers(ctx context.Context, path string) []Finding {
	named, err := mcp.Read(path)
	if err != nil {
		return []Finding{{Name: "mcp", Found: err.Error(), Do: "mend the file " + path}}
	}
	var all []Finding
	for _, one := range named {
		f := Finding{Name: "mcp", OK: true}
		servers, err := mcp.Open(ctx, []mcp.Server{one}, mcp.Options{CallTimeout: time.Minute, ReservedNames: tools.Names()})
		if err != nil {
			f.OK, f.Found, f.Do = false, err.Error(), "fix the entry of "+one.Name+" in "+path+", or set \"disabled\": true in it"
		} else {
			f.Found, f.Notes = servers.String(), servers.Notes
			servers.Close()
		}
		all = append(all, f)
	}
	return all
}
