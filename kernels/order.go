package kernels

import "fmt"

// Order is the order of the sums in a product, for backends with a choice. Every processor computes every order to the same
// bits; which one is fast depends on its instructions.
type Order uint8

const (
	Serial Order = iota // one chain of fused multiply-adds, in ascending order
	Tiles               // with weights in bf16, in blocks of 32 as the tile unit of a processor (AMX) adds them up
)

// Rounded is the suffix of Backend.Order for a machine without fused multiply-adds, which rounds products before it adds them.
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
