// Package sandbox runs Python programs that nobody trusts, many and fast, and says how each run
// ended. It knows neither what a right answer is nor what a reward is: expected outputs never come
// here, so there is nothing in a cell that a program could read to look better than it is.
//
// A Pool holds a cell for each slot. A cell is this very binary, started once more with namespaces and
// a read-only root of its own, which gave its powers up and became a Python that has the usual modules
// imported: the zygote. For every test the zygote forks one fresh process; under a second system call
// filter, which leaves it no way to make or to reach another process, that process becomes __main__
// of the program, with real files for its input and output. What a test leaves behind ends its cell.
//
// What can be trusted: that a program ended, how, in which time and memory, comes from the kernel by
// way of the zygote, which never runs or reads anything that a program brings, and from Go, which
// kills the cell of a run that passes its limits. What cannot: standard output, and the value of a
// called function. They are bytes that the process chose, and no nonce or frame would change that,
// because the process has to be able to produce them; so they carry an answer and nothing else, and
// one that is made up is worth what it would be worth had it been computed.
//
// Whatever goes wrong on our side is an error, and retried on a fresh cell first. A program cannot
// bring that about: it cannot even end itself with SIGKILL, so a test that died of that without
// passing a limit was killed by somebody else.
package sandbox
