package kernels

// CheckNewCache checks SampleOps.NewCache.
func CheckNewCache(h Heads, layers, blocks int) {
	c := checker("NewCache")
	c.heads(h)
	c.size("layers", layers, 1)
	c.size("blocks", blocks, 1)
}

// CheckCopyBlocks checks SampleOps.CopyBlocks.
func CheckCopyBlocks(cache Cache, to, from Buffer, n int) {
	c := checker("CopyBlocks")
	if cache == nil {
		c.fail("the cache is nil")
	}
	c.size("n", n, 0)
	c.buffer("to", to, I32, n)
	c.buffer("from", from, I32, n)
}

// CheckPagedAttention checks SampleOps.PagedAttention.
func CheckPagedAttention(out, qkv Buffer, cache Cache, layer int, p Paged, h Heads, T int) {
	c := checker("PagedAttention")
	if cache == nil {
		c.fail("the cache is nil")
	}
	if layer < 0 || layer >= cache.Layers() {
		c.fail("layer %d of %d", layer, cache.Layers())
	}
	c.spans(Spans{p.Starts, p.N}, h, T)
	c.size("the stride of the tables", p.Stride, 1)
	c.buffer("positions", p.Positions, I32, T)
	c.buffer("tables", p.Tables, I32, p.N*p.Stride)
	c.buffer("out", out, F32, T*h.OutWidth())
	c.buffer("qkv", qkv, F32, T*h.Width())
}

// CheckGather checks SampleOps.Gather. How many rows x has is not known.
func CheckGather(out, x, rows Buffer, width, n int) {
	c := checker("Gather")
	c.size("width", width, 1)
	c.size("n", n, 0)
	c.buffer("out", out, F32, n*width)
	c.buffer("x", x, F32, 0)
	c.buffer("rows", rows, I32, n)
}

// CheckDraw checks SampleOps.Draw.
func CheckDraw(out DrawOut, h Buffer, w Matrix, d DrawIn, n int) {
	c := checker("Draw")
	c.size("n", n, 0)
	c.present("w", w)
	c.buffer("token", out.Token, I32, n)
	c.buffer("logp", out.LogP, F32, n)
	c.buffer("h", h, F32, n*w.Cols())
	c.buffer("inverse temperature", d.InvTemp, F32, n)
	c.buffer("uniform", d.Uniform, F64, n)
	c.buffer("top-k", d.TopK, I32, n)
	c.buffer("top-p", d.TopP, F32, n)
	c.buffer("min-p", d.MinP, F32, n)
}
