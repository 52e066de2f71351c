package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/rebuild"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// examineGPU checks the driver and its GPUs; rebuilt is why this program could not be rebuilt with the GPU backend.
func examineGPU(ctx context.Context, rebuilt error) Finding {
	if !driver.Built && !rebuild.HasDriver() {
		return Finding{Name: "gpu", OK: true, Found: "no NVIDIA driver found; grpo computes on the processors"}
	}
	found, err := driver.Probe(ctx)
	return aboutDriver(found, cmp.Or(rebuilt, err))
}

// aboutDriver is the result of a probe. Without a GPU nothing is missing. But a GPU that fails is a finding, as device=auto does not
// silently fall back to the CPU.
func aboutDriver(d driver.Driver, err error) Finding {
	f := Finding{Name: "gpu", OK: true, Found: "an NVIDIA driver that cannot be used"}
	var why *driver.Unusable
	switch {
	case errors.As(err, &why) && why.Absent():
		f.Found = why.Error()
	case err != nil:
		f.OK, f.Do = false, err.Error()
	default:
		f.Found = d.String()
		f.Notes = aboutCards(d)
		if len(d.Cards) > 0 && d.Cards[0].Trouble != nil {
			f.OK, f.Do = false, "device=auto takes card 0, which does not work: "+deviceAdvice(d)
		}
	}
	return f
}

// firstUsable is the index of the first usable GPU; -1 if there is none.
func firstUsable(d driver.Driver) int {
	return slices.IndexFunc(d.Cards, func(c driver.Card) bool { return c.Trouble == nil })
}

// deviceAdvice is what to type if the first GPU is not usable.
func deviceAdvice(d driver.Driver) string {
	if other := firstUsable(d); other >= 0 {
		return fmt.Sprintf("type device=cuda:%d, or device=cpu", d.Cards[other].Index)
	}
	return "type device=cpu"
}

// aboutCards is a line for each GPU, and one about what it can be used for.
func aboutCards(d driver.Driver) (lines []string) {
	for _, c := range d.Cards {
		if c.Trouble != nil {
			lines = append(lines, c.Trouble.Error())
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: compute capability %s, %d multiprocessors, %s of memory, %s of it free",
			c, c.Capability, c.Processors, gib(c.Total), gib(c.Free)))
	}
	if firstUsable(d) < 0 {
		return lines
	}
	return append(lines,
		"all computation runs there (device=auto takes card 0, device=cpu the processors)",
		"tested on an NVIDIA H100, and on an emulated card in every test; grpo bench card checks and measures another card")
}
