// Package emu builds the emulated device: a libcuda.so.1 that executes PTX on the CPU and reports mistakes that a card would not, so that
// kernels and the code around them can be tested on machines without a card. docs/emulator.md describes it.
//
// The library is written in C, in the folders machine (which executes PTX) and driver (which implements the driver's calls); it needs
// only gcc.
package emu

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/cachedir"
)

//go:embed machine driver
var sources embed.FS

// Flags are gcc's flags for the library. Products and sums are fused only where the code says so, so that results are the same on all
// machines.
var Flags = []string{"-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O3", "-march=native", "-ffp-contract=off",
	"-fno-math-errno", "-fPIC", "-fvisibility=hidden"}

// Name is the file name by which the dynamic linker finds the driver.
const Name = "libcuda.so.1"

// Library returns the path of the emulated device, and builds it if no process of this user has yet.
func Library() (path string, err error) {
	key := sha256.New()
	fmt.Fprintln(key, Flags, runtime.GOARCH)
	err = fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		fmt.Fprintln(key, path, len(text))
		key.Write(text)
		return err
	})
	if err != nil {
		return "", err
	}
	dir, _, err := cachedir.Find(fmt.Sprintf("grpo/emu-%x", key.Sum(nil)[:8]))
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, Name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, Build(path, Flags)
}

// Build compiles the library to a path, which appears whole or not at all.
func Build(path string, flags []string) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, sources); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.c"))
	if err != nil {
		return err
	}
	objects, err := compile(files, flags)
	if err != nil {
		return err
	}
	made := filepath.Join(dir, Name)
	link := append(append([]string{"-shared", "-o", made}, flags...), objects...)
	if err := gcc(append(link, "-lpthread", "-lm")...); err != nil {
		return err
	}
	return os.Rename(made, path)
}

// compile compiles each file to an object, as many at a time as there are cores.
func compile(files, flags []string) (objects []string, err error) {
	errs := make([]error, len(files))
	slots := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for n, file := range files {
		object := strings.TrimSuffix(file, ".c") + ".o"
		objects = append(objects, object)
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[n] = gcc(append([]string{"-c", file, "-o", object}, flags...)...)
		})
	}
	all.Wait()
	return objects, errors.Join(errs...)
}

func gcc(args ...string) error {
	out, err := exec.Command("gcc", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("gcc %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
