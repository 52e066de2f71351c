package kernels

import "github.com/seed-7879b91d/grpo/internal/badinput"

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

// Ordering is a backend that leaves the choice of an order.
type Ordering interface {
	// Sums is the order that sums of products are taken in, and SetSums another one from the next operation on.
	Sums() Order
	SetSums(o Order)
	// Fastest is the order that the machine has instructions for.
	Fastest() Order
}

// OrderOf is what a backend is set to; choice is false where it has an order of its own.
func OrderOf(b Backend) (o Order, choice bool) {
	if k, ok := inside(b).(Ordering); ok {
		return k.Sums(), true
	}
	return 0, false
}

// FastestOrder is the order that the machine has instructions for; Serial where the backend leaves no choice.
func FastestOrder(b Backend) Order {
	if k, ok := inside(b).(Ordering); ok {
		return k.Fastest()
	}
	return Serial
}

// SetOrder has a backend take its sums in another order from the next operation on, if it leaves the choice.
func SetOrder(b Backend, o Order) {
	if k, ok := inside(b).(Ordering); ok {
		k.SetSums(o)
	}
}

// Choose has a backend take its sums in the order of a name, and says which that is: auto stands for the fastest, and stays
// auto where the backend has an order of its own, as it knows no other.
func Choose(b Backend, name string) (string, error) {
	if err := CheckOrder(name); err != nil {
		return "", err
	}
	k, ok := inside(b).(Ordering)
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
	if k.Sums() != order { // who computes meanwhile in that order is not disturbed
		k.SetSums(order)
	}
	return k.Sums().String(), nil
}

// Keep is Choose for an order that is on record: a backend with an order of its own passes it over.
func Keep(b Backend, name string) (string, error) {
	if _, choice := OrderOf(b); !choice {
		name = "auto"
	}
	return Choose(b, name)
}

// Emulates tells whether a backend takes its sums in an order that it has no instructions for, to the same bits.
func Emulates(b Backend) bool {
	o, _ := OrderOf(b)
	return o == Tiles && FastestOrder(b) != Tiles
}

// CheckOrder refuses what is neither auto nor the name of an order.
func CheckOrder(name string) error {
	if _, err := ParseOrder(name); err == nil || name == "auto" {
		return nil
	}
	if name == "pairs" {
		return badinput.Errorf("found pairs, which is how serial takes sums of bf16, to the same bits; expected serial")
	}
	return badinput.Errorf("found %q, expected auto, serial or tiles", name)
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
