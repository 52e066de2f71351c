package kernels

func (k *checked) CacheBlock() int { return k.b.CacheBlock() }

func (k *checked) NewCache(h Heads, t DType, layers, blocks int) (Cache, error) {
	c := k.call("NewCache")
	c.heads(h)
	c.cached(t)
	c.size("layers", layers, 1)
	c.size("blocks", blocks, 1)
	return k.b.NewCache(h, t, layers, blocks)
}

func (c checker) cache(cache Cache) {
	if cache == nil {
		c.fail("the cache is nil")
	}
}

func (k *checked) CopyBlocks(cache Cache, to, from Buffer, n int) {
	c := k.call("CopyBlocks")
	c.cache(cache)
	c.size("n", n, 0)
	c.i32("to", to, n)
	c.i32("from", from, n)
	k.b.CopyBlocks(cache, to, from, n)
}

func (k *checked) PagedAttention(out, qkv Buffer, cache Cache, layer int, p Paged, a Attn, T int) {
	c := k.call("PagedAttention")
	c.cache(cache)
	if layer < 0 || layer >= cache.Layers() {
		c.fail("layer %d of %d", layer, cache.Layers())
	}
	c.spans(Spans{Starts: p.Starts, N: p.N}, a, T)
	if made := cache.Heads(); a.Heads != made {
		c.fail("heads are %+v, those of the cache %+v", a.Heads, made)
	}
	c.size("the stride of the tables", p.Stride, 1)
	c.i32("positions", p.Positions, T)
	c.i32("tables", p.Tables, p.N*p.Stride)
	c.f32("out", out, T*a.OutWidth())
	c.f32("qkv", qkv, T*a.Width())
	k.b.PagedAttention(out, qkv, cache, layer, p, a, T)
}

// Gather: how many rows x has is not known.
func (k *checked) Gather(out, x, rows Buffer, width, n int) {
	c := k.call("Gather")
	c.size("width", width, 1)
	c.size("n", n, 0)
	c.f32("out", out, n*width)
	c.f32("x", x, 0)
	c.i32("rows", rows, n)
	k.b.Gather(out, x, rows, width, n)
}

func (k *checked) Draw(out DrawOut, h Buffer, w Matrix, d DrawIn, n int) {
	c := k.call("Draw")
	c.size("n", n, 0)
	c.cap(d.Cap)
	c.matrix("w", w)
	c.i32("token", out.Token, n)
	c.f32("logp", out.LogP, n)
	c.f32("h", h, n*w.Cols())
	c.f32("inverse temperature", d.InvTemp, n)
	c.f64("uniform", d.Uniform, n)
	c.i32("top-k", d.TopK, n)
	c.f32("top-p", d.TopP, n)
	c.f32("min-p", d.MinP, n)
	if d.Allowed != nil {
		c.i32("allowed", d.Allowed, n*MaskWords(w.Rows()))
	}
	if d.Given != nil {
		c.i32("given", d.Given, n)
	}
	if out.Raw != nil {
		c.f32("raw", out.Raw, n)
	}
	c.size("the number of top tokens", out.Tops, 0)
	if most := min(MostTops, w.Rows()); out.Tops > most {
		c.fail("the number of top tokens is %d, expected at most %d", out.Tops, most)
	}
	if out.Tops > 0 {
		c.i32("top tokens", out.TopToken, n*out.Tops)
		c.f32("top logp", out.TopLogP, n*out.Tops)
	}
	k.b.Draw(out, h, w, d, n)
}
