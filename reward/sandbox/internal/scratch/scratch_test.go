//go:build linux && (amd64 || arm64)

package scratch

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRoom: the room of a killed process is removed by the next process, one that is in use is not.
func TestRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	rooms := map[string]*Root{}
	for _, name := range []string{"live", "dead", "young"} {
		r, err := NewRoot()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if name != "live" {
			r.lock.Close() // as the end of its process does
		}
		rooms[name] = r
	}
	cell, err := rooms["dead"].Make(os.Geteuid(), true)
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
		if err := os.Chtimes(rooms[name].Dir, long, long); err != nil {
			t.Fatal(err)
		}
	}
	sweep(time.Minute)
	for name, want := range map[string]bool{"live": true, "dead": false, "young": true} {
		if _, err := os.Stat(rooms[name].Dir); (err == nil) != want {
			t.Errorf("the room of the %s process: %v", name, err)
		}
	}
}

// TestOverflows: the bounds are the same as those of the file system that other rungs have.
func TestOverflows(t *testing.T) {
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
	}{{0, 0, false}, {Files - 1, 0, false}, {Files, 0, true}, {2, Bytes - 1<<20, false},
		{2, Bytes + 1<<20, true}} {
		if got, err := Overflows(fill(test.files, test.bytes)); got != test.want || err != nil {
			t.Errorf("%d files of %d bytes overflow: %v, %v", test.files, test.bytes, got, err)
		}
	}
	if got, err := Overflows(filepath.Join(t.TempDir(), "gone")); got || err != nil {
		t.Errorf("a directory that is gone overflows: %v, %v", got, err)
	}
}

// TestWhatChangesWhileWeLook: a program that keeps replacing a directory by other files causes no error.
func TestWhatChangesWhileWeLook(t *testing.T) {
	dir := t.TempDir()
	for i := range 200 { // which take a while
		if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path, over := filepath.Join(dir, "z"), make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		makes := []func() error{func() error { return os.Mkdir(path, 0o700) }, func() error { return os.Symlink("z", path) },
			func() error { return os.Mkdir(path, 0o700) }, func() error { return os.WriteFile(path, nil, 0o600) }}
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
				os.Remove(path)
				makes[i%len(makes)]()
			}
		}
	})
	for start := time.Now(); time.Since(start) < 500*time.Millisecond; {
		if full, err := Overflows(dir); full || err != nil {
			t.Errorf("%v, %v", full, err)
			break
		}
	}
	close(over)
	work.Wait()
}
