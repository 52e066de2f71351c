// Package tools has the verbs that try the tools of a model: python, trace and run_tests.
package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
	"github.com/seed-7879b91d/grpo/reward/tools"
)

// Command is the verb, with its subcommands.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tool",
		Short: "Try the tools that a model may call: Python, traces, public tests, MCP servers",
		Long: `Calls a tool as a model would, in the sandbox of this machine, and prints the text that the model would get.
docs/tools.md describes the tools.`,
		Example: "  echo '6*7' | grpo tool python -",
		Args:    usage.Args(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(pythonCommand(), traceCommand(), testsCommand(), mcpCommand())
	return cmd
}

// flags are the flags of all tools.
type flags struct {
	cfg     reward.Config
	options tools.Options
	seconds float64
}

func (f *flags) register(cmd *cobra.Command) {
	f.cfg.Sandbox = "local"
	cmd.Flags().StringVar(&f.cfg.Python, "python", "", "Python interpreter (default: python3)")
	cmd.Flags().IntVar(&f.options.Text, "text", 4000, "most bytes of an answer")
	cmd.Flags().Float64Var(&f.seconds, "seconds", 5, "processor seconds for a call")
}

// open makes the kit of a conversation about p; close ends everything that it started.
func (f *flags) open(ctx context.Context, p *data.Problem) (kit *tools.Kit, close func(), err error) {
	if !(f.seconds > 0 && f.seconds <= 3600) {
		return nil, nil, badinput.Errorf("--seconds: found %v, expected a number above 0, up to 3600", f.seconds)
	}
	f.options.CallTime = time.Duration(f.seconds * float64(time.Second))
	f.cfg.Timeout = f.options.CallTime
	judge, err := reward.Open(ctx, f.cfg)
	if err != nil {
		return nil, nil, err
	}
	f.options.Judge = judge
	if kit, err = tools.Open(ctx, p, f.options); err != nil {
		judge.Close()
		return nil, nil, err
	}
	return kit, func() { kit.Close(); judge.Close() }, nil
}

// call calls a tool and prints its output.
func call(cmd *cobra.Command, kit *tools.Kit, name string, args any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	text, err := kit.Call(cmd.Context(), name, raw)
	if err == nil {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), screen.Sanitizer(cmd.OutOrStdout())(text))
	}
	return err
}

// read reads a program; - is standard input.
func read(cmd *cobra.Command, name string) (string, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(cmd.InOrStdin())
	} else {
		text, err = openfile.Read(name)
	}
	if err != nil {
		return "", badinput.Errorf("FILE: %w", err)
	}
	return string(text), nil
}

func pythonCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "python FILE…",
		Short: "Run Python files one after another in one interpreter, each as a tool call",
		Example: `  grpo tool python first.py then.py
  echo '6*7' | grpo tool python -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			if len(files) == 0 {
				return badinput.Errorf("FILE is missing; type grpo tool python FILE, or - for standard input (see 'grpo tool python --help')")
			}
			kit, done, err := f.open(cmd.Context(), &data.Problem{ID: "tool"})
			if err != nil {
				return err
			}
			defer done()
			for _, name := range files {
				code, err := read(cmd, name)
				if err != nil {
					return err
				}
				if err := call(cmd, kit, "python", map[string]any{"code": code}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.register(cmd)
	return cmd
}

func traceCommand() *cobra.Command {
	var f flags
	var form, input, function, list string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trace FILE",
		Short: "Trace a program line by line: variables, calls, exceptions",
		Example: `  grpo tool trace prog.py --input "3 4"
  grpo tool trace solution.py --call add --args '[1, 2]' --form story`,
		Args: usage.Args("FILE"),
		RunE: func(cmd *cobra.Command, files []string) error {
			if function != "" && input != "" && !asJSON {
				return badinput.Errorf("--input: with --call the tool takes none; leave one of them out, or type --json")
			}
			code, err := read(cmd, files[0])
			if err != nil {
				return err
			}
			p, args := &data.Problem{ID: "tool", Kind: data.Stdin}, map[string]any{"code": code, "input": input}
			if function != "" {
				var given []json.RawMessage
				if err := json.Unmarshal([]byte(list), &given); err != nil || given == nil {
					return badinput.Errorf("--args: found %.40q, expected a JSON list of the arguments, as in '[1, 2]'", list)
				}
				p.Kind, p.FuncName, args = data.Call, function, map[string]any{"code": code, "args": given}
			} else if cmd.Flags().Changed("args") {
				return badinput.Errorf("--args: expected --call NAME beside it, the function that they are for")
			}
			f.options.Form = tools.Form(form)
			if !slices.Contains([]tools.Form{tools.LinesForm, tools.TableForm, tools.StoryForm}, f.options.Form) {
				return badinput.Errorf("--form: found %.40q, expected lines, table or story", form)
			}
			kit, done, err := f.open(cmd.Context(), p)
			if err != nil {
				return err
			}
			defer done()
			if asJSON {
				return f.printTrace(cmd, tools.Traced{Code: code, Call: function, Stdin: input}, args["args"])
			}
			return call(cmd, kit, "trace", args)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&form, "form", "lines", "form of the trace: lines, table or story")
	cmd.Flags().StringVar(&input, "input", "", "standard input of the program")
	cmd.Flags().StringVar(&function, "call", "", "trace a call of this function, instead of the program alone")
	cmd.Flags().StringVar(&list, "args", "[]", "arguments of --call, a JSON list")
	cmd.Flags().IntVar(&f.options.Lines, "lines", 100_000, "most lines that the program may execute")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the trace as one JSON object")
	cmd.MarkFlagsMutuallyExclusive("json", "form")
	cmd.MarkFlagsMutuallyExclusive("json", "text")
	return cmd
}

// printTrace prints the steps of a trace as JSON.
func (f *flags) printTrace(cmd *cobra.Command, p tools.Traced, args any) error {
	p.Args, _ = args.([]json.RawMessage)
	p.Lines = cmp.Or(f.options.Lines, 100_000)
	trace, _, err := tools.Follow(cmd.Context(), f.options.Judge.Pool(), "tool", p, sandbox.Limits{CPU: f.options.CallTime})
	if err != nil {
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(trace)
}

func testsCommand() *cobra.Command {
	var f flags
	var problems, id string
	cmd := &cobra.Command{
		Use:   "run_tests FILE --problems TASKS [--id ID]",
		Short: "Run a problem's public tests on a program",
		Example: `  grpo tool run_tests solution.py --problems tasks.jsonl
  grpo tool run_tests solution.py --problems tasks.jsonl --id sum --public-tests 2 --count-hidden`,
		Args: usage.Args("FILE"),
		RunE: func(cmd *cobra.Command, files []string) error {
			code, err := read(cmd, files[0])
			if err != nil {
				return err
			}
			p, err := find(cmd.Context(), problems, id)
			if err != nil {
				return err
			}
			kit, done, err := f.open(cmd.Context(), p)
			if err != nil {
				return err
			}
			defer done()
			if err := call(cmd, kit, "run_tests", map[string]any{"code": code}); err != nil || f.options.PublicTests > 0 {
				return err
			}
			return tellOfPublicTests(cmd, p)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&problems, "problems", "", "JSON Lines of problems (docs/tasks.md)")
	cmd.Flags().StringVar(&id, "id", "", "id of the problem (default: the first)")
	cmd.Flags().IntVar(&f.options.PublicTests, "public-tests", 0, "if the problem marks no public tests, the first N are public")
	cmd.Flags().BoolVar(&f.options.CountHidden, "count-hidden", false, "also print how many of the other tests pass")
	return cmd
}

// tellOfPublicTests says what to type if a task has tests but none is public.
func tellOfPublicTests(cmd *cobra.Command, p *data.Problem) error {
	if p.NumTests == 0 || p.Kind == data.Answer {
		return nil
	}
	tests, err := p.Tests(cmd.Context())
	if err == nil && !slices.ContainsFunc(tests, func(t data.Test) bool { return t.Public }) {
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), `the task marks none of its tests "public": true; type --public-tests 1 for its first one, as `+
			"public_tests=1 of a run has it")
	}
	return err
}

// find reads a task of a file.
func find(ctx context.Context, name, id string) (*data.Problem, error) {
	if name == "" {
		return nil, badinput.Errorf("--problems is needed, a file of tasks (see 'grpo tool run_tests --help')")
	}
	in, err := openfile.Open(name)
	if err != nil {
		return nil, badinput.Errorf("--problems: %w", err)
	}
	defer in.Close()
	all, err := dataset.Read(ctx, name, in)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(p data.Problem) bool { return id == "" || p.ID == id })
	if at < 0 {
		return nil, badinput.Errorf("--id: %s has no task %q among its %d", name, id, len(all))
	}
	return &all[at], nil
}
