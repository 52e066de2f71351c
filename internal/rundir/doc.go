// Package rundir keeps a run in a directory: logs that only grow, and checkpoints that are there whole or
// not at all. One process at a time may write. The package knows bytes, files and step numbers; what is in
// them is the caller's business.
package rundir
