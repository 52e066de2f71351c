// Package subprocess lets tests run tasks in processes of their own: a process opens the driver once, and the emulated device reads its
// settings then.
package subprocess

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels/cuda/emu"
)

// variable names the task of a process.
const variable = "GRPO_CUDA_TEST_TASK"

// Tasks are what a test binary can do instead of running its tests, by name.
type Tasks map[string]func() error

// Main runs the task of this process and exits; without one it returns. TestMain calls it first.
func (all Tasks) Main() {
	do, ok := all[os.Getenv(variable)]
	if !ok {
		return
	}
	if err := do(); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Run runs a task in a process of its own, and returns its output.
func Run(t *testing.T, task string, env ...string) (out string, ok bool) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), variable+"="+task), env...)
	text, err := cmd.CombinedOutput()
	if end := new(exec.ExitError); err != nil && !errors.As(err, &end) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text)), err == nil
}

// Emulated runs a task with the emulated device as its driver.
func Emulated(t *testing.T, task string, env ...string) (out string, ok bool) {
	t.Helper()
	library, err := emu.Library()
	if err != nil {
		t.Fatal(err)
	}
	return Run(t, task, append([]string{"GRPO_CUDA_LIB=" + library}, env...)...)
}
