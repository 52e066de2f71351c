package cpu

import "github.com/seed-7879b91d/grpo/kernels"

var _ kernels.Ordering = (*backend)(nil)

// Sums is the order that sums of products are taken in.
func (b *backend) Sums() kernels.Order { return b.order }

// SetSums changes it. Matrices lie in memory in the same way for all orders, so that those that are there stay good.
func (b *backend) SetSums(o kernels.Order) { b.order = o }

// Fastest is tiles where there are instructions for them, and no set of kernels was asked for that has none.
func (b *backend) Fastest() kernels.Order {
	if Tiles().Native && (b.named == "" || b.named == "amx") {
		return kernels.Tiles
	}
	return kernels.Serial
}
