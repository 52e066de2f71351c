//go:build !gpu

package rebuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// task makes the test's own binary a program that rebuilds itself, or one that does not.
const task = "GRPO_REBUILD_TEST_TASK"

func TestMain(m *testing.M) {
	how := os.Getenv(task)
	if how == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	if how != "alone" {
		ctx = WithOptions(ctx, Options{Say: func(line string) { fmt.Println(line) }, Progress: func(int, int) {}})
	}
	device := "auto"
	if how == "cpu" || strings.HasPrefix(how, "cuda:") {
		device = how
	}
	fmt.Println(ExecIfNeeded(ctx, device))
	os.Exit(0)
}

// fakeDriver is a driver with only the calls made before a rebuild: whether it starts, and how many cards there are.
const fakeDriver = `#include <stdio.h>
#include <stdlib.h>
static int number(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }
__attribute__((constructor)) static void touched(void) { if (getenv("TOUCHED")) fclose(fopen(getenv("TOUCHED"), "w")); }
int cuInit(unsigned flags) { return flags ? 1 : number("INIT", 0); }
int cuDeviceGetCount(int *n) { *n = number("CARDS", 1); return 0; }
`

// buildFakeDriver builds such a driver.
func buildFakeDriver(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libanswering.so")
	gcc := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
	gcc.Stdin = strings.NewReader(fakeDriver)
	out, err := gcc.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// If a driver answers, the process continues as the program with the GPU backend, with the same arguments. Otherwise it stays as it is,
// and with the opt-out it does not load the driver.
func TestHere(t *testing.T) {
	answers := buildFakeDriver(t)
	b := newBench(t)
	self, err := os.Executable()
	require.NoError(t, err)
	info, _ := debug.ReadBuildInfo()
	require.Equal(t, module, info.Main.Path)
	start := func(how string, env ...string) string {
		cmd := exec.Command(self, "one", "two words")
		cmd.Dir = b.dir
		cmd.Env = append(append(os.Environ(), task+"="+how), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	touched := filepath.Join(t.TempDir(), "touched")
	there, touch := "GRPO_CUDA_LIB="+answers, "TOUCHED="+touched
	require.Equal(t, "<nil>", start("cpu", there, touch))
	require.Equal(t, "<nil>", start("alone", there, touch))
	require.Equal(t, "<nil>", start("auto", there, touch, DisableVariable+"=1"))
	require.NoFileExists(t, touched)
	require.Equal(t, "<nil>", start("auto", "GRPO_CUDA_LIB="+filepath.Join(b.home, "none.so")))
	require.Equal(t, "<nil>", start("auto", there, "CARDS=0"))
	require.Equal(t, "<nil>", start("auto", there, "INIT=100"))
	require.Contains(t, start("cuda:1", there, "CARDS=0"), "cuda:1: found no NVIDIA driver with a card")
	require.Empty(t, b.builds())

	if _, ok := checkout(filepath.Dir(compiledIn())); !ok { // a test built with -trimpath uses the checkout of its directory
		lines := strings.Split(start("auto", there, touch), "\n")
		require.Contains(t, lines[0], "building grpo with its GPU backend")
		require.Equal(t, "one two words with 1", lines[1])
		require.FileExists(t, touched)
	}
	// If a driver fails, the backend reports it.
	require.Equal(t, "one two words with 1", last(start("auto", there, "INIT=999")))
	b.write(b.fake, "fail", "no space left\n")
	b.write(b.dir, "cmd/grpo/main.go", "package changed\n")
	require.Contains(t, last(start("auto", there, "CC=other")), "failed (exit status 1): no space left: type make build")
}

func last(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }
