package kernels

import "fmt"

// Order is how a backend that leaves the choice takes the sums of a product. Every processor computes every order to the
// same bits; which is fast depends on its instructions.
type Order uint8

const (
	Serial Order = iota // one chain of fused multiply-adds, in ascending order
	Tiles               // with weights in bf16, in blocks of 32 as the tile unit of a processor (AMX) adds them up
)

// Rounded ends the name that a Backend has for its order where it rounds products before it adds them, for want of fused multiply-adds.
const Rounded = ", products rounded"

var orderNames = [...]string{"serial", "tiles"}

func (o Order) String() string { return orderNames[o] }

// ParseOrder finds the order of that name.
func ParseOrder(name string) (Order, error) {
	for o, n := range orderNames {
		if n == name {
			return Order(o), nil
		}
	}
	return 0, fmt.Errorf("order %q is not known; expected one of %q", name, orderNames)
}
