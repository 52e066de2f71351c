package sandbox

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Program is untrusted Python source.
type Program struct {
	Code string
	// Call names the function that every input is passed to: a module-level function, or a method of
	// class Solution where the code defines one. Empty means a program that reads standard input and
	// prints its answer, run as __main__. A called program is not __main__, so what it guards by that
	// name does not run.
	Call string
	// Record asks for the content of descriptor 3 instead of the value of a call, however the run ends. The descriptor is a memory
	// file, empty at first, which the program may map.
	Record bool
}

// Input is the input of one run: Args for a program that is called, Stdin for any other.
type Input struct {
	Stdin []byte
	Args  []json.RawMessage // positional arguments, one JSON value each
}

// check returns an error if the program is called with arguments that are not JSON.
func (in Input) check(prog Program) error {
	for i, arg := range in.Args {
		if prog.Call != "" && !json.Valid(arg) {
			return badinput.Errorf("argument %d is %.40q, expected a JSON value", i, arg)
		}
	}
	return nil
}

// Limits bound one run. A field of 0 or less takes its default.
type Limits struct {
	// CPU is the processor time of all threads together. It alone decides whether a program that
	// computes is too slow, so the verdict does not depend on the load of the machine. Programs may
	// exceed it by 60 ms. Default 6 s.
	CPU time.Duration
	// Wall bounds the time spent running or asleep, without time spent waiting for a processor. Only
	// programs that sleep reach it. Default twice CPU plus one second.
	Wall time.Duration
	// Memory is the resident memory of the program. Default 1 GiB.
	Memory int64
	// Output bounds standard output, and every file that the program writes. Default 16 MiB.
	Output int64
}

// chargedPauses is the allowance for processor time that a program did not use itself: the kernel charges
// interrupts, and pauses of a virtual machine, to the running process. 40 ms at a time have been measured.
const chargedPauses = 60 * time.Millisecond

// effective are the limits with defaults and allowances, as they are enforced.
func (l Limits) effective() Limits {
	if l.CPU <= 0 {
		l.CPU = 6 * time.Second
	}
	if l.Wall <= 0 {
		l.Wall = 2*l.CPU + time.Second
	}
	if l.Memory <= 0 {
		l.Memory = 1 << 30
	}
	if l.Output <= 0 {
		l.Output = 16 << 20
	}
	l.CPU += chargedPauses
	return l
}

// kernelSeconds is the RLIMIT_CPU of a run. The kernel counts clock ticks for it, some per cent too many on a busy machine, and a program
// that the kernel ends looks like one that crashed. So it is well above the limit that decides the verdict.
func kernelSeconds(cpu time.Duration) int64 { return int64((cpu+cpu/8+time.Second-1)/time.Second) + 1 }

// Status says how a run ended, as seen from outside the process. This package does not know whether the answer is right.
// The set is closed: a failure of the machine is an *InfraError and never a Status.
type Status uint8

const (
	// OK: the program exited with code 0. It may have printed or returned anything, or nothing.
	OK Status = iota + 1
	// RTE: it exited with another code, or died of a signal that it caused.
	RTE
	// TLE: it exceeded its processor time, or slept past its wall limit.
	TLE
	// MLE: it exceeded its memory limit.
	MLE
	// OLE: it printed more than it may.
	OLE
	// CE: it is not Python, or cannot be compiled within the limits.
	CE
)

var statusNames = []string{OK: "OK", RTE: "RTE", TLE: "TLE", MLE: "MLE", OLE: "OLE", CE: "CE"}

func (s Status) String() string { return nameOf(statusNames, "Status", uint8(s)) }

// nameOf is the name of an enum's value, or its type and number if the value has no name.
func nameOf(names []string, kind string, value uint8) string {
	if int(value) < len(names) && names[value] != "" {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}

// Result is the outcome of one run. Everything but Stdout, Value, Record and Stderr was measured outside
// the process that ran the program and cannot be forged by it.
type Result struct {
	Status Status
	// Stdout is what the program printed, byte for byte, up to the limit; of a run that was stopped,
	// what it had printed until then.
	Stdout []byte
	// Value is what a called function returned, as JSON: tuples are arrays, keys of dicts are
	// strings, integers have all their digits, and a subclass of a plain type is that type. It is nil
	// when nothing was returned (the program left early) or when JSON cannot carry the value (a set,
	// an object, an infinite float); Stderr then says which. The bytes come from the process that ran
	// the program, which can choose them freely; that gains it nothing over returning the value.
	Value json.RawMessage
	// Record is the content of descriptor 3, for a Program with Record. The process chose these bytes, too.
	Record []byte
	// Stderr is the end of standard error, at most 4 KiB; for CE it is the compiler's message.
	Stderr string
	// ExitCode is the exit code of a run that ended by itself, and Signal the signal that ended it.
	ExitCode, Signal int
	CPU, Wall        time.Duration
	PeakMemory       int64
}

// InfraError is a failure of the machine, not of the program: a cell could not be built, or died
// during a run for a reason that is not the program's. The pool returns it only after retries on fresh
// cells. It must never become a score.
type InfraError struct {
	Attempts int
	Err      error
}

func (e *InfraError) Error() string {
	return fmt.Sprintf("sandbox failed %d times in a row: %v", e.Attempts, e.Err)
}

func (e *InfraError) Unwrap() error { return e.Err }

// Options say how a pool is built. The zero value is the strongest isolation that this machine
// allows, as many slots as there are processors, and the python3 found on PATH.
type Options struct {
	// Slots is how many programs run at once. 0 takes SANDBOX_MAX_CONCURRENCY from the environment
	// where it is set, else the number of processors.
	Slots int
	// Sessions is how many sessions can hold a process at once, each in a cell of its own. 0 is four for each slot.
	Sessions int
	// Python is the interpreter, a path or a name on PATH; empty is python3. It may be a wrapper script:
	// what runs is its sys.executable.
	Python string
	// Strongest is the highest rung that is tried; 0 tries all.
	Strongest Rung
	// Unsafe allows the lowest rung, which protects nothing, if no other is available.
	Unsafe bool
	// Preload is trusted Python source that every cell runs once at its start. Programs see its names
	// as if they were their own, and a called function may come from it.
	Preload string
}

// Rung is a level of isolation: how much stands between a program and this machine. A higher one is
// stronger.
type Rung uint8

const (
	// RungUnsafe is a plain process: it bounds time and output and protects nothing.
	RungUnsafe Rung = iota + 1
	// RungLandlock is for an ordinary user on a machine that allows no namespaces: landlock and seccomp.
	RungLandlock
	// RungUID is for root on such a machine: RungLandlock with a user of its own for every cell.
	RungUID
	// RungNamespaces has every namespace and a root of its own for every cell; memory is bounded by polling it.
	RungNamespaces
	// RungFull is RungNamespaces with memory bounded by a control group.
	RungFull
)

var rungNames = []string{
	RungUnsafe: "unsafe", RungLandlock: "landlock", RungUID: "uid", RungNamespaces: "namespaces", RungFull: "full",
}

func (r Rung) String() string { return nameOf(rungNames, "Rung", uint8(r)) }

// Report says how programs are isolated in this pool, and how far that goes.
type Report struct {
	Rung Rung
	// Claims were each tested by a live attack when this process opened its first pool of the rung. RungUnsafe has none.
	Claims []Claim
	// NotProtected says, in words for the user, what this rung leaves open.
	NotProtected []string
	// Passed says why each stronger rung was passed over.
	Passed []Refusal
	// Python is the interpreter's own path and version.
	Python, Version string
	Slots           int
}

// Claim is one thing that the sandbox keeps from programs.
type Claim struct {
	// Name is the thing, such as "network" or "host files".
	Name string `json:"name"`
	// Holds tells whether the attack failed, and Detail what the attacker saw.
	Holds  bool   `json:"holds"`
	Detail string `json:"detail"`
}

// Refusal is a rung that this machine did not allow, and why.
type Refusal struct {
	Rung Rung
	Why  string
}
