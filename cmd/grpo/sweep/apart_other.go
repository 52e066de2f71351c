//go:build !linux

package sweep

import "syscall"

// childAttributes gives a child a process group of its own: keys of the terminal do not reach it, so the parent forwards interruptions.
// It survives a killed parent; a resumed sweep then reports that another process has the directory.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
