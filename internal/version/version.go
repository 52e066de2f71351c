// Package version identifies this program.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Line is the program in one line: its version, commit, Go version, and backends.
func Line(variants []string) string {
	v, commit := "(devel)", "unknown commit"
	if info, ok := debug.ReadBuildInfo(); ok {
		v = cmp.Or(info.Main.Version, v)
		at, changed := "", ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				at = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = " with changes"
			}
		}
		if at != "" {
			commit = "commit " + at + changed
		}
	}
	return fmt.Sprintf("%s, %s, %s %s/%s, cpu: %s", v, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(variants, ", "))
}

// Program is the version of the program, with its commit.
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
