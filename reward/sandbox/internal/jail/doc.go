// Package jail turns a process into a cell: it gives the process namespaces and a root of its own, drops
// its privileges, and replaces it by the Python interpreter. It knows nothing of programs, tests or the
// limits of a single run; package sandbox talks to the interpreter.
//
// The binary re-executes itself once as a supervisor, which re-executes it once per cell. There is a
// supervisor because starting a cell takes a real fork: the supervisor stays small, while the trainer may
// hold a hundred gigabytes, whose page tables would be copied each time. An init function recognises both
// roles by argv[0]. So a program that imports this package has nothing to call, and cannot start itself
// over and over by forgetting to. The package imports little, so that it is initialised before most others
// and a cell starts quickly.
package jail
