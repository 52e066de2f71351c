package sandbox

import (
	"bytes"
	"encoding/json"
)

// addressSpace is the RLIMIT_AS of a program whose memory is only polled: it bounds what the program can
// allocate from one poll to the next. It is at least 4 GiB, which threads with large stacks need.
func addressSpace(l Limits) int64 { return max(4<<30, 2*l.Memory) }

// stderrTail is how many bytes of standard error are kept.
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

// take stores the content of a call's result file.
func (r *Result) take(p Program, content []byte) {
	if p.Record {
		r.Record = content
	} else {
		r.Value = checkValue(content)
	}
}

// checkValue is the content of a result file if that is exactly one JSON value, otherwise nil. The
// program may have written anything there.
func checkValue(content []byte) json.RawMessage {
	content = bytes.TrimSpace(content)
	if len(content) == 0 || !json.Valid(content) {
		return nil
	}
	return content
}
