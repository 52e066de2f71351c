package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
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

// TestPathInterpreter: the python3 on PATH may be a script, and the interpreter that it starts may be in a
// directory that only this user can enter. A cell with its own root can run it all the same.
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

// TestInstalledPackages: programs can import installed packages, but the code that a package has every
// interpreter run at its start (.pth) does not run.
func TestInstalledPackages(t *testing.T) {
	t.Parallel()
	venv := filepath.Join(t.TempDir(), "venv")
	if out, err := exec.Command(testPython(t), "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Skipf("no virtual environment can be made: %v: %s", err, out)
	}
	packages, err := filepath.Glob(filepath.Join(venv, "lib", "python3*", "site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatal(packages, err)
	}
	for name, text := range map[string]string{
		"asks.pth": "import sys; sys.asked = True\nbeside\n", "installed.py": "name = 'installed'\n", "beside/nearby.py": "name = 'nearby'\n",
	} {
		path := filepath.Join(packages[0], name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	const program = "import sys, installed, nearby\nprint(installed.name, nearby.name, hasattr(sys, 'asked'))\nexit()"
	for _, rung := range []Rung{0, RungUnsafe} {
		p, err := Open(t.Context(), Options{Slots: 1, Python: filepath.Join(venv, "bin", "python3"), Strongest: rung, Unsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		r := runTest(t, p, Program{Code: program}, Input{}, Limits{CPU: 2 * time.Second})
		if r.Status != OK || string(r.Stdout) != "installed nearby False\n" {
			t.Errorf("%v: ended with %v, printed %q: %s", p.Isolation().Rung, r.Status, r.Stdout, r.Stderr)
		}
	}
}
