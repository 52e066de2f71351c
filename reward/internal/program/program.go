// Package program has what runs a program inside its own process, whichever way that process is made: as
// Python source, and as the form in which a program and its input are handed over. It does not know how
// the process is limited, what it is kept from, or what a right answer is.
package program

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
)

// Source begins the Python of every such process, whose interpreter has the flag -S. It wants CONFIG to be there, a
// dict whose "preload" is trusted source or empty and whose "path" is where to look for modules; what follows it makes
// the process, ends in compiled and run, and reports.
//
//go:embed program.py
var Source string

// The first byte of the file that tells how far a process has come. After CompileError and Unprepared
// comes a message, after Unread the rest of the request, which the file was before.
const (
	Unread       = 'R'
	Started      = 'S'
	CompileError = 'C'
	Unprepared   = 'X'
)

// Environment is that of every program, but for HOME and TMPDIR, which are its scratch directory. The
// fixed hash seed makes the order of a set the same in every run.
var Environment = []string{
	"PYTHONHASHSEED=0", "PYTHONUTF8=1", "MALLOC_ARENA_MAX=2", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1",
	"PATH=/usr/bin:/bin", "TZ=UTC", "LC_ALL=C.UTF-8",
}

// Request is the source of a program, the name of the function to call, where one is called, and its
// arguments, each after its length.
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
