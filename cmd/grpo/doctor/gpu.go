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

// examineGPU is about the driver and its cards; rebuilt says why this program could not be replaced by one that knows them.
func examineGPU(ctx context.Context, rebuilt error) Finding {
	if !driver.Built && !rebuild.Driver() {
		return Finding{Name: "gpu", OK: true, Found: "none that an NVIDIA driver answers for; grpo computes on the processors"}
	}
	found, err := driver.Probe(ctx)
	return aboutDriver(found, cmp.Or(rebuilt, err))
}

// aboutDriver is what a probe found. Nobody needs a card, so that nothing is missing without one; but where there is one that fails,
// device=auto does not take the processors in silence.
func aboutDriver(d driver.Driver, err error) Finding {
	f := Finding{Name: "gpu", OK: true, Found: "an NVIDIA driver, which cannot be used"}
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
			f.OK, f.Do = false, "device=auto takes card 0, and stops there: "+instead(d)
		}
	}
	return f
}

// usable is the first card that computes; -1 where none does.
func usable(d driver.Driver) int {
	return slices.IndexFunc(d.Cards, func(c driver.Card) bool { return c.Trouble == nil })
}

// instead is what to type where the first card does not compute.
func instead(d driver.Driver) string {
	if other := usable(d); other >= 0 {
		return fmt.Sprintf("type device=cuda:%d, or device=cpu", d.Cards[other].Index)
	}
	return "type device=cpu"
}

// aboutCards is a line for each card, and what a card is good for as the program is today.
func aboutCards(d driver.Driver) (lines []string) {
	for _, c := range d.Cards {
		if c.Trouble != nil {
			lines = append(lines, c.Trouble.Error())
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: compute capability %s, %d multiprocessors, %s of memory, %s of it free",
			c, c.Capability, c.Processors, gib(c.Total), gib(c.Free)))
	}
	if usable(d) < 0 {
		return lines
	}
	return append(lines,
		"runs there: everything that computes (device=auto takes card 0, device=cpu the processors)",
		"proved on an NVIDIA H100, and in every test on an emulated card; on another, grpo bench card proves it and measures it")
}
