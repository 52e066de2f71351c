package sandbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
)

// The first byte of a request file says how far a test has come. The rest is the request itself, or
// after compileError and unprepared a message.
const (
	unread       = 'R'
	started      = 'S'
	compileError = 'C'
	unprepared   = 'X'
)

// encodeRequest writes the parts of a request, each after its length: the program, the name of the
// function, its arguments.
func encodeRequest(p Program, in Input) []byte {
	size := 17 + len(p.Code) + len(p.Call)
	for _, a := range in.Args {
		size += 8 + len(a)
	}
	b := append(make([]byte, 0, size), unread)
	part := func(s string) {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	part(p.Code)
	part(p.Call)
	for _, a := range in.Args {
		part(string(a))
	}
	return b
}

// addressSpace bounds how far a program gets where memory is only watched. Threads with large stacks
// cannot live in less than 4 GiB.
func addressSpace(l Limits) int64 { return max(4<<30, 2*l.Memory) }

// stderrTail is how much of standard error is kept.
const stderrTail = 4 << 10

// tail keeps the end of a stream.
type tail []byte

func (t *tail) add(b []byte) {
	*t = append(*t, b...)
	if len(*t) > 2*stderrTail {
		*t = append((*t)[:0], (*t)[len(*t)-stderrTail:]...)
	}
}

func (t tail) String() string { return string(t[max(0, len(t)-stderrTail):]) }

// checkValue is the value that a result file holds: exactly one JSON value, or nil. The program can
// have written anything there.
func checkValue(content []byte) json.RawMessage {
	content = bytes.TrimSpace(content)
	if len(content) == 0 || !json.Valid(content) {
		return nil
	}
	return content
}
