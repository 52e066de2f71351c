package model

import (
	"cmp"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Decoder computes the next rows of many sequences, whose earlier keys and values are in a paged KV cache. Prefill and decoding are the
// same to it. It runs the same kernels as training: a token's log-probability equals Score's, bit for bit.
type Decoder struct {
	DecoderSize

	p      *Policy
	cache  kernels.Cache
	prog   *program.Program
	in     inputs
	table  input // I32 [Sequences × TableStride]: block tables
	served int   // number of adapters that are served
	pick   input // I32 [Rows]: the rows to draw from

	invTemp, topP, minP input // F32 [Rows], of each draw
	topK                input // I32 [Rows]
	uniform             kernels.Buffer
	uniforms            []float64
	uniformsAny         any // uniforms, boxed once: a run allocates nothing

	token output[int32]
	logp  output[float32]
	options
}

// DecoderSize has the sizes of a decoder.
type DecoderSize struct {
	Blocks      int // of the backend's CacheBlock positions in the cache
	Rows        int // of one run
	Sequences   int // of one run
	TableStride int // blocks of the longest sequence
	// Adapters is the number of adapters that the decoder can serve at once (Serve). 0: it uses the one attached to the policy.
	Adapters int
}

// Rows is the input of one run of a decoder. Rows Starts[i] up to Starts[i+1] are consecutive positions of sequence i.
type Rows struct {
	Tokens, Positions []int32
	Starts            []int32 // [sequences + 1]
	Tables            []int32 // [sequences × TableStride]: block tables
	// Adapters has the adapter of each sequence, nil for the base model; empty: all use the base model. Neighbours with the same
	// adapter share its products.
	Adapters []*Served
	Draws    []Draw
	// Masks is empty, or has MaskWords words for each draw: token t is allowed if bit t%32 of word t/32 is set.
	Masks []uint32
	Raw   bool // fill in Drawn.Raw
}

// Reset empties the rows and keeps their memory.
func (r *Rows) Reset() {
	r.Tokens, r.Positions, r.Tables, r.Draws = r.Tokens[:0], r.Positions[:0], r.Tables[:0], r.Draws[:0]
	clear(r.Adapters) // so that withdrawn ones can be collected
	r.Adapters, r.Masks, r.Raw = r.Adapters[:0], r.Masks[:0], false
	r.Starts = append(r.Starts[:0], 0)
}

// Draw asks for the token after a row; a row may have several draws.
type Draw struct {
	Row     int
	Uniform float64 // the random number, in [0, 1)
	InvTemp float32 // 1/temperature; 0: greedy
	TopK    int32   // 0: all
	TopP    float32 // 1: all; 0: only the most likely
	MinP    float32 // 0: all

	Top    int  // number of most likely tokens to return
	Given  bool // score Target instead of drawing
	Target int32
}

// CacheBlock is the number of positions in one block of a decoder's KV cache.
func (p *Policy) CacheBlock() int { return p.b.CacheBlock() }

// BlockBytes is the memory of one block in all layers.
func (p *Policy) BlockBytes() int {
	return p.Layers * 2 * p.Heads.KV * p.Heads.Dim * p.CacheBlock() * p.Cache.Cached().Size()
}

// Free is the memory that the backend has left; false if unknown.
func (p *Policy) Free() (kernels.Room, bool) { return p.b.Free() }

// NewDecoder allocates the KV cache and compiles the program. The decoder uses the adapter that is attached now, with its current
// weights in each run; with size.Adapters it uses the base model and the adapters of Serve instead.
func (p *Policy) NewDecoder(size DecoderSize) (*Decoder, error) {
	d := &Decoder{DecoderSize: size, p: p}
	var err error
	if d.cache, err = p.b.NewCache(p.Heads, p.Cache.Cached(), p.Layers, size.Blocks); err != nil {
		return nil, fmt.Errorf("cache of %d blocks: %w", size.Blocks, err)
	}
	if err := d.allocate(); err != nil {
		return nil, err
	}
	b := p.builder(&d.in)
	b.cache, b.serving = d.cache, size.Adapters > 0
	g, err := b.decoding(&d.pick)
	if err != nil {
		return nil, err
	}
	d.prog, err = program.Compile(p.b, g, size.Rows, RecomputeCheap)
	return d, err
}

func (d *Decoder) allocate() (err error) {
	b := d.p.b
	for _, in := range []*input{&d.in.tokens, &d.in.positions, &d.pick, &d.topK} {
		if err := in.grow(b, kernels.I32, d.Rows); err != nil {
			return err
		}
	}
	if err := d.in.starts.grow(b, kernels.I32, d.Rows+1); err != nil {
		return err
	}
	if err := d.table.grow(b, kernels.I32, d.Sequences*d.TableStride); err != nil {
		return err
	}
	for _, in := range []*input{&d.invTemp, &d.topP, &d.minP} {
		if err := in.grow(b, kernels.F32, d.Rows); err != nil {
			return err
		}
	}
	if d.uniform, err = b.Alloc(kernels.F64, d.Rows); err != nil {
		return err
	}
	d.uniforms = kernels.Host[float64](b, d.Rows)
	d.uniformsAny = d.uniforms
	return cmp.Or(d.token.grow(b, kernels.I32, d.Rows), d.logp.grow(b, kernels.F32, d.Rows))
}

// Drawn has the results of a run, one element for each draw.
type Drawn struct {
	Tokens   []int32
	LogProbs []float32 // under the distribution that was drawn from; of a given token the same as Raw
	// Raw is the log-probability under the whole distribution, ignoring masks, top-k, top-p and min-p, at the draw's temperature (1 if
	// greedy): what Score returns. Nil unless a draw has Top or Given, or Rows.Raw is set.
	Raw []float32
	// TopTokens are the most likely tokens of the whole distribution in descending order, and TopLogProbs their log-probabilities: for
	// each draw as many as the largest Top of all draws, at most the vocabulary.
	TopTokens   []int32
	TopLogProbs []float32
}

// Run computes the rows and the draws. The results are valid until the next run.
func (d *Decoder) Run(r *Rows) (Drawn, error) {
	n, b := len(r.Draws), d.p.b
	if len(r.Tokens) > d.DecoderSize.Rows || n > d.DecoderSize.Rows || len(r.Starts) > d.Sequences+1 {
		return Drawn{}, fmt.Errorf("model: %d rows of %d sequences with %d draws for a decoder of %+v",
			len(r.Tokens), len(r.Starts)-1, n, d.DecoderSize)
	}
	if err := cmp.Or(d.loadAdapters(r), d.loadOptions(r)); err != nil {
		return Drawn{}, err
	}
	kernels.SetOrder(b, d.p.order)
	d.in.tokens.loadInts(b, r.Tokens)
	d.in.positions.loadInts(b, r.Positions)
	d.in.starts.loadInts(b, r.Starts)
	d.table.loadInts(b, r.Tables)
	d.loadDraws(r.Draws)
	d.in.run.Draws = n
	d.in.run.Paged = kernels.Paged{
		Starts: d.in.starts.Buf, Positions: d.in.positions.Buf, Tables: d.table.Buf, N: len(r.Starts) - 1, Stride: d.TableStride,
	}
	d.prog.T = len(r.Tokens)
	if err := d.prog.RunAll(); err != nil {
		return Drawn{}, err
	}
	if n == 0 {
		return Drawn{}, b.Sync()
	}
	return d.draw(n)
}

// draw queues the draws of the run, and waits for them.
func (d *Decoder) draw(n int) (Drawn, error) {
	b, head := d.p.b, d.p.weights.operands[d.p.HeadSlot()].Mat
	out := kernels.DrawOut{Token: d.token.buf, LogP: d.logp.buf}
	in := kernels.DrawIn{
		Cap: d.p.LogitCap, InvTemp: d.invTemp.Buf, Uniform: d.uniform, TopK: d.topK.Buf, TopP: d.topP.Buf, MinP: d.minP.Buf,
	}
	d.options.ask(&out, &in)
	b.Draw(out, d.prog.Outputs[outResult].Buf, head, in, n)
	drawn := Drawn{Tokens: d.token.fetch(b, n)}
	d.options.fetch(b, n, &drawn)
	drawn.LogProbs = d.logp.fetch(b, n)
	return drawn, b.Sync()
}

func (d *Decoder) loadDraws(draws []Draw) {
	for i, w := range draws {
		d.pick.ints[i], d.topK.ints[i] = int32(w.Row), w.TopK
		d.invTemp.floats[i], d.topP.floats[i], d.minP.floats[i] = w.InvTemp, w.TopP, w.MinP
		d.uniforms[i] = w.Uniform
	}
	b := d.p.b
	for _, in := range []*input{&d.pick, &d.topK, &d.invTemp, &d.topP, &d.minP} {
		b.Upload(in.Buf, in.boxed)
	}
	b.Upload(d.uniform, d.uniformsAny)
}

// CopyBlocks copies cache blocks from[i] to to[i] before the next run.
func (d *Decoder) CopyBlocks(to, from []int32) {
	precondition.InRange("model.Decoder.CopyBlocks", "the length of from", len(from), len(to), len(to))
	if len(to) == 0 {
		return
	}
	// pick and topK serve as buffers for the block numbers: the next run overwrites both anyway.
	b := d.p.b
	for at := 0; at < len(to); at += d.DecoderSize.Rows {
		n := min(d.DecoderSize.Rows, len(to)-at)
		d.pick.loadInts(b, to[at:at+n])
		d.topK.loadInts(b, from[at:at+n])
		b.CopyBlocks(d.cache, d.pick.Buf, d.topK.Buf, n)
	}
}
