//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// packed is a batch whose rows are contiguous, so that the row of a batch is also its row in the cache.
func packed(s kernels.Spans) batch {
	b := batch{starts: at(s.Starts), n: s.N}
	if s.Parents != nil {
		b.from = at(s.Parents)
	}
	return b
}

// Attention writes the keys and values of the batch to a temporary cache and attends to that, with the kernels of PagedAttention.
func (b *Backend) Attention(out, lse, qkv kernels.Buffer, s kernels.Spans, h kernels.Attn, kv kernels.DType, T int) {
	cache, ok := b.scratchFor(T * cacheRow(h.Heads) * kv.Size())
	if !ok {
		return
	}
	p := packed(s)
	b.writeCache(cache, at(qkv), p, h.Heads, kv, T)
	t, _ := chooseAttentionTile(s.N, T, h.Heads, kv)
	b.attend(t, attentionOutput{out: at(out), lse: at(lse)}, at(qkv), cache, p, h, kv, T)
}

// AttentionGrad writes keys and values to a temporary cache, as Attention does, and queries and gradients of the output beside it. Then
// one kernel computes the gradients of queries, and another those of keys and values.
func (b *Backend) AttentionGrad(dqkv, dout, qkv, out, lse kernels.Buffer, s kernels.Spans, h kernels.Attn, kv kernels.DType, T int) {
	cacheBytes, queryBytes := T*cacheRow(h.Heads)*kv.Size(), 2*T*h.Q*paddedHead(h.Heads)*kv.Size()
	cache, ok := b.scratchFor(cacheBytes + queryBytes + 4*T*(h.Q+1))
	if !ok {
		return
	}
	delta := cache + ptr(cacheBytes+queryBytes)
	g := gradOperands{at(dqkv), cache, cache + ptr(cacheBytes), at(lse), delta, delta + ptr(4*T*h.Q)}
	p := packed(s)
	b.writeCache(cache, at(qkv), p, h.Heads, kv, T)
	b.launch(gradPackName.of(kv), blocks(T*h.Q, threads/32), address(g.queries), address(g.delta), address(g.positions),
		at(qkv), at(dout), at(out), p.starts, p.from, i64(p.n), i64(h.Q), i64(h.KV), i64(h.Dim), f32(h.Factor()), i64(T))
	queries, keys := tileForHead(gradTiles[kv].queries, h.Dim), tileForHead(gradTiles[kv].keys, h.Dim)
	b.grad(gradQueriesName, queries, queries.blocks(s.N, T*(h.Q/h.KV), h.Heads), g, p, h, kv)
	b.grad(gradKeysName, keys, keys.blocks(s.N, T, h.Heads), g, p, h, kv)
}
