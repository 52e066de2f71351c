// Package program has the Python source that runs a program inside its own process, however that process
// is made, and the format in which a program and its input are passed to it. It knows neither limits nor
// isolation nor right answers.
package program

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
)

// Source is the beginning of the Python source of every such process; the interpreter runs with -S. It needs CONFIG, a
// dict with "preload", trusted source or empty, and "path", the module path. The source appended to it sets up the
// process, calls compiled and run, and reports.
//
//go:embed program.py
var Source string

// The first byte of the file that shows the progress of a process. CompileError and Unprepared are followed
// by a message, Unread by the rest of the request, because the file holds the request at first.
const (
	Unread       = 'R'
	Started      = 'S'
	CompileError = 'C'
	Unprepared   = 'X'
)

// Environment is the environment of every program, without HOME and TMPDIR, which are its scratch directory.
// The fixed hash seed makes the order of a set the same in every run.
var Environment = []string{
	"PYTHONHASHSEED=0", "PYTHONUTF8=1", "MALLOC_ARENA_MAX=2", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1",
	"PATH=/usr/bin:/bin", "TZ=UTC", "LC_ALL=C.UTF-8",
}

// Request encodes the source of a program, the name of the function to call or "", and its arguments, each
// preceded by its length.
func Request(code, call string, args []json.RawMessage) []byte {
	size := 17 + len(code) + len(call)
	for _, a := range args {
		size += 8 + len(a)
	}
	b := append(make([]byte, 0, size), Unread)
	part := func(s string) {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	part(code)
	part(call)
	for _, a := range args {
		part(string(a))
	}
	return b
}
