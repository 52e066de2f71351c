package oracle

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// cache holds the keys and values of positions as rows (KV heads | KV heads), block after block, in float32 but rounded to
// the cache's type.
type cache struct {
	heads  kernels.Heads
	t      kernels.DType
	layers [][]float32
	blocks int
}

func (c *cache) Heads() kernels.Heads { return c.heads }
func (c *cache) DType() kernels.DType { return c.t }
func (c *cache) Layers() int          { return len(c.layers) }
func (c *cache) Blocks() int          { return c.blocks }
func (c *cache) Bytes() int           { return 4 * len(c.layers) * len(c.layers[0]) }

func (c *cache) width() int { return 2 * c.heads.KV * c.heads.Dim }

// at are the key and value heads of a position of a sequence with that table.
func (c *cache) at(layer int, table []int32, position int) []float32 {
	slot := int(table[position/cacheBlock])*cacheBlock + position%cacheBlock
	return c.layers[layer][slot*c.width() : (slot+1)*c.width()]
}

func ownCache(k kernels.Cache) *cache {
	c, ok := k.(*cache)
	if !ok {
		panic(fmt.Sprintf("oracle: it was given a %T, expected a cache of its own", k))
	}
	return c
}

// cacheBlock differs from that of every other backend, so that tests cannot rely on theirs.
const cacheBlock = 12

func (reference) CacheBlock() int { return cacheBlock }

func (reference) NewCache(h kernels.Heads, t kernels.DType, layers, blocks int) (kernels.Cache, error) {
	c := &cache{heads: h, t: t, blocks: blocks}
	for range layers {
		c.layers = append(c.layers, make([]float32, blocks*cacheBlock*c.width()))
	}
	return c, nil
}

func (reference) CopyBlocks(k kernels.Cache, to, from kernels.Buffer, n int) {
	c := ownCache(k)
	size := cacheBlock * c.width()
	for i := range n {
		dst, src := int(own[int32](to)[i])*size, int(own[int32](from)[i])*size
		for _, l := range c.layers {
			copy(l[dst:dst+size], l[src:src+size])
		}
	}
}

// eachRow calls f for each row of each run, with its position and its run's table.
func eachRow(p kernels.Paged, f func(t, position int, table []int32)) {
	starts := own[int32](p.Starts)
	for run := range p.N {
		table := own[int32](p.Tables)[run*p.Stride : (run+1)*p.Stride]
		for t := int(starts[run]); t < int(starts[run+1]); t++ {
			f(t, int(own[int32](p.Positions)[t]), table)
		}
	}
}

func (reference) PagedAttention(out, qkv kernels.Buffer, k kernels.Cache, layer int, p kernels.Paged, h kernels.Attn, T int) {
	c := ownCache(k)
	eachRow(p, func(t, position int, table []int32) {
		copy(c.at(layer, table, position), cached(row(qkv, h.Width(), t)[h.Q*h.Dim:], c.t))
	})
	eachRow(p, func(t, position int, table []int32) {
		for head := range h.Q {
			key := head / (h.Q / h.KV) * h.Dim
			value := h.KV*h.Dim + key
			query := row(qkv, h.Width(), t)[head*h.Dim : (head+1)*h.Dim]
			first := firstOf(h, position+1)
			mean, _ := attend(query, h, position+1-first, func(j int) (k, v []float32) {
				both := c.at(layer, table, first+j)
				return both[key : key+h.Dim], both[value : value+h.Dim]
			})
			store(row(out, h.OutWidth(), t)[head*h.Dim:(head+1)*h.Dim], mean)
		}
	})
}

func (reference) Gather(out, x, rows kernels.Buffer, width, n int) {
	for i := range n {
		copy(row(out, width, i), row(x, width, int(own[int32](rows)[i])))
	}
}

func (reference) Draw(out kernels.DrawOut, h kernels.Buffer, w kernels.Matrix, d kernels.DrawIn, n int) {
	m := ownMatrix(w)
	for i := range n {
		invTemp := own[float32](d.InvTemp)[i]
		greedy := invTemp == 0
		if greedy {
			invTemp = 1
		}
		z, whole := scores(row(h, m.cols, i), m, kernels.Logits{InvTemp: invTemp, Cap: d.Cap})
		lse, token := whole, -1
		if d.Given != nil {
			token = int(own[int32](d.Given)[i])
		}
		if token < 0 {
			kept := allowed(z, d.Allowed, i)
			if greedy {
				token = kept[0]
			} else {
				kept = truncate(z, kept, int(own[int32](d.TopK)[i]), float64(own[float32](d.TopP)[i]), float64(own[float32](d.MinP)[i]))
			}
			if len(kept) < len(z) {
				lse = logSum(z, kept)
			}
			if !greedy {
				token = drawn(z, lse, kept, own[float64](d.Uniform)[i])
			}
		}
		own[int32](out.Token)[i], own[float32](out.LogP)[i] = int32(token), float32(z[token]-lse)
		if out.Raw != nil {
			own[float32](out.Raw)[i] = float32(z[token] - whole)
		}
		if out.Tops == 0 {
			continue
		}
		for k, v := range mostLikely(z)[:out.Tops] {
			own[int32](out.TopToken)[i*out.Tops+k], own[float32](out.TopLogP)[i*out.Tops+k] = int32(v), float32(z[v]-whole)
		}
	}
}

// allowed are the tokens that may come after row i, from the most to the least likely.
func allowed(z []float64, masks kernels.Buffer, i int) []int {
	all := mostLikely(z)
	if masks == nil {
		return all
	}
	mask := own[int32](masks)[i*kernels.MaskWords(len(z)):]
	return slices.DeleteFunc(all, func(v int) bool { return uint32(mask[v/32])>>(v%32)&1 == 0 })
}

// drawn is the first of the kept tokens at which their probability, in ascending order of the tokens, passes u.
func drawn(z []float64, lse float64, kept []int, u float64) int {
	sum := 0.0
	for _, v := range kept {
		if sum += math.Exp(z[v] - lse); sum > u {
			return v
		}
	}
	return kept[len(kept)-1]
}

// mostLikely are the tokens from the most to the least likely.
func mostLikely(z []float64) []int {
	order := make([]int, len(z))
	for v := range order {
		order[v] = v
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case z[a] > z[b]:
			return -1
		case z[a] < z[b]:
			return 1
		}
		return a - b
	})
	return order
}

// truncate returns, in ascending order, the tokens that may be drawn, given all from the most to the least likely.
func truncate(z []float64, kept []int, topK int, topP, minP float64) []int {
	if topK > 0 && topK < len(kept) {
		kept = kept[:topK]
	}
	if topP < 1 {
		lse, sum := logSum(z, kept), 0.0
		for i, v := range kept {
			if sum += math.Exp(z[v] - lse); sum >= topP {
				kept = kept[:i+1]
				break
			}
		}
	}
	if minP > 0 {
		top := z[kept[0]]
		kept = slices.DeleteFunc(slices.Clone(kept), func(v int) bool { return math.Exp(z[v]-top) < minP })
	}
	slices.Sort(kept)
	return kept
}

// logSum is the logarithm of the sum of the exponentials of the kept scores.
func logSum(z []float64, kept []int) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range kept {
		top = max(top, z[v])
	}
	for _, v := range kept {
		sum += math.Exp(z[v] - top)
	}
	return top + math.Log(sum)
}
