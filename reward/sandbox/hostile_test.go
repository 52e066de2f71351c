//go:build linux && (amd64 || arm64)

package sandbox

import (
	"embed"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/proc"
)

//go:embed testdata
var testdata embed.FS

// testProgram is a Python file of testdata, whose first comments say how it must end.
type testProgram struct {
	name, code string
	want       []string // a status, or several where the kernel may choose
	header     map[string]string
}

func readPrograms(t testing.TB, dir string) []testProgram {
	t.Helper()
	files, err := testdata.ReadDir("testdata/" + dir)
	if err != nil {
		t.Fatal(err)
	}
	var programs []testProgram
	for _, f := range files {
		text, err := testdata.ReadFile("testdata/" + dir + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		p := testProgram{name: strings.TrimSuffix(f.Name(), ".py"), code: string(text), header: map[string]string{}}
		for line := range strings.Lines(strings.TrimPrefix(p.code, "\ufeff")) {
			key, value, ok := strings.Cut(strings.TrimPrefix(line, "# "), ": ")
			if !ok || !strings.HasPrefix(line, "# ") {
				break
			}
			p.header[key] = strings.TrimSpace(value)
		}
		p.want = strings.Fields(p.header["want"])
		programs = append(programs, p)
	}
	return programs
}

// limits are tight, so that hundreds of attacks take only seconds.
func (p testProgram) limits(t testing.TB) Limits {
	number := func(key string, otherwise int64) int64 {
		if p.header[key] == "" {
			return otherwise
		}
		n, err := strconv.ParseInt(p.header[key], 10, 64)
		if err != nil {
			t.Fatalf("%s: %s: %v", p.name, key, err)
		}
		return n
	}
	usual := int64(50)
	if !slices.Contains(p.want, "TLE") { // so that a slow machine does not end it by its time limit
		usual = 2000
	}
	cpu := time.Duration(number("cpu", usual)) * time.Millisecond
	return Limits{CPU: cpu, Wall: 2 * cpu, Memory: number("memory", 512) << 20, Output: number("output", 1<<20)}
}

// canary is what the attacks try to reach on this machine: a file that anyone may change, and
// listeners that anyone may connect to.
type canary struct {
	path, content string
	port          int
	reached       chan string
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	c := &canary{path: filepath.Join(dir, "canary"), content: "sings", reached: make(chan string, 100)}
	if err := os.WriteFile(c.path, []byte(c.content), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.path, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"tcp", "unix"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = fmt.Sprintf("@grpo-canary-%d", c.port) // a name that programs can tell
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			c.port = a.Port
		}
		go func() {
			for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
				conn.Close()
				c.reached <- network
			}
		}()
	}
	return c
}

func (c *canary) check(t *testing.T) {
	t.Helper()
	if content, err := os.ReadFile(c.path); err != nil || string(content) != c.content {
		t.Errorf("the file outside is now %q, %v", content, err)
	}
	if names, _ := os.ReadDir(filepath.Dir(c.path)); len(names) != 1 {
		t.Errorf("the directory outside now holds %v", names)
	}
	select {
	case network := <-c.reached:
		t.Errorf("a %s listener outside was reached", network)
	default:
	}
}

// attackedRungs are the rungs on which all programs run: all that this user can have. As root, the short form leaves those that an ordinary
// user can have, too, to TestOrdinaryUser.
func attackedRungs() []Rung {
	switch {
	case os.Geteuid() != 0:
		return []Rung{RungFull, RungNamespaces, RungLandlock}
	case full == 0:
		return []Rung{RungFull, RungUID}
	}
	return []Rung{RungFull, RungNamespaces, RungUID, RungLandlock}
}

// leftToAnotherRung is whether program i does not run on a rung. Usually the first rung runs all of them, and the others take turns; with
// -short all take turns.
func leftToAnotherRung(i, rung, rungs int) bool {
	shares := testing.Short() || full == 0 && rung > 0 && !testvariants.Exhaustive
	return shares && i%rungs != rung
}

// TestHostile runs every attack of testdata/hostile on every rung that is attacked: it must end with the expected status, leave no process,
// reach nothing outside its cell, and not affect the next honest program.
func TestHostile(t *testing.T) {
	t.Parallel()
	for turn, rung := range attackedRungs() {
		t.Run(rung.String(), func(t *testing.T) {
			t.Parallel()
			p := openPool(t, rung, 2)
			c := newCanary(t)
			programs := readPrograms(t, "hostile")
			t.Run("all", func(t *testing.T) {
				for i, prog := range programs {
					if leftToAnotherRung(i, turn, len(attackedRungs())) {
						continue
					}
					t.Run(prog.name, func(t *testing.T) {
						t.Parallel()
						hostile(t, p, prog, c)
					})
				}
			})
			c.check(t)
			expectHonest(t, p)
			expectNoSurvivors(t, p)
		})
	}
}

func hostile(t *testing.T, p *Pool, prog testProgram, c *canary) {
	in := Input{}
	switch prog.header["stdin"] {
	case "canary":
		in.Stdin = []byte(c.path + "\n")
	case "port":
		in.Stdin = []byte(strconv.Itoa(c.port) + "\n")
	}
	if prog.header["call"] != "" {
		in.Args = []json.RawMessage{json.RawMessage("1")}
	}
	r := runTest(t, p, Program{Code: prog.code, Call: prog.header["call"]}, in, prog.limits(t))
	if !slices.Contains(prog.want, r.Status.String()) {
		t.Errorf("ended with %v (exit code %d, signal %d, %v of processor, %v), want %v; it printed %.200q and said: %s",
			r.Status, r.ExitCode, r.Signal, r.CPU, r.Wall, prog.want, r.Stdout, r.Stderr)
	}
	if want, ok := prog.header["stdout"]; ok {
		var text string
		if err := json.Unmarshal([]byte(want), &text); err != nil {
			t.Fatal(err)
		}
		if string(r.Stdout) != text {
			t.Errorf("printed %.400q, want %q; it said: %s", r.Stdout, text, r.Stderr)
		}
	}
	if want, ok := prog.header["value"]; ok && string(r.Value) != want {
		t.Errorf("returned %q, want %q", r.Value, want)
	}
	if want := prog.header["signal"]; want != "" && strconv.Itoa(r.Signal) != want {
		t.Errorf("died of signal %d, want %s", r.Signal, want)
	}
	expectHonest(t, p)
}

// expectNoSurvivors looks for processes that belong to a session of a cell but are not its zygote.
// Programs cannot leave their session.
func expectNoSurvivors(t *testing.T, p *Pool) {
	t.Helper()
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	zygotes := map[int]bool{}
	for _, s := range p.queue.free {
		if c, ok := s.worker.(*cell); ok {
			zygotes[c.pid] = true
		}
	}
	children := proc.Children(p.factory.(*cells).supervisor.Pid())
	for _, pid := range children {
		if !zygotes[pid] {
			t.Errorf("process %d is a cell that nobody holds", pid)
		}
		if left := proc.Children(pid); len(left) != 0 {
			t.Errorf("processes %v have survived in a cell", left)
		}
	}
}
