// Package version tells which program this is.
package version

import (
	"os/exec"
	"runtime/debug"
	"strings"
)

// Program is the version of the program, with the commit that it was built from.
func Program() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	version := info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			version += " " + setting.Value
		}
	}
	return version
}

// Checkout is the commit that is checked out here, and whether files differ from it; "" without git.
func Checkout() string {
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return ""
	}
	state := strings.TrimSpace(string(commit))
	if changes, err := exec.Command("git", "status", "--porcelain").Output(); err == nil && len(changes) > 0 {
		state += " with changes"
	}
	return state
}
