package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func TestFollowLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of Unix")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// bin/python -> python3 -> ../real/python3.11, and lib is a link to a directory.
	for _, d := range []string{"bin", "real", "real/lib"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"real/python3.11", "real/lib/os.py"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"bin/python": "python3", "bin/python3": "../real/python3.11", "lib": dir + "/real/lib",
		"loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		path, real string
		links      []string
	}{
		{"/bin/python", "/real/python3.11", []string{"/bin/python", "/bin/python3"}},
		{"/lib/os.py", "/real/lib/os.py", []string{"/lib"}},
		{"/real/../bin//python3", "/real/python3.11", []string{"/bin/python3"}},
		{"/real", "/real", nil},
		{"/none", "", nil},
		{"/loop", "", nil},
	} {
		real, links := followLinks(dir + test.path)
		want := test.real
		if want != "" {
			want = dir + want
		}
		var got []string
		for _, l := range links {
			got = append(got, l[0][len(dir):])
		}
		if real != want || !slices.Equal(got, test.links) {
			t.Errorf("%s: real %q over %v, want %q over %v", test.path, real, got, want, test.links)
		}
	}
}

func TestWithoutNested(t *testing.T) {
	got := withoutNested([]string{"/usr/lib/python3", "/usr/lib", "/usr/lib64", "/usr/lib", "/opt/x/lib"})
	if want := []string{"/opt/x/lib", "/usr/lib", "/usr/lib64"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPathInterpreter: the python3 of PATH may be a script, and what it starts may lie in a directory
// that only this user can enter. A cell of its own shows it all the same.
func TestPathInterpreter(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	p, err := Open(t.Context(), Options{Slots: 1, Unsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r := p.Isolation()
	t.Logf("%s is %s, Python %s, on rung %s", path, r.Python, r.Version, r.Rung)
	for _, refused := range r.Passed {
		t.Logf("not %s: %s", refused.Rung, refused.Why)
	}
	expectHonest(t, p)
}
