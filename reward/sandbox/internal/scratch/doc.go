// Package scratch has the scratch directories of cells that have no file system of their own: directories of this machine, bounded by
// looking at them.
package scratch
