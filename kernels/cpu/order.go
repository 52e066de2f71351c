package cpu

import "github.com/seed-7879b91d/grpo/kernels"

var _ kernels.Ordering = (*backend)(nil)

// Sums is the order that sums of products are taken in.
func (b *backend) Sums() kernels.Order { return b.order }

// SetSums changes it, and with it what computes. Matrices lie in memory in the same way for all orders, so that those that are
// there stay good; and for all variants, but that weights of four bits lie otherwise where vectors have 32 bytes (nf4_bytes.h):
// between those and others nothing changes.
func (b *backend) SetSums(o kernels.Order) {
	if o == b.order {
		return
	}
	if v, err := chooseVariant(b.named, o); err == nil && (v.lanes == 8) == (b.ops.lanes == 8) { // as it was when the backend was opened
		b.ops, b.pairs = v, v.lanes == 16 && pairsPay()
	}
	b.order = o
}

// Fastest is tiles where there are instructions for them, and no set of kernels was asked for that has none.
func (b *backend) Fastest() kernels.Order {
	if Tiles().Native && (b.named == "" || b.named == "amx") {
		return kernels.Tiles
	}
	return kernels.Serial
}
