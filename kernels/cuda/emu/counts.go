package emu

import (
	"bytes"
	"encoding/binary"
	"os"
)

// Counts are the calls of the device that a process has made. The process writes them to the file named by GRPO_EMU_COUNTS.
type Counts struct {
	Calls     uint64 // of every kind
	Launches  uint64
	Uploads   uint64 // copies to the device
	Downloads uint64 // copies to the host
	Copies    uint64 // within the device
	Fills     uint64
	Waits     uint64 // of the host: for a stream, an event, everything, or a copy to memory that is not pinned
	Contexts  uint64 // made current
}

// ReadCounts reads the counts of a process so far.
func ReadCounts(path string) (c Counts, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	return c, binary.Read(bytes.NewReader(text), binary.NativeEndian, &c)
}

// Since returns the calls since an earlier count.
func (c Counts) Since(earlier Counts) Counts {
	return Counts{
		c.Calls - earlier.Calls, c.Launches - earlier.Launches, c.Uploads - earlier.Uploads, c.Downloads - earlier.Downloads,
		c.Copies - earlier.Copies, c.Fills - earlier.Fills, c.Waits - earlier.Waits, c.Contexts - earlier.Contexts,
	}
}
