package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/rebuild"
	"github.com/seed-7879b91d/grpo/kernels/cuda"
)

// gpuState is what a card is good for at this commit, for whoever has one.
var gpuState = []string{
	"runs there: nothing yet. The GPU backend is not finished: its kernels are being written, and grpo computes on the processors",
	"never run on a card: all of it. Driver calls, copies and launches are tested on a library that plays the driver",
}

// examineGPU is about the driver and its cards; rebuilt says why this program could not be replaced by one that knows them.
// Nobody needs a card, so that nothing is missing without one.
func examineGPU(ctx context.Context, rebuilt error) finding {
	f := finding{Name: "gpu", OK: true}
	if !cuda.Built && !rebuild.Driver() {
		f.Found = "none that an NVIDIA driver answers for; grpo computes on the processors"
		return f
	}
	driver, err := cuda.Probe(ctx)
	var why *cuda.Unusable
	switch {
	case rebuilt != nil:
		f.Found, f.Do = "an NVIDIA driver, which this program cannot use", rebuilt.Error()
	case errors.As(err, &why) && why.Absent():
		f.Found = why.Error()
	case err != nil:
		f.Found, f.Do = "an NVIDIA driver, which cannot be used", err.Error()
	default:
		f.Found = fmt.Sprintf("%s, CUDA %s, %d cards", driver.Library, driver.Version, len(driver.Cards))
		for _, card := range driver.Cards {
			f.Notes = append(f.Notes, aboutCard(card))
		}
		f.Notes = append(f.Notes, gpuState...)
	}
	return f
}

func aboutCard(c cuda.Card) string {
	if c.Trouble != nil {
		return c.Trouble.Error()
	}
	return fmt.Sprintf("%s: compute capability %s, %d multiprocessors, %s of memory, %s of it free",
		c, c.Capability, c.Processors, gib(c.Total), gib(c.Free))
}
