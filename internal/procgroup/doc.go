// Package procgroup runs the programs that a user brings in a process group of their own, so that keys of the terminal do not reach them,
// and their child processes can be killed with them. On Linux a keeper process in between also kills them all when this process ends,
// in whatever way. It isolates nothing: they run with the user's rights.
package procgroup
