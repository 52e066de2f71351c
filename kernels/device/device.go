// Package device opens the backend that a name stands for. It is where a program chooses what computes; everything
// below is given a kernels.Backend and does not ask which.
package device

import (
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// Check refuses a name that Open does not know.
func Check(name string) error {
	switch name {
	case "auto", "cpu":
		return nil
	}
	return badinput.Errorf("found %q, expected auto or cpu", name)
}

// Open opens the device of that name: auto, the fastest there is, or cpu, the processor. Threads is how many threads
// compute on a processor; 0: one per core.
func Open(name string, threads int) (kernels.Backend, error) {
	if err := Check(name); err != nil {
		return nil, badinput.Errorf("device: %w", err)
	}
	return cpu.New(cpu.Options{Threads: threads})
}
