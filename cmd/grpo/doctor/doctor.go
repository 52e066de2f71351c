// Package doctor checks what this machine has, what it lacks, and what to do about it.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/reward/fusion"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Finding is the result of one check.
type Finding struct {
	Name string `json:"name"`
	// OK is set if it is present, or optional.
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"` // what to do about it
	// Claims, NotProtected and Stronger are about a sandbox: attacks that were tried, what is not protected, and isolation
	// that this machine does not allow.
	Claims       []Claim  `json:"claims,omitempty"`
	NotProtected []string `json:"not_protected,omitempty"`
	Stronger     []string `json:"stronger,omitempty"`
	Notes        []string `json:"notes,omitempty"`
}

// Claim is an attack that was tried, and its result.
type Claim struct {
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
	Saw   string `json:"attacker_saw"`
}

// Findings are all of it.
type Findings []Finding

// Examine checks this machine; rebuilt is why this program could not be rebuilt with the GPU backend.
func Examine(ctx context.Context, cells sandbox.Options, rebuilt error) Findings {
	all := Findings(examineSandbox(ctx, cells))
	if url := os.Getenv("SANDBOX_URL"); url != "" {
		all = append(all, examineServer(ctx, url))
	}
	return append(all, examineCores(), examineOrders(cpu.Tiles()), examineMemory(), examineDisk(), examineGPU(ctx, rebuilt))
}

// examineSandbox checks the sandboxes and their interpreter.
func examineSandbox(ctx context.Context, o sandbox.Options) []Finding {
	pool, err := sandbox.Open(ctx, o)
	if err != nil {
		return []Finding{{
			Name: "sandbox", Found: err.Error(),
			Do: "install python3; allow user namespaces or landlock (in a container: another seccomp profile); " +
				"or name a Sandbox Fusion server in SANDBOX_URL",
		}}
	}
	defer pool.Close()
	report := pool.Isolation()
	cells := Finding{
		Name: "sandbox", OK: true, NotProtected: report.NotProtected,
		Found: fmt.Sprintf("isolation %s, %s at once, a trivial one in %s", report.Rung, plural.Of(report.Slots, "program"),
			trivialTime(ctx, pool)),
	}
	for _, c := range report.Claims {
		cells.OK = cells.OK && c.Holds
		cells.Claims = append(cells.Claims, Claim{c.Name, c.Holds, c.Detail})
	}
	for _, r := range report.Passed {
		cells.Stronger = append(cells.Stronger, fmt.Sprintf("%s: %s", r.Rung, r.Why))
	}
	if !cells.OK {
		cells.Do = "programs can break the protections marked ✗: use a machine with user namespaces or landlock, or a Sandbox Fusion server"
	}
	return []Finding{cells, {Name: "interpreter", OK: true, Found: report.Python + ", Python " + report.Version}}
}

// trivialTime is the time of the smallest program in a warm sandbox.
func trivialTime(ctx context.Context, pool *sandbox.Pool) string {
	ms, err := bench.TrivialLatency(ctx, pool)
	if err != nil {
		return "no time: " + err.Error()
	}
	return fmt.Sprintf("%.1f ms", ms)
}

func examineServer(ctx context.Context, url string) Finding {
	f := Finding{Name: "server", Found: url, Do: "start the server, or unset SANDBOX_URL to use the cells of this machine"}
	client, err := fusion.New(fusion.Options{Attempts: 1})
	if err == nil {
		defer client.Close()
		err = client.Ping(ctx)
	}
	if err != nil {
		f.Found = url + ": " + err.Error()
		return f
	}
	f.OK, f.Do, f.Found = true, "", client.URL()+" runs programs, isolated by that server: grpo cannot check how well"
	return f
}

// MarshalJSON writes an object, which can be extended later.
func (all Findings) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		OK       bool      `json:"ok"`
		Findings []Finding `json:"findings"`
	}{all.Missing() == nil, all})
}

// Write prints them for people.
func (all Findings) Write(w io.Writer) {
	for _, f := range all {
		fmt.Fprintf(w, "%s %-12s %s\n", checkMark(f.OK), f.Name, f.Found)
		for _, c := range f.Claims {
			fmt.Fprintf(w, "    %s %-20s %s\n", checkMark(c.Holds), c.Name, c.Saw)
		}
		for _, text := range f.NotProtected {
			fmt.Fprintf(w, "    - not protected: %s\n", text)
		}
		for _, text := range f.Stronger {
			fmt.Fprintf(w, "    - not possible here: %s\n", text)
		}
		for _, text := range f.Notes {
			fmt.Fprintf(w, "    - %s\n", text)
		}
		if f.Do != "" {
			fmt.Fprintf(w, "  → %s\n", f.Do)
		}
	}
}

func checkMark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

// Missing is an error that names what is required and missing.
func (all Findings) Missing() error {
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
