// Package plainpython spares tests the scripts that some machines have in the place of python3.
package plainpython

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// First puts the directory of the interpreter that python3 turns out to be in front of all others. Where versions are managed,
// python3 is a script that looks for it at every start, which takes ten times as long as the start itself.
func First() {
	path, err := exec.LookPath("python3")
	if err != nil {
		return // those that need it say so
	}
	start := make([]byte, 2)
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if _, err := f.Read(start); err != nil || string(start) != "#!" {
		return // it is no script
	}
	out, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
	if exe := strings.TrimSpace(string(out)); err == nil && filepath.IsAbs(exe) {
		os.Setenv("PATH", filepath.Dir(exe)+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
}
