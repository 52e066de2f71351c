package sandbox

import _ "embed"

// programSource is how a program is run inside its own process; the two ways of making that process
// follow it.
//
//go:embed program.py
var programSource string
