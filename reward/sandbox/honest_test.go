//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/json"
	"testing"
	"time"
)

// TestHonest runs honest programs that other graders reject, on every rung that is attacked and on the lowest.
func TestHonest(t *testing.T) {
	t.Parallel()
	rungs := append(attackedRungs(), RungUnsafe)
	for turn, rung := range rungs {
		t.Run(rung.String(), func(t *testing.T) {
			t.Parallel()
			p := openPool(t, rung, 2)
			for i, prog := range readPrograms(t, "honest") {
				if leftToAnotherRung(i, turn, len(rungs)) {
					continue
				}
				t.Run(prog.name, func(t *testing.T) { honestProgram(t, p, prog) })
			}
		})
	}
}

func honestProgram(t *testing.T, p *Pool, prog testProgram) {
	limits := prog.limits(t)
	limits.CPU, limits.Wall = max(limits.CPU, 2*time.Second), 10*time.Second
	text := func(key string) (s string) {
		if prog.header[key] != "" {
			if err := json.Unmarshal([]byte(prog.header[key]), &s); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
		return s
	}
	in := Input{Stdin: []byte(text("stdin"))}
	if prog.header["call"] != "" {
		if err := json.Unmarshal([]byte(prog.header["args"]), &in.Args); err != nil {
			t.Fatal(err)
		}
	}
	r := runTest(t, p, Program{Code: prog.code, Call: prog.header["call"]}, in, limits)
	if r.Status != OK {
		t.Fatalf("ended with %v (exit code %d, signal %d): %s", r.Status, r.ExitCode, r.Signal, r.Stderr)
	}
	if prog.header["call"] != "" {
		if string(r.Value) != prog.header["value"] {
			t.Errorf("returned %.200s, want %.200s: %s", r.Value, prog.header["value"], r.Stderr)
		}
	} else if string(r.Stdout) != text("stdout") {
		t.Errorf("printed %q, want %q", r.Stdout, text("stdout"))
	}
}
