package driver

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// The minimum requirements: the kernels are PTX 7.0 for sm_80, which drivers accept from CUDA 11.0 on.
var (
	LeastDriver     = Version{11, 0}
	LeastCapability = Version{8, 0}
)

// The pinned host memory of Transfers.
const (
	stagingSlots = 4
	stagingBytes = 1 << 20 // per slot
	landingBytes = 256 << 10

	// PinnedBytes is their total size.
	PinnedBytes = stagingSlots*stagingBytes + landingBytes
)

// Version is a version of CUDA or a compute capability, such as 12.4 or 9.0.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Before reports whether v is older than another version.
func (v Version) Before(other Version) bool {
	return v.Major < other.Major || v.Major == other.Major && v.Minor < other.Minor
}

// Driver is what Probe found.
type Driver struct {
	Library string  // the path that was opened
	Version Version // the newest CUDA version that it supports
	Cards   []Card
}

func (d Driver) String() string {
	if len(d.Cards) == 1 {
		return fmt.Sprintf("%s, CUDA %s, 1 card", d.Library, d.Version)
	}
	return fmt.Sprintf("%s, CUDA %s, %d cards", d.Library, d.Version, len(d.Cards))
}

// Card describes one device at the time it was queried.
type Card struct {
	Index      int
	Name       string
	Capability Version
	Total      int64 // bytes of memory
	Free       int64 // bytes of free memory; 0 if the card cannot be used
	Processors int   // streaming multiprocessors
	Shared     int   // bytes of shared memory that a block may ask for

	// Trouble says why the card cannot be used; nil if it can.
	Trouble error
}

func (c Card) String() string { return fmt.Sprintf("card %d (%s)", c.Index, c.Name) }

// Reason is why there is no GPU to compute on: a closed set.
type Reason int

// If there is no GPU at all (NoDriver, NoDevice), a program may silently use the CPU; every other reason should be
// reported to the user.
const (
	NotBuilt     Reason = iota + 1 // the binary has no GPU backend
	NoDriver                       // no libcuda
	DriverOld                      // a driver that does not accept our PTX
	DriverBroken                   // a driver that does not start
	NoDevice                       // a driver without a card
	Prohibited                     // a card in compute mode Prohibited
	Busy                           // a card that another process uses exclusively
	CardOld                        // a card whose compute capability is too low
	NoMemory                       // a card with no memory left for a context
)

// Unusable is why a driver or a card cannot be used, in one line with what to do about it.
type Unusable struct {
	Reason Reason
	text   string
}

func (u *Unusable) Error() string { return u.text }

// Absent reports whether there is no GPU, as opposed to one that fails.
func (u *Unusable) Absent() bool { return u.Reason == NoDriver || u.Reason == NoDevice }

// unusable is an error that the user can resolve; its advice ends with the CPU as the last resort.
func unusable(why Reason, format string, args ...any) error {
	return badinput.Errorf("%w", &Unusable{why, fmt.Sprintf(format, args...) + ", or device=cpu"})
}
