package driver

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// What a card and its driver must have at the least: the kernels are PTX of version 7.0 for sm_80, which a driver of
// CUDA 11.0 is the first to take.
var (
	LeastDriver     = Version{11, 0}
	LeastCapability = Version{8, 0}
)

// How much pinned memory of the host transfers have.
const (
	stagingSlots = 4
	stagingBytes = 1 << 20 // of a slot
	landingBytes = 256 << 10

	// PinnedBytes is all of it.
	PinnedBytes = stagingSlots*stagingBytes + landingBytes
)

// Version is of CUDA or of a card's instructions, such as 12.4 or 9.0.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Before tells whether v is older than another.
func (v Version) Before(other Version) bool {
	return v.Major < other.Major || v.Major == other.Major && v.Minor < other.Minor
}

// Driver is what Probe found.
type Driver struct {
	Library string  // the path that was opened
	Version Version // the newest CUDA that it serves
	Cards   []Card
}

func (d Driver) String() string {
	if len(d.Cards) == 1 {
		return fmt.Sprintf("%s, CUDA %s, 1 card", d.Library, d.Version)
	}
	return fmt.Sprintf("%s, CUDA %s, %d cards", d.Library, d.Version, len(d.Cards))
}

// Card is one device, as it was when it was looked at.
type Card struct {
	Index      int
	Name       string
	Capability Version
	Total      int64 // bytes of memory
	Free       int64 // of them nobody has; 0 where the card cannot be used
	Processors int   // streaming multiprocessors
	Shared     int   // bytes of shared memory that a block may ask for

	// Trouble says why the card cannot be used; nil where it can.
	Trouble error
}

func (c Card) String() string { return fmt.Sprintf("card %d (%s)", c.Index, c.Name) }

// Reason is why there is no GPU to compute on: a closed set.
type Reason int

// Where nothing is there at all (NoDriver, NoDevice) a program may well choose the processor; every other reason is one
// that somebody should hear of.
const (
	NotBuilt     Reason = iota + 1 // the binary has no GPU backend
	NoDriver                       // no libcuda
	DriverOld                      // a driver that does not take our PTX
	DriverBroken                   // a driver that does not start
	NoDevice                       // a driver without a card
	Prohibited                     // a card that its owner has closed to programs
	Busy                           // a card that another process has for itself
	CardOld                        // a card whose instructions are too few
	NoMemory                       // a card with no memory left for a context
)

// Unusable is why a driver or a card cannot be used, in one line with what to do about it.
type Unusable struct {
	Reason Reason
	text   string
}

func (u *Unusable) Error() string { return u.text }

// Absent tells whether there is nothing there that could be used, in place of something that fails.
func (u *Unusable) Absent() bool { return u.Reason == NoDriver || u.Reason == NoDevice }

// unusable is an error that the user can mend: another state of the device, or another one, the processor at the least.
func unusable(why Reason, format string, args ...any) error {
	return badinput.Errorf("%w", &Unusable{why, fmt.Sprintf(format, args...) + ", or device=cpu"})
}
