// Package jail turns a process into a cell: it gives it namespaces and a root of its own, takes its
// powers away, and then becomes the Python interpreter. It knows nothing of programs, tests or
// limits of a single run; package sandbox talks to what runs in here.
//
// The binary re-executes itself, once as a supervisor and, from there, once per cell. The supervisor
// exists because making a cell needs a real fork: it stays small, where the process that trains may
// hold a hundred gigabytes whose page tables would be copied each time. Both roles are recognised by
// argv[0] in an init function: a program that imports this package has nothing to call, and none that
// forgets to call something can start itself over and over. The package imports little, so that it is
// initialised before most others and a cell does not wait for them.
package jail
