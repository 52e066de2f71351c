package deferred

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
)

// cacheHandle is a cache that only its owner can reach.
type cacheHandle struct {
	owner *backend
	kernels.Cache
}

func (d *backend) cache(c kernels.Cache) kernels.Cache {
	h, ok := c.(*cacheHandle)
	if !ok || h.owner != d {
		panic(fmt.Sprintf("deferred: %s was given a cache (%T) of another backend", d.Name(), c))
	}
	return h.Cache
}

func (d *backend) CacheBlock() int { return d.b.CacheBlock() }

func (d *backend) NewCache(h kernels.Heads, t kernels.DType, layers, blocks int) (kernels.Cache, error) {
	c, err := d.b.NewCache(h, t, layers, blocks)
	return &cacheHandle{d, c}, err
}

func (d *backend) CopyBlocks(c kernels.Cache, to, from kernels.Buffer, n int) {
	c, to, from = d.cache(c), d.in(to), d.in(from)
	d.enqueue(func() { d.b.CopyBlocks(c, to, from, n) })
}

func (d *backend) PagedAttention(out, qkv kernels.Buffer, c kernels.Cache, layer int, p kernels.Paged, a kernels.Attn, T int) {
	out, qkv, c = d.in(out), d.in(qkv), d.cache(c)
	p.Starts, p.Positions, p.Tables = d.in(p.Starts), d.in(p.Positions), d.in(p.Tables)
	d.enqueue(func() { d.b.PagedAttention(out, qkv, c, layer, p, a, T) })
}

func (d *backend) Gather(out, x, rows kernels.Buffer, width, n int) {
	out, x, rows = d.in(out), d.in(x), d.in(rows)
	d.enqueue(func() { d.b.Gather(out, x, rows, width, n) })
}

func (d *backend) Draw(out kernels.DrawOut, h kernels.Buffer, w kernels.Matrix, in kernels.DrawIn, n int) {
	out.Token, out.LogP, out.Raw = d.in(out.Token), d.in(out.LogP), d.in(out.Raw)
	out.TopToken, out.TopLogP = d.in(out.TopToken), d.in(out.TopLogP)
	h, w = d.in(h), d.matrix(w)
	in.InvTemp, in.Uniform, in.TopK = d.in(in.InvTemp), d.in(in.Uniform), d.in(in.TopK)
	in.TopP, in.MinP = d.in(in.TopP), d.in(in.MinP)
	in.Allowed, in.Given = d.in(in.Allowed), d.in(in.Given)
	d.enqueue(func() { d.b.Draw(out, h, w, in, n) })
}
