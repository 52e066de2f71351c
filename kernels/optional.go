package kernels

import "github.com/seed-7879b91d/grpo/internal/badinput"

// Rounder is a backend that may prefer products of bf16 numbers.
type Rounder interface {
	// Rounds reports whether it multiplies bf16 numbers so much faster that they should be the default.
	Rounds() bool
}

// RoundsUsually reports whether a backend prefers bf16 products; false if it is no Rounder.
func RoundsUsually(b Backend) bool {
	r, ok := unwrap(b).(Rounder)
	return ok && r.Rounds()
}

// Ordering is a backend with a choice of orders of sums.
type Ordering interface {
	// Sums is the current order of the sums of products; SetSums changes it from the next operation on.
	Sums() Order
	SetSums(o Order)
	// Fastest is the order that the machine has instructions for.
	Fastest() Order
}

// OrderOf is the current order of a backend; choice is false if it has a fixed order of its own.
func OrderOf(b Backend) (o Order, choice bool) {
	if k, ok := unwrap(b).(Ordering); ok {
		return k.Sums(), true
	}
	return 0, false
}

// FastestOrder is the order that the machine has instructions for; Serial if the backend has no choice.
func FastestOrder(b Backend) Order {
	if k, ok := unwrap(b).(Ordering); ok {
		return k.Fastest()
	}
	return Serial
}

// SetOrder changes the order of a backend from the next operation on, if it has a choice.
func SetOrder(b Backend, o Order) {
	if k, ok := unwrap(b).(Ordering); ok {
		k.SetSums(o)
	}
}

// Choose sets a backend to the order of that name, and returns the name of the order: auto is the fastest. A backend with a
// fixed order accepts only auto, and auto is returned.
func Choose(b Backend, name string) (string, error) {
	if err := CheckOrder(name); err != nil {
		return "", err
	}
	k, ok := unwrap(b).(Ordering)
	switch {
	case !ok && name != "auto":
		return "", badinput.Errorf("found %s, and %s takes its sums in an order of its own; expected auto", name, b.Name())
	case !ok:
		return name, nil
	}
	order := k.Fastest()
	if name != "auto" {
		order, _ = ParseOrder(name) // CheckOrder has
	}
	if k.Sums() != order { // do not disturb others that compute in that order
		k.SetSums(order)
	}
	return k.Sums().String(), nil
}

// Keep is Choose for the order of an earlier run: a backend with a fixed order ignores it.
func Keep(b Backend, name string) (string, error) {
	if _, choice := OrderOf(b); !choice {
		name = "auto"
	}
	return Choose(b, name)
}

// Emulates reports whether a backend computes in the order of tiles without a tile unit: to the same bits, but slower.
func Emulates(b Backend) bool {
	o, _ := OrderOf(b)
	return o == Tiles && FastestOrder(b) != Tiles
}

// CheckOrder validates a name of an order, or auto.
func CheckOrder(name string) error {
	if _, err := ParseOrder(name); err == nil || name == "auto" {
		return nil
	}
	if name == "pairs" {
		return badinput.Errorf("found pairs, which is how serial takes sums of bf16, to the same bits; expected serial")
	}
	return badinput.Errorf("found %q, expected auto, serial or tiles", name)
}

// unwrap removes the wrappers Checked and Ledger.
func unwrap(b Backend) Backend {
	switch k := b.(type) {
	case *checked:
		return unwrap(k.b)
	case *Ledger:
		return unwrap(k.Backend)
	}
	return b
}
