// Package rebuild lets a program that was built without the GPU backend build itself with it, once, and continue as that,
// if there is a GPU driver. `go run` cannot tell cgo where the driver's header is, so it builds without; and without a GPU
// no other build is needed.
//
// The program is built in the user's cache, under a key of its source. Concurrent processes build it only once; builds of
// older sources are then removed.
//
// It knows neither GPUs nor kernels: it only asks whether a driver answers.
package rebuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cachedir"
)

// DisableVariable is the environment variable that disables the rebuild. It is set for the rebuilt program, so that it does not rebuild
// again.
const DisableVariable = "GRPO_NO_REBUILD"

// Options are for a program that takes part: without WithOptions, ExecIfNeeded does nothing.
type Options struct {
	// Say is called with a line about what takes time.
	Say func(line string)
	// Progress is called with the progress of the build, in packages, and at its end.
	Progress func(done, total int)
}

type key struct{}

// WithOptions returns a context under which this process may be replaced.
func WithOptions(ctx context.Context, o Options) context.Context {
	return context.WithValue(ctx, key{}, o)
}

// ExecIfNeeded continues as the program with the GPU backend, if device (auto, cpu, cuda:N) and the machine call for that. It
// returns nil if this program should continue, and an error if another is needed and cannot be had.
func ExecIfNeeded(ctx context.Context, device string) error {
	o, takesPart := ctx.Value(key{}).(Options)
	switch {
	case built, !takesPart, device == "cpu", os.Getenv(DisableVariable) != "":
		return nil
	case !HasDriver():
		if device != "auto" {
			return badinput.Errorf("%s: found no NVIDIA driver with a card: look at nvidia-smi, or use the processor, device=cpu", device)
		}
		return nil
	}
	info, _ := debug.ReadBuildInfo()
	b := builder{Options: o, info: info, file: compiledIn()}
	program, err := b.program(ctx)
	if err != nil {
		return err
	}
	err = syscall.Exec(program, os.Args, append(os.Environ(), DisableVariable+"=1"))
	return fmt.Errorf("%s: %w; remove it and try again, or stay on the processor with %s=1", program, err, DisableVariable)
}

// builder finds the program with the GPU backend, or builds it.
type builder struct {
	Options
	info *debug.BuildInfo // of this program
	file string           // path of this file when the program was built
}

// program returns the path of the program with the GPU backend.
func (b *builder) program(ctx context.Context) (string, error) {
	dir, warning, err := cachedir.Find("grpo/gpu")
	if err != nil {
		return "", err
	}
	if warning != "" {
		b.Say(warning)
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "", b.cannot("there is no go command to build it with")
	}
	from, err := b.source(ctx, goTool)
	if err != nil {
		return "", err
	}
	fingerprint, err := from.fingerprint(b.info)
	if err != nil {
		return "", err
	}
	shelf := shelf{dir}
	unlock, err := shelf.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	program := shelf.program(fingerprint)
	if _, err := os.Stat(program); err != nil {
		if err := b.build(ctx, goTool, from, program); err != nil {
			return "", err
		}
		shelf.sweep(fingerprint)
	}
	return program, shelf.touch(program)
}

// cannot is the error of a missing GPU backend, with how to get one or do without.
func (b *builder) cannot(format string, args ...any) error {
	return badinput.Errorf("there is an NVIDIA driver, this program has no GPU backend, and %s: "+
		"type make build in the source of grpo and run bin/grpo, or stay on the processor with device=cpu or %s=1",
		fmt.Sprintf(format, args...), DisableVariable)
}
