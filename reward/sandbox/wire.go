package sandbox

import (
	"bytes"
	"encoding/json"
)

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

// take takes what is in the result file of a call.
func (r *Result) take(p Program, content []byte) {
	if p.Record {
		r.Record = content
	} else {
		r.Value = checkValue(content)
	}
}

// checkValue is the value that a result file holds: exactly one JSON value, or nil. The program can
// have written anything there.
func checkValue(content []byte) json.RawMessage {
	content = bytes.TrimSpace(content)
	if len(content) == 0 || !json.Valid(content) {
		return nil
	}
	return content
}
