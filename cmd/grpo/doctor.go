package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rebuild"
	"github.com/seed-7879b91d/grpo/reward/fusion"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

func newDoctorCmd() *cobra.Command {
	var flags sandboxFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor",
		Example: `  grpo doctor
  grpo doctor --json`,
		Short: "Tell what this machine has, what it lacks, and what to do about it",
		Long: `Builds a sandbox and attacks it: each claim stands beside the result of an attack that was made just now,
and what is not protected stands below. Then the interpreter, processors, memory, disk and graphics cards.
The exit code is 0 where nothing needed is missing.`,
		Args: usage.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cells, err := flags.cells()
			if err != nil {
				return err
			}
			// The program with the GPU backend begins anew, so this comes before anything that takes time.
			rebuilt := rebuild.Here(cmd.Context(), "auto")
			findings := examine(cmd.Context(), cells)
			findings = append(findings, examineGPU(cmd.Context(), rebuilt))
			if err := cmd.Context().Err(); err != nil {
				return err // what was not seen to its end is not missing
			}
			out := cmd.OutOrStdout()
			if asJSON {
				if err := printJSON(out, findings); err != nil {
					return err
				}
			} else {
				findings.write(out)
			}
			return findings.missing()
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// finding is one thing that was looked at.
type finding struct {
	Name string `json:"name"`
	// OK tells that it is there, or that nobody needs it.
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"` // what to do about it
	// Claims, NotProtected and Stronger are a sandbox's: what was attacked, what is left open, and
	// which isolation this machine does not allow.
	Claims       []claim  `json:"claims,omitempty"`
	NotProtected []string `json:"not_protected,omitempty"`
	Stronger     []string `json:"stronger,omitempty"`
	Notes        []string `json:"notes,omitempty"`
}

type claim struct {
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
	Saw   string `json:"attacker_saw"`
}

type findings []finding

func examine(ctx context.Context, cells sandbox.Options) findings {
	all := findings(examineSandbox(ctx, cells))
	if url := os.Getenv("SANDBOX_URL"); url != "" {
		all = append(all, examineServer(ctx, url))
	}
	return append(all, examineCores(), examineMemory(), examineDisk())
}

// examineSandbox is about the cells and the interpreter in them.
func examineSandbox(ctx context.Context, o sandbox.Options) []finding {
	pool, err := sandbox.Open(ctx, o)
	if err != nil {
		return []finding{{
			Name: "sandbox", Found: err.Error(),
			Do: "install python3; allow user namespaces or landlock (in a container: another seccomp profile); " +
				"or name a Sandbox Fusion server in SANDBOX_URL",
		}}
	}
	defer pool.Close()
	report := pool.Isolation()
	cells := finding{
		Name: "sandbox", OK: true, NotProtected: report.NotProtected,
		Found: fmt.Sprintf("isolation %s, %d programs at once, a trivial one in %s", report.Rung, report.Slots, trivialTime(ctx, pool)),
	}
	for _, c := range report.Claims {
		cells.OK = cells.OK && c.Holds
		cells.Claims = append(cells.Claims, claim{c.Name, c.Holds, c.Detail})
	}
	for _, r := range report.Passed {
		cells.Stronger = append(cells.Stronger, fmt.Sprintf("%s: %s", r.Rung, r.Why))
	}
	if !cells.OK {
		cells.Do = "programs can get past what is marked ✗: use a machine with user namespaces or landlock, or a Sandbox Fusion server"
	}
	return []finding{cells, {Name: "interpreter", OK: true, Found: report.Python + ", Python " + report.Version}}
}

// trivialTime is how long the smallest program takes in a warm cell.
func trivialTime(ctx context.Context, pool *sandbox.Pool) string {
	ms, err := bench.Trivial(ctx, pool)
	if err != nil {
		return "no time: " + err.Error()
	}
	return fmt.Sprintf("%.1f ms", ms)
}

func examineServer(ctx context.Context, url string) finding {
	f := finding{Name: "server", Found: url, Do: "start the server, or unset SANDBOX_URL to use the cells of this machine"}
	client, err := fusion.New(fusion.Options{Attempts: 1})
	if err == nil {
		defer client.Close()
		err = client.Ping(ctx)
	}
	if err != nil {
		f.Found = url + ": " + err.Error()
		return f
	}
	f.OK, f.Do, f.Found = true, "", client.URL()+" runs programs; how well it isolates them is its own affair"
	return f
}

// MarshalJSON writes an object, so that there is room for more.
func (all findings) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		OK       bool      `json:"ok"`
		Findings []finding `json:"findings"`
	}{all.missing() == nil, all})
}

func (all findings) write(w io.Writer) {
	for _, f := range all {
		fmt.Fprintf(w, "%s %-12s %s\n", mark(f.OK), f.Name, f.Found)
		for _, c := range f.Claims {
			fmt.Fprintf(w, "    %s %-20s %s\n", mark(c.Holds), c.Name, c.Saw)
		}
		for _, text := range f.NotProtected {
			fmt.Fprintf(w, "    - not protected: %s\n", text)
		}
		for _, text := range f.Stronger {
			fmt.Fprintf(w, "    - not to be had here: %s\n", text)
		}
		for _, text := range f.Notes {
			fmt.Fprintf(w, "    - %s\n", text)
		}
		if f.Do != "" {
			fmt.Fprintf(w, "  → %s\n", f.Do)
		}
	}
}

func mark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

// missing names what is needed and not there.
func (all findings) missing() error {
	var names []string
	for _, f := range all {
		if !f.OK {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return badinput.Errorf("this machine lacks: %s", strings.Join(names, ", "))
}
