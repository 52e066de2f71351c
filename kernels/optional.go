package kernels

// Rounder is a backend that may prefer products of rounded numbers.
type Rounder interface {
	// Rounds tells whether it multiplies bf16 numbers so much faster that they are what one takes where nobody says.
	Rounds() bool
}

// RoundsUsually asks a backend what it prefers: false where it says nothing.
func RoundsUsually(b Backend) bool {
	r, ok := inside(b).(Rounder)
	return ok && r.Rounds()
}

// inside is the backend that computes.
func inside(b Backend) Backend {
	switch k := b.(type) {
	case *checked:
		return inside(k.b)
	case *Ledger:
		return inside(k.Backend)
	}
	return b
}
