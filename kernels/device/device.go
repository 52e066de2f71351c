// Package device opens the backend that a name stands for. It is where a program chooses what computes; everything
// below is given a kernels.Backend and does not ask which.
package device

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/cuda"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// Check refuses a name that Open does not know.
func Check(name string) error {
	_, err := parse(name)
	return err
}

// choice is what a name stands for.
type choice struct {
	auto bool
	card int // below 0: the processor
}

func parse(name string) (choice, error) {
	switch name {
	case "auto":
		return choice{auto: true}, nil
	case "cpu":
		return choice{card: -1}, nil
	}
	number, ok := strings.CutPrefix(name, "cuda:")
	card, err := strconv.ParseUint(number, 10, 16)
	if !ok || err != nil || strconv.FormatUint(card, 10) != number {
		return choice{}, badinput.Errorf("found %q, expected auto, cpu or cuda:N, the number of a card", name)
	}
	return choice{card: int(card)}, nil
}

// Open opens the device of that name: cpu, the processor; cuda:N, a card; or auto, the first card where there is a driver
// with one, and the processor only where there is none. Threads is how many threads compute on a processor; 0: one per core.
// One goroutine at a time computes on a backend: trainers that share one share a lock, too (grpo.WithTurn). The caller closes it, once,
// after everything that was made on it: what uses it later panics.
func Open(name string, threads int) (kernels.Backend, error) {
	c, err := parse(name)
	if err != nil {
		return nil, badinput.Errorf("device: %w", err)
	}
	if c.card >= 0 && (!c.auto || driver.Built) {
		b, err := c.openCard()
		var why *driver.Unusable
		if err == nil || !c.auto || !errors.As(err, &why) || !why.Absent() {
			return b, err
		}
	}
	return cpu.New(cpu.Options{Threads: threads})
}

// Tell, where it is set, is told why opening a card takes long.
var Tell func(line string)

var unusuallyLong = 10 * time.Second

func (c choice) openCard() (kernels.Backend, error) {
	if Tell != nil {
		line := fmt.Sprintf("cuda:%d: its driver compiles the kernels, and keeps what it made", c.card)
		defer time.AfterFunc(unusuallyLong, func() { Tell(line) }).Stop()
	}
	return cuda.OpenBackend(c.card, driver.Options{})
}
