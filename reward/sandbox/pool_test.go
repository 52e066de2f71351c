package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// brokenFactory makes workers whose first runs fail.
type brokenFactory struct{ opened, failures int }

var errBroken = errors.New("broken")

func (k *brokenFactory) open(context.Context, int) (worker, error) {
	k.opened++
	return &brokenWorker{k}, nil
}
func (k *brokenFactory) close() {}

type brokenWorker struct{ factory *brokenFactory }

func (w *brokenWorker) usable() bool { return true }
func (w *brokenWorker) close()       {}
func (w *brokenWorker) run(context.Context, Program, Input, Limits) (Result, error) {
	if w.factory.failures--; w.factory.failures >= 0 {
		return Result{}, errBroken
	}
	return Result{Status: OK}, nil
}

func brokenPool(failures int) (*Pool, *brokenFactory) {
	k := &brokenFactory{failures: failures}
	p := &Pool{factory: k, queue: newQueue(0, 1), places: newQueue(1, 1), report: Report{Slots: 1}}
	p.closing, p.close = context.WithCancel(context.Background())
	return p, k
}

// TestInfra: a run on a failing machine is retried on fresh cells, and then fails with an error, not a Status.
func TestInfra(t *testing.T) {
	t.Parallel()
	p, k := brokenPool(attempts - 1)
	if r := runTest(t, p, Program{}, Input{}, Limits{}); r.Status != OK || k.opened != attempts {
		t.Errorf("after %d failures: %v on worker %d, want OK on worker %d", attempts-1, r.Status, k.opened, attempts)
	}
	p, _ = brokenPool(attempts)
	err := p.Run(t.Context(), "g", Program{}, make([]Input, 2), Limits{}, func(int, Result) bool {
		t.Error("a failure of the machine became a result")
		return true
	})
	var infra *InfraError
	if !errors.As(err, &infra) || infra.Attempts != attempts || !errors.Is(err, errBroken) {
		t.Errorf("got %v, want an InfraError after %d attempts", err, attempts)
	}
}

func TestRunStopsEarly(t *testing.T) {
	p, _ := brokenPool(0)
	var seen []int
	err := p.Run(t.Context(), "g", Program{}, make([]Input, 5), Limits{}, func(i int, _ Result) bool {
		seen = append(seen, i)
		return i < 2
	})
	if err != nil || len(seen) != 3 {
		t.Errorf("saw %v and %v, want 0 1 2", seen, err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	p := openPool(t, 0, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := p.Run(ctx, "g", Program{Code: "import time; time.sleep(100)"}, make([]Input, 1), Limits{}, func(int, Result) bool {
		t.Error("a cancelled run has a result")
		return true
	})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 50*time.Second {
		t.Errorf("got %v after %v, want the end of the context at once", err, time.Since(start))
	}
	expectHonest(t, p)
}

func TestCloseEndsRuns(t *testing.T) {
	t.Parallel()
	p := openPool(t, 0, 1)
	failed := make(chan error)
	go func() {
		failed <- p.Run(context.Background(), "g", Program{Code: "import time; time.sleep(100)"}, make([]Input, 1), Limits{},
			func(int, Result) bool { return true })
	}()
	time.Sleep(50 * time.Millisecond)
	p.Close()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("a run in progress got %v", err)
	}
	all := func(int, Result) bool { return true }
	if err := p.Run(t.Context(), "g", Program{}, make([]Input, 1), Limits{}, all); !errors.Is(err, ErrClosed) {
		t.Errorf("a run on a closed pool got %v", err)
	}
}

func TestPreload(t *testing.T) {
	t.Parallel()
	p, err := Open(t.Context(), Options{Slots: 1, Python: testPython(t), Unsafe: true, Preload: `
import json
calls = 0
def compute_reward(completion: str, ground_truth: str) -> float:
    global calls
    calls += 1
    return len(completion) / len(ground_truth) + calls
`})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 2 { // every call is the first
		r := runTest(t, p, Program{Call: "compute_reward"}, Input{Args: []json.RawMessage{[]byte(`"ab"`), []byte(`"abcd"`)}}, Limits{})
		if string(r.Value) != "1.5" {
			t.Errorf("got %s %s (%v), want 1.5", r.Value, r.Stderr, r.Status)
		}
	}
	if _, err := Open(t.Context(), Options{Slots: 1, Python: testPython(t), Preload: "1/0"}); err == nil ||
		!strings.Contains(err.Error(), "division") {
		t.Errorf("a preload that fails gives %v", err)
	}
}

func TestHugeProgram(t *testing.T) {
	p, _ := brokenPool(0)
	if r := runTest(t, p, Program{Code: strings.Repeat("#", maxCode+1)}, Input{}, Limits{}); r.Status != CE {
		t.Errorf("got %v, want CE", r.Status)
	}
}

func TestNoIsolation(t *testing.T) {
	_, err := Open(t.Context(), Options{Python: testPython(t), Strongest: RungUnsafe})
	if !badinput.Is(err) || !strings.Contains(err.Error(), "sandbox=unsafe") {
		t.Errorf("got %v, want an input error that says how to go on", err)
	}
	if _, err := Open(t.Context(), Options{Python: "/no/such/python"}); !badinput.Is(err) || !strings.Contains(err.Error(), "python=") {
		t.Errorf("got %v, want an input error that says how to go on", err)
	}
	t.Setenv("SANDBOX_MAX_CONCURRENCY", "many")
	if _, err := Open(t.Context(), Options{}); !badinput.Is(err) {
		t.Errorf("got %v, want an input error", err)
	}
}

// TestRungs: each rung is chosen when those above it are switched off, says what it does not protect, and
// makes only claims that have withstood an attack.
func TestRungs(t *testing.T) {
	t.Parallel()
	for rung := RungUnsafe; rung <= RungFull; rung++ {
		t.Run(rung.String(), func(t *testing.T) {
			t.Parallel()
			r := openPool(t, rung, 1).Isolation()
			if len(r.NotProtected) == 0 || r.Version == "" || r.Python == "" || r.Slots != 1 || len(r.Passed) != 0 {
				t.Errorf("incomplete report %+v", r)
			}
			if (len(r.Claims) == 0) != (rung == RungUnsafe) {
				t.Errorf("%d claims", len(r.Claims))
			}
			for _, c := range r.Claims {
				if !c.Holds {
					t.Errorf("%s: %s", c.Name, c.Detail)
				}
			}
		})
	}
}

// A rung is attacked once per process and interpreter, and every pool has its own copy of the claims.
func TestARungIsProvedOnce(t *testing.T) {
	p := openPool(t, 0, 1)
	rung, exe := p.Isolation().Rung, p.Isolation().Python
	if rung == RungUnsafe {
		t.Skip("nothing is proved of the lowest rung")
	}
	key := proofKey{rung, exe, os.Geteuid()}
	was, known := proofs.Load(key)
	if !known {
		t.Fatalf("there is no proof of %v with %s", rung, exe)
	}
	t.Cleanup(func() { proofs.Store(key, was) })
	proofs.Store(key, []Claim{{"marked", true, ""}})
	again := openPool(t, rung, 1).Isolation()
	if len(again.Claims) != 1 || again.Claims[0].Name != "marked" {
		t.Errorf("a second pool was attacked: %v", again.Claims)
	}
	again.Claims[0].Name = "changed"
	if kept, _ := proofs.Load(key); kept.([]Claim)[0].Name != "marked" {
		t.Error("a pool changed the proof")
	}
	proofs.Delete(key)
	proofs.Store(proofKey{rung, exe + "-other", os.Geteuid()}, []Claim{{"marked", true, ""}})
	if fresh := openPool(t, rung, 1).Isolation(); len(fresh.Claims) < 10 {
		t.Errorf("with no proof of this interpreter there are %d claims", len(fresh.Claims))
	}
}

// TestUnsafe: the lowest rung reports the same statuses as others, except for MLE.
func TestUnsafe(t *testing.T) {
	t.Parallel()
	p := openPool(t, RungUnsafe, 1)
	for _, test := range []struct {
		code string
		want Status
	}{
		{"print(1)", OK},
		{"1/0", RTE},
		{"import os; os.abort()", RTE},
		{"while True: pass", TLE},
		{"import time; time.sleep(100)", TLE},
		{"while True: print('x' * 1000)", OLE},
		{"def f(:", CE},
		{"x = bytearray(1 << 40)", RTE},
		{"import os, time\nif os.fork() == 0: time.sleep(100)", OK},
		{"import os, time\nos.setpgid(0, os.getpgid(os.getppid()))\ntime.sleep(100)", TLE}, // it leaves its group
	} {
		start := time.Now()
		r := runTest(t, p, Program{Code: test.code}, Input{}, Limits{CPU: 300 * time.Millisecond, Wall: time.Second, Output: 10000})
		if r.Status != test.want {
			t.Errorf("%q ended with %v, want %v: %s", test.code, r.Status, test.want, r.Stderr)
		}
		if time.Since(start) > 50*time.Second {
			t.Errorf("%q took %v", test.code, time.Since(start))
		}
	}
}
