package footprint

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// side is where memory is. With a CPU backend, everything is on the device's side.
type side int

const (
	device side = iota
	host        // with a GPU only
)

// sides are bytes on each side.
type sides [2]int

// rooms are the memory available on each side; the host's is only known if it is separate.
type rooms [2]struct {
	memory.Room
	known bool
}

// roomsOf asks the backend, and with a GPU also the machine, for available memory. Pinned transfer buffers that exist already are part
// of the plan, so they count as available.
func roomsOf(b kernels.Backend) (r rooms) {
	if r[device].Room, r[device].known = b.Free(); r[device].GPU {
		r[host].Room, r[host].known = memory.Free()
		r[host].Bytes += driver.PinnedBytes
	}
	return r
}

// host is the side of the host's memory.
func (p *Plan) host() side {
	if p.rooms[device].GPU {
		return host
	}
	return device
}

// total is the sum of the plan on a side.
func (p *Plan) total(s side) (bytes int) {
	for _, i := range p.Items {
		bytes += i.Bytes[s]
	}
	return bytes
}

// Bytes is the sum on all sides.
func (p *Plan) Bytes() (bytes int) {
	for _, s := range []side{device, host} {
		bytes += p.total(s)
	}
	return bytes
}

// needs is the least memory that the run needs.
func (p *Plan) needs(s side) int {
	n := p.total(s)
	if s == device && !p.given {
		n += p.least - p.BytesOf("cache")
	}
	if s == p.host() { // the mapped files are released before the rest is allocated
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

// unusedShare is the share of free memory that is not used: other processes need memory too, and the kernel's number is an estimate.
const unusedShare = 0.05

// limit is the memory that the run may use.
func (p *Plan) limit(s side) float64 { return (1 - unusedShare) * float64(p.rooms[s].Bytes) }

// fits reports whether the plan fits on both sides, or on which it does not.
func (p *Plan) fits() (short side, fits bool) {
	for _, s := range []side{device, host} {
		if p.rooms[s].known && float64(p.needs(s)) > p.limit(s) {
			return s, false
		}
	}
	return device, true
}

// String is the plan as a table.
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
