// Package sandbox runs untrusted Python programs, many and fast, and reports how each run ended. It
// knows neither right answers nor rewards: expected outputs never enter a cell, so a program finds
// nothing there that would help it to cheat.
//
// A Pool holds a cell for each slot. A cell is this binary, started again with namespaces and a
// read-only root of its own. It drops its privileges and becomes a Python with the usual modules
// imported: the zygote. For every test the zygote forks a fresh process. A second seccomp filter keeps
// that process from creating or reaching others; it runs the program as __main__, with memory files as
// standard input and output. A cell in which a test leaves anything behind is not used again.
//
// Trusted: whether and how a program ended, its time and its memory. These come from the kernel by way
// of the zygote, which never runs or parses any part of a program, and from Go, which kills the cell of
// a run that exceeds its limits. Not trusted: standard output, and the value of a called function. They
// are bytes that the process chose, and no nonce or framing would change that, because the process has
// to be able to produce them. So they are read as an answer and nothing else: a right answer is worth the
// same whether it was computed or made up.
//
// A failure of the machine is retried on fresh cells and then returned as an error. A program cannot cause
// one: it cannot even send itself SIGKILL, so a test that died of SIGKILL within its limits was killed
// from outside.
package sandbox
