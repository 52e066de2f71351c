//go:build gpu

package driver

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The binary does not link to a driver library, so it starts on machines without one, and loads none at its start elsewhere.
func TestNothingIsLinked(t *testing.T) {
	self, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	defer self.Close()
	libraries, err := self.ImportedLibraries()
	require.NoError(t, err)
	require.Contains(t, libraries, "libc.so.6", "the list must include libraries that are linked")
	for _, name := range libraries {
		require.NotContains(t, name, "libcuda")
	}
	symbols, err := self.DynamicSymbols()
	require.NoError(t, err)
	for _, s := range symbols {
		require.NotRegexp(t, `^cu[A-Z]`, s.Name, "driver functions must be hidden from other libraries")
	}
}

// The assembly of loader.c is accepted for both architectures; the other one needs its cross compiler.
func TestTheLoaderAssembles(t *testing.T) {
	for _, compiler := range []string{"gcc", "aarch64-linux-gnu-gcc"} {
		t.Run(compiler, func(t *testing.T) {
			if _, err := exec.LookPath(compiler); err != nil {
				t.Skip(compiler + " is not installed: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross")
			}
			object := filepath.Join(t.TempDir(), "loader.o")
			out, err := exec.Command(compiler, "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I../include",
				"-c", "loader.c", "-o", object).CombinedOutput()
			require.NoError(t, err, string(out))
			f, err := elf.Open(object)
			require.NoError(t, err)
			defer f.Close()
			symbols, err := f.Symbols()
			require.NoError(t, err)
			jumps := 0
			for _, s := range symbols {
				if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC && len(s.Name) > 2 && s.Name[:2] == "cu" {
					require.Equal(t, elf.STV_HIDDEN, elf.ST_VISIBILITY(s.Other), s.Name)
					jumps++
				}
			}
			require.Greater(t, jumps, 160)
		})
	}
}
