//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestScratchRoom: what a process that was killed has left is removed by the next, what another one
// works with is not.
func TestScratchRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	rooms := map[string]*scratchRoom{}
	for _, name := range []string{"live", "dead", "young"} {
		r, err := newScratchRoom()
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		if name != "live" {
			r.lock.Close() // as the end of its process does
		}
		rooms[name] = r
	}
	cell, err := rooms["dead"].make(os.Geteuid(), true)
	if err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(cell, "a", "b")
	if err := os.MkdirAll(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{hidden, filepath.Dir(hidden)} {
		if err := os.Chmod(dir, 0o300); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{"live", "dead"} {
		if err := os.Chtimes(rooms[name].dir, long, long); err != nil {
			t.Fatal(err)
		}
	}
	sweepScratch(time.Minute)
	for name, want := range map[string]bool{"live": true, "dead": false, "young": true} {
		if _, err := os.Stat(rooms[name].dir); (err == nil) != want {
			t.Errorf("the room of the %s process: %v", name, err)
		}
	}
}

// TestScratchOverflows: the bounds are those of the file system that other rungs have.
func TestScratchOverflows(t *testing.T) {
	t.Parallel()
	fill := func(files int, bytes int64) string {
		dir := t.TempDir()
		for i := range files {
			f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if i > 0 || bytes == 0 {
				continue
			}
			if err := unix.Fallocate(int(f.Fd()), 0, 0, bytes); err != nil {
				t.Skipf("no file can be given blocks here: %v", err)
			}
		}
		return dir
	}
	for _, test := range []struct {
		files int
		bytes int64
		want  bool
	}{{0, 0, false}, {scratchFiles - 1, 0, false}, {scratchFiles, 0, true}, {2, scratchBytes - 1<<20, false},
		{2, scratchBytes + 1<<20, true}} {
		if got, err := scratchOverflows(fill(test.files, test.bytes)); got != test.want || err != nil {
			t.Errorf("%d files of %d bytes overflow: %v, %v", test.files, test.bytes, got, err)
		}
	}
	if got, err := scratchOverflows(filepath.Join(t.TempDir(), "gone")); got || err != nil {
		t.Errorf("a directory that is gone overflows: %v, %v", got, err)
	}
}

// TestScratchIsRemoved: nothing is left of the lower rungs, whatever programs have done there.
func TestScratchIsRemoved(t *testing.T) {
	for _, rung := range []Rung{RungUID, RungLandlock} {
		t.Run(rung.String(), func(t *testing.T) {
			base := t.TempDir()
			for _, dir := range []string{base, filepath.Dir(base)} {
				if err := os.Chmod(dir, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("TMPDIR", base)
			p := openPool(t, rung, 1)
			code := "import os\nos.mkdir('d', 0o300)\nopen('d/f', 'w').write(os.getcwd())\nprint(os.getcwd())"
			for range 2 {
				r := runTest(t, p, Program{Code: code}, Input{}, Limits{})
				if r.Status != OK || filepath.Dir(filepath.Dir(string(r.Stdout))) != base {
					t.Errorf("ended with %v in %q: %s", r.Status, r.Stdout, r.Stderr)
				}
				if _, err := os.Lstat(string(r.Stdout[:len(r.Stdout)-1])); err == nil {
					t.Errorf("%s is still there", r.Stdout)
				}
			}
			expectHonest(t, p)
			p.Close()
			if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}
