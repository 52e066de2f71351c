// Command make builds the emulated device at a path, and prints that path as its last line.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/kernels/cuda/emu"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "make: expected one argument, the library's path, such as build/emu/"+emu.Name)
		os.Exit(2)
	}
	path, err := filepath.Abs(os.Args[1])
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = emu.Build(path, emu.Flags)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
