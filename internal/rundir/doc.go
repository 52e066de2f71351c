// Package rundir stores a run in a directory: append-only logs, and checkpoints that appear whole or not at all. Only one
// process at a time may write. The package knows bytes, files and step numbers; their contents are the caller's.
package rundir
