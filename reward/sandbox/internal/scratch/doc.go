// Package scratch manages the scratch directories of cells that have no file system of their own: directories of the host, whose
// size is checked by polling.
package scratch
