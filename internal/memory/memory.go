// Package memory tells how much more memory this process can use before it fails or is killed, given the machine's
// memory, the limits of its control groups, and its own.
package memory

import (
	"cmp"
	"fmt"
	"slices"
)

// Room is available memory.
type Room struct {
	Bytes int64
	Limit string // what limits it, for messages
	// Mapped says that mapped files, and reserved but unused memory, count too.
	Mapped bool
	// GPU says that it is the memory of a GPU; the host's memory is separate, and told by Free.
	GPU bool
}

// String is "5.12 GB of the machine's memory".
func (r Room) String() string { return fmt.Sprintf("%s of %s", GB(r.Bytes), r.Limit) }

// GB formats bytes in GB, or small numbers in MB.
func GB[T ~int | ~int64](bytes T) string {
	if bytes < 1e8 {
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(bytes)/1e9)
}

// Free is the smallest of the limits' remaining memory; false if unknown. The kernel's page cache counts as free.
func Free() (Room, bool) {
	all := rooms()
	if len(all) == 0 {
		return Room{}, false
	}
	least := slices.MinFunc(all, func(a, b Room) int { return cmp.Compare(a.Bytes, b.Bytes) })
	least.Bytes = max(least.Bytes, 0)
	return least, true
}
