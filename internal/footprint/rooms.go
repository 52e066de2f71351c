package footprint

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// side is where memory is taken: of a backend on the processor, all of it is the device's.
type side int

const (
	device side = iota
	host        // of a card
)

// sides are numbers of bytes.
type sides [2]int

// rooms are what each side has; that of the host is known where it is another than the device's.
type rooms [2]struct {
	memory.Room
	known bool
}

// roomsOf asks a backend what it has, and the machine where that is another matter. What transfers with a card have pinned already is the
// run's, too: the plan has it.
func roomsOf(b kernels.Backend) (r rooms) {
	if r[device].Room, r[device].known = b.Free(); r[device].Apart {
		r[host].Room, r[host].known = memory.Free()
		r[host].Bytes += driver.PinnedBytes
	}
	return r
}

// host is the side that the host's memory is on.
func (p *Plan) host() side {
	if p.rooms[device].Apart {
		return host
	}
	return device
}

// total is all that is planned on a side.
func (p *Plan) total(s side) (bytes int) {
	for _, i := range p.Items {
		bytes += i.Bytes[s]
	}
	return bytes
}

// Bytes is all that is planned, on the host and on a card.
func (p *Plan) Bytes() (bytes int) {
	for _, s := range []side{device, host} {
		bytes += p.total(s)
	}
	return bytes
}

// needs is the least that the run can do with.
func (p *Plan) needs(s side) int {
	n := p.total(s)
	if s == device && !p.given {
		n += p.least - p.Of("cache")
	}
	if s == p.host() { // the files, and what is made of them, are not there at the same time as the rest
		loading := p.files
		for _, i := range p.Items {
			if i.Name == "weights" {
				loading += i.Bytes[s]
			}
		}
		n = max(n, loading)
	}
	return n
}

// spare is the share of what is free that is left alone: others take memory, too, and the kernel's number is a guess.
const spare = 0.05

// limit is the memory that the run may have.
func (p *Plan) limit(s side) float64 { return (1 - spare) * float64(p.rooms[s].Bytes) }

// fits tells whether there is room on both sides, or on which there is not.
func (p *Plan) fits() (short side, fits bool) {
	for _, s := range []side{device, host} {
		if p.rooms[s].known && float64(p.needs(s)) > p.limit(s) {
			return s, false
		}
	}
	return device, true
}

// String says what the memory is for, and of how much.
func (p *Plan) String() string {
	if p.host() == device {
		return p.text(device, "")
	}
	return p.text(device, " on the card") + "; " + p.text(host, " on the host")
}

func (p *Plan) text(s side, where string) string {
	var parts []string
	for _, i := range p.Items {
		if i.Bytes[s] > 0 || s == device && where == "" {
			parts = append(parts, i.Name+" "+memory.GB(i.Bytes[s]))
		}
	}
	text := fmt.Sprintf("%s%s (%s)", memory.GB(p.total(s)), where, strings.Join(parts, ", "))
	if p.rooms[s].known {
		text += "; free: " + p.rooms[s].String()
	}
	return text
}
