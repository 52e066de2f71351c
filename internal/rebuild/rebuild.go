// Package rebuild has a program that was built without the GPU backend build itself with it, once, where there is a driver
// for it, and go on as that. `go run` cannot say where cgo finds the header of the driver, so that who types it gets the
// program without; and who has no card needs no other.
//
// What was built lies in the user's cache, under a key of the source that it was built from. Two processes build it once;
// those of older sources go when a new one is there.
//
// It knows neither cards nor kernels: whether a driver answers is all that it asks.
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

// Variable is what tells a program to stay as it is; what was built has it, so that nothing is built twice.
const Variable = "GRPO_NO_REBUILD"

// Options are how a program takes part: Here does nothing for one that has not said With.
type Options struct {
	// Say is told in a line what takes time.
	Say func(line string)
	// Progress is told at which package the build is, of those that are to be compiled, and in the end that it is over.
	Progress func(done, total int)
}

type key struct{}

// With lets what is done under the context that it gives replace this process.
func With(ctx context.Context, o Options) context.Context { return context.WithValue(ctx, key{}, o) }

// Here goes on as the program with the GPU backend, if that is what device (auto, cpu, cuda:N) and the machine call for. It
// returns where this program is the one to go on with, and with an error where another is and cannot be had.
func Here(ctx context.Context, device string) error {
	o, takesPart := ctx.Value(key{}).(Options)
	switch {
	case built, !takesPart, device == "cpu", os.Getenv(Variable) != "":
		return nil
	case !Driver():
		if device != "auto" {
			return badinput.Errorf("%s: there is no NVIDIA driver with a card here: look at nvidia-smi, or take the processor, device=cpu", device)
		}
		return nil
	}
	info, _ := debug.ReadBuildInfo()
	b := builder{Options: o, info: info, file: compiledIn()}
	program, err := b.program(ctx)
	if err != nil {
		return err
	}
	err = syscall.Exec(program, os.Args, append(os.Environ(), Variable+"=1"))
	return fmt.Errorf("%s: %w; remove it and try again, or stay on the processor with %s=1", program, err, Variable)
}

// builder finds the program with the GPU backend, and builds it where there is none yet.
type builder struct {
	Options
	info *debug.BuildInfo // of this program
	file string           // of this package, as it was when the program was built
}

// program is the path of the program with the GPU backend.
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

// cannot says why there will be no GPU backend, and how to have one or do without.
func (b *builder) cannot(format string, args ...any) error {
	return badinput.Errorf("there is an NVIDIA driver, this program has no GPU backend, and %s: "+
		"type make build in the source of grpo and run bin/grpo, or stay on the processor with device=cpu or %s=1",
		fmt.Sprintf(format, args...), Variable)
}
