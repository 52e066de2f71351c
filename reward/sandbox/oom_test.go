//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestDiesFirst: on every rung the OOM killer prefers a program to the trainer, and to the supervisor, with
// which all cells would die.
func TestDiesFirst(t *testing.T) {
	t.Parallel()
	ours := oomScore(t, "self")
	if ours == "1000" {
		t.Skip("whatever this process starts comes first already")
	}
	t.Cleanup(func() { // after all rungs
		if now := oomScore(t, "self"); now != ours {
			t.Errorf("our own went from %s to %s", ours, now)
		}
	})
	t.Run(RungUnsafe.String(), func(t *testing.T) {
		t.Parallel()
		r := runTest(t, openPool(t, RungUnsafe, 1), Program{Code: "print(open('/proc/self/oom_score_adj').read())"}, Input{}, Limits{})
		if got := strings.TrimSpace(string(r.Stdout)); got != "1000" {
			t.Errorf("a program read %q, want 1000: %v %s", got, r.Status, r.Stderr)
		}
	})
	for rung := RungLandlock; rung <= RungFull; rung++ {
		t.Run(rung.String(), func(t *testing.T) {
			t.Parallel()
			p := openPool(t, rung, 1)
			supervisor := p.factory.(*cells).supervisor.Pid()
			// A cell has no /proc, so the score of a program is read from outside while it runs.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() {
				ended <- p.Run(ctx, "g", Program{Code: "import time\nwhile True: time.sleep(1)"}, make([]Input, 1), Limits{Wall: time.Minute},
					func(_ int, r Result) bool {
						t.Errorf("the program ended with %v: %s", r.Status, r.Stderr)
						return true
					})
			}()
			var all []int
			var scores []string // of those that still exist when they are read: the cell that was attacked may just be ending
			for deadline := time.Now().Add(time.Minute); len(scores) < 3 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				all, scores = processTree(supervisor), nil
				for _, process := range all {
					if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", process)); err == nil {
						scores = append(scores, strings.TrimSpace(string(text)))
					}
				}
				if !slices.Equal(all, processTree(supervisor)) {
					scores = nil
				}
			}
			if want := []string{ours, "1000", "1000"}; !slices.Equal(scores, want) {
				t.Errorf("the processes %v of a busy pool of one, a supervisor, a zygote and a test, have %v, want %v", all, scores, want)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the run ended with %v", err)
			}
		})
	}
}

func oomScore(t *testing.T, process string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + process + "/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Pools that are opened concurrently find the same parent for their control groups, and leave nothing there.
func TestPoolsLookForGroupsAtOnce(t *testing.T) {
	want, err := findMemoryGroups()
	if err != nil {
		t.Skipf("no control groups: %v", err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got, err := findMemoryGroups(); err != nil || *got != *want {
					t.Errorf("found %+v, %v, expected %+v", got, err, want)
				}
			}
		})
	}
	wg.Wait()
	if left, _ := filepath.Glob(filepath.Join(want.parent, fmt.Sprintf("%s%d-probe*", groupPrefix, os.Getpid()))); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
}

// Control groups of two cells never have the same name, even if another container has a process with our id.
func TestGroupsAreOnesOwn(t *testing.T) {
	m := &memoryGroups{t.TempDir(), &version1}
	one, err := m.make("")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := m.make(""); err != nil || other.dir == one.dir {
		t.Errorf("two cells have the group %s, %v", one.dir, err)
	}
}
