package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/mcp"
	"github.com/seed-7879b91d/grpo/reward/tools"
)

func mcpCommand() *cobra.Command {
	var seconds float64
	var text int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "mcp FILE [TOOL [ARGUMENTS]]",
		Short: "List the tools of MCP servers, or call one of them",
		Long: `Starts the servers in FILE, as mcp=FILE does, and lists their tools by the names under which a model calls them. With
TOOL it calls that tool and prints the text that the model would get. ARGUMENTS is a JSON object.`,
		Example: `  grpo tool mcp servers.json
  grpo tool mcp servers.json --json > tools.json
  grpo tool mcp servers.json read_file '{"path": "/data/notes.txt"}'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 3 {
				return badinput.Errorf("expected FILE, or FILE TOOL ARGUMENTS; type grpo tool mcp servers.json (see 'grpo tool mcp --help')")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && len(args) > 1 {
				return badinput.Errorf("--json lists the tools; leave it out to call %s", args[1])
			}
			if !(seconds > 0 && seconds <= 3600) {
				return badinput.Errorf("--seconds: found %v, expected a number above 0, up to 3600", seconds)
			}
			named, err := mcp.Read(args[0])
			if err != nil {
				return err
			}
			o := mcp.Options{CallTimeout: time.Duration(seconds * float64(time.Second)), ReservedNames: tools.Names()}
			servers, err := mcp.Open(cmd.Context(), named, o)
			if err != nil {
				return err
			}
			defer servers.Close()
			if len(args) == 1 {
				return list(cmd, servers, asJSON)
			}
			return callTool(cmd, servers, args[1:], max(text, 400))
		},
	}
	cmd.Flags().Float64Var(&seconds, "seconds", 30, "seconds for a call")
	cmd.Flags().BoolVar(&asJSON, "json", false, "list the tools as the model gets them, in one JSON array")
	cmd.Flags().IntVar(&text, "text", tools.DefaultText, "most bytes of an answer")
	return cmd
}

// callTool calls a tool with arguments, if any, and prints its output up to a limit.
func callTool(cmd *cobra.Command, servers *mcp.Servers, words []string, most int) error {
	given := json.RawMessage("{}")
	if len(words) == 2 {
		given = json.RawMessage(words[1])
	}
	kit, err := servers.Kit(cmd.Context())
	if err != nil {
		return err
	}
	defer kit.Close()
	if !kit.Has(words[0]) {
		return badinput.Errorf("TOOL: found %q, expected one of: %s", words[0], servers)
	}
	said, err := kit.Call(cmd.Context(), words[0], given)
	if err == nil {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), screen.Sanitizer(cmd.OutOrStdout())(tools.Fit(said, most)))
	}
	return err
}

// printSchemas prints tools in the form of requests.
func printSchemas(cmd *cobra.Command, servers *mcp.Servers) error {
	schemas := []json.RawMessage{}
	for _, t := range servers.Tools() {
		schemas = append(schemas, t.Schema)
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(schemas)
}

// list prints the tools, for programs or for people.
func list(cmd *cobra.Command, servers *mcp.Servers, asJSON bool) error {
	if asJSON {
		return printSchemas(cmd, servers)
	}
	return listTools(cmd, servers)
}

// listTools prints tools for people: name, server, and the beginning of the description.
func listTools(cmd *cobra.Command, servers *mcp.Servers) error {
	out := cmd.OutOrStdout()
	var errs []error
	for _, t := range servers.Tools() {
		var known struct {
			Function struct {
				Description string
				Parameters  struct {
					Properties map[string]json.RawMessage
					Required   []string
				}
			}
		}
		_ = json.Unmarshal(t.Schema, &known) // whatever can be read of the schema
		what, _, _ := strings.Cut(strings.TrimSpace(known.Function.Description), "\n")
		_, err := fmt.Fprintf(out, "%-28s %s: %s\n", display.Line(t.Name), display.Line(t.Server), display.Visible(tools.Fit(what, 400)))
		errs = append(errs, err)
		if needed := known.Function.Parameters.Required; len(needed) > 0 {
			_, err = fmt.Fprintf(out, "%-28s   needs %s\n", "", display.Line(strings.Join(needed, ", ")))
			errs = append(errs, err)
		}
	}
	for _, note := range servers.Notes {
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), note)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
