// Package memory tells how much memory this process may still take before something ends it: the machine runs out, a
// control group's limit is reached, or a limit of the process.
package memory

import (
	"cmp"
	"fmt"
	"slices"
)

// Room is what may still be taken.
type Room struct {
	Bytes int64
	Limit string // what sets it, for people
	// Mapped says that files that are mapped into memory count, too, as does whatever is reserved and not used.
	Mapped bool
	// Apart says that it is the memory of a card: what its process takes on the host has a room of its own, that of Free.
	Apart bool
}

// String is "5.12 GB of the machine's memory".
func (r Room) String() string { return fmt.Sprintf("%s of %s", GB(r.Bytes), r.Limit) }

// GB writes bytes for people: in GB, or small numbers in MB.
func GB[T ~int | ~int64](bytes T) string {
	if bytes < 1e8 {
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(bytes)/1e9)
}

// Free is the least of what the limits of this process leave; false where nobody tells. What the kernel keeps only as a
// cache of files counts as free.
func Free() (Room, bool) {
	all := rooms()
	if len(all) == 0 {
		return Room{}, false
	}
	least := slices.MinFunc(all, func(a, b Room) int { return cmp.Compare(a.Bytes, b.Bytes) })
	least.Bytes = max(least.Bytes, 0)
	return least, true
}
