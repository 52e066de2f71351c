// Package plainpython makes tests use a real python3 where python3 is a wrapper script.
package plainpython

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// SetPath puts the directory of the real interpreter first in PATH. Version managers install a script as python3, which searches
// for the interpreter at every start and takes ten times as long as Python itself.
func SetPath() {
	path, err := exec.LookPath("python3")
	if err != nil {
		return // tests that need it report it
	}
	start := make([]byte, 2)
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if _, err := f.Read(start); err != nil || string(start) != "#!" {
		return // no script
	}
	out, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
	if exe := strings.TrimSpace(string(out)); err == nil && filepath.IsAbs(exe) {
		os.Setenv("PATH", filepath.Dir(exe)+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
}
