// Package apart has the tests of a package run tasks in processes of their own, whose driver is not open yet, whatever the settings of
// a device that it reads once.
package apart

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

// Tasks are what a process may do in place of the tests, by name.
type Tasks map[string]func() error

// Main runs the task of this process and ends it, or comes back where it has none: TestMain begins with it.
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

// Run runs a task in a process of its own, and gives what it printed.
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

// Emulated runs a task whose driver is the emulated device.
func Emulated(t *testing.T, task string, env ...string) (out string, ok bool) {
	t.Helper()
	library, err := emu.Library()
	if err != nil {
		t.Fatal(err)
	}
	return Run(t, task, append([]string{"GRPO_CUDA_LIB=" + library}, env...)...)
}
