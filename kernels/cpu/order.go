package cpu

import "github.com/seed-7879b91d/grpo/kernels"

var _ kernels.Ordering = (*backend)(nil)

// Sums is the order in which products are summed.
func (b *backend) Sums() kernels.Order { return b.order }

// SetSums changes the order, and with it the variant. Existing matrices stay valid: their layout is the same for all orders and
// variants. The exception is weights of four bits, whose layout is different for vectors of 32 bytes (nf4_bytes.h); so the backend
// does not change between variants with such vectors and others.
func (b *backend) SetSums(o kernels.Order) {
	if o == b.order {
		return
	}
	if v, err := chooseVariant(b.requested, o); err == nil && (v.lanes == 8) == (b.ops.lanes == 8) { // the environment may have changed
		b.ops, b.pairs = v, v.lanes == 16 && pairsPay()
	}
	b.order = o
}

// Fastest is Tiles if the machine has instructions for them and no variant without them was asked for.
func (b *backend) Fastest() kernels.Order {
	if Tiles().Native && (b.requested == "" || b.requested == "amx") {
		return kernels.Tiles
	}
	return kernels.Serial
}
