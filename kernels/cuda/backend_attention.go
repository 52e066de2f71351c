//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// packed is a batch whose rows lie one behind the other.
func packed(s kernels.Spans) batch {
	b := batch{starts: at(s.Starts), n: s.N}
	if s.Parents != nil {
		b.from = at(s.Parents)
	}
	return b
}

// Attention writes keys and values to a cache that the batch has to itself, and reads them there.
func (b *Backend) Attention(out, lse, qkv kernels.Buffer, s kernels.Spans, h kernels.Heads, kv kernels.DType, T int) {
	cache, ok := b.between(T * cacheRow(h) * kv.Size())
	if !ok {
		return
	}
	p := packed(s)
	b.writeCache(cache, at(qkv), p, h, kv, T)
	t, _ := tileOf(s.N, T, h, kv)
	b.attend(t, attended{out: at(out), lse: at(lse)}, at(qkv), cache, p, h, kv, T)
}
