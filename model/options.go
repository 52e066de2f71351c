package model

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
)

// MaskWords is the number of words in a mask over the vocabulary.
func MaskWords(vocab int) int { return kernels.MaskWords(vocab) }

// MostTops is the maximum of Draw.Top.
const MostTops = kernels.MostTops

// output is a result of draws on the backend, with its copy on the host.
type output[E int32 | float32] struct {
	buf   kernels.Buffer
	host  []E
	boxed any
}

// grow allocates n numbers, after releasing the old ones.
func (o *output[E]) grow(b kernels.Backend, t kernels.DType, n int) (err error) {
	if o.buf != nil {
		b.Release(o.buf)
		*o = output[E]{}
	}
	if o.buf, err = b.Alloc(t, n); err != nil {
		return fmt.Errorf("results of %d draws: %w", n, err)
	}
	o.host = kernels.Host[E](b, n)
	o.boxed = o.host
	return nil
}

// fetch queues a download of the first n numbers. They are valid after the next Sync.
func (o *output[E]) fetch(b kernels.Backend, n int) []E {
	b.Fetch(o.boxed, o.buf)
	return o.host[:n]
}

// options are the optional inputs and outputs of draws. Most decoders never use them: each is allocated on first use.
type options struct {
	masked, scored, raws bool // whether the next draws have masks, given tokens, and Raw
	tops                 int  // number of most likely tokens of each

	mask, given input
	raw         output[float32]
	topToken    output[int32]
	topLogP     output[float32]
}

// loadOptions sets the options of the next draws from the rows.
func (d *Decoder) loadOptions(r *Rows) error {
	o, n, words := &d.options, len(r.Draws), MaskWords(d.p.Vocab)
	o.masked, o.scored, o.raws, o.tops = len(r.Masks) > 0, false, r.Raw, 0
	if o.masked && len(r.Masks) != n*words {
		return fmt.Errorf("model: %d words of masks for %d draws, expected %d for each", len(r.Masks), n, words)
	}
	for i, w := range r.Draws {
		switch {
		case w.Row < 0 || w.Row >= len(r.Tokens) || !(w.Uniform >= 0 && w.Uniform < 1) || !(w.InvTemp >= 0):
			return fmt.Errorf("model: draw %d is %+v, expected a row of %d, Uniform in [0, 1) and an InvTemp of at least 0", i, w, len(r.Tokens))
		case w.Top < 0 || w.Top > MostTops:
			return fmt.Errorf("model: draw %d: the %d most likely tokens, expected 0 to %d", i, w.Top, MostTops)
		case w.Given && (w.Target < 0 || int(w.Target) >= d.p.Vocab):
			return fmt.Errorf("model: draw %d: token %d is given, expected 0 to %d", i, w.Target, d.p.Vocab-1)
		}
		o.tops, o.scored = max(o.tops, min(w.Top, d.p.Vocab)), o.scored || w.Given
	}
	o.raws = o.raws || o.tops > 0 || o.scored
	return o.load(d.p.b, r, d.Rows)
}

// load uploads masks and given tokens, and allocates outputs for up to so many draws.
func (o *options) load(b kernels.Backend, r *Rows, rows int) error {
	if o.masked {
		if n := len(r.Masks); o.mask.Buf == nil || len(o.mask.ints) < n {
			if err := o.mask.grow(b, kernels.I32, n); err != nil {
				return err
			}
		}
		words := o.mask.ints[:len(r.Masks)]
		for i, w := range r.Masks {
			words[i] = int32(w)
		}
		b.Upload(o.mask.Buf, words)
	}
	if o.scored {
		if o.given.Buf == nil {
			if err := o.given.grow(b, kernels.I32, rows); err != nil {
				return err
			}
		}
		for i, w := range r.Draws {
			o.given.ints[i] = -1
			if w.Given {
				o.given.ints[i] = w.Target
			}
		}
		b.Upload(o.given.Buf, o.given.boxed)
	}
	if o.raws && o.raw.buf == nil {
		if err := o.raw.grow(b, kernels.F32, rows); err != nil {
			return err
		}
	}
	if n := rows * o.tops; len(o.topToken.host) < n {
		if err := o.topLogP.grow(b, kernels.F32, n); err != nil {
			return err
		}
		return o.topToken.grow(b, kernels.I32, n)
	}
	return nil
}

// ask adds the options to the arguments of Draw.
func (o *options) ask(out *kernels.DrawOut, in *kernels.DrawIn) {
	if o.masked {
		in.Allowed = o.mask.Buf
	}
	if o.scored {
		in.Given = o.given.Buf
	}
	if o.raws {
		out.Raw = o.raw.buf
	}
	if out.Tops = o.tops; o.tops > 0 {
		out.TopToken, out.TopLogP = o.topToken.buf, o.topLogP.buf
	}
}

// fetch queues the download of the optional outputs of n draws.
func (o *options) fetch(b kernels.Backend, n int, drawn *Drawn) {
	if o.raws {
		drawn.Raw = o.raw.fetch(b, n)
	}
	if o.tops > 0 {
		drawn.TopTokens, drawn.TopLogProbs = o.topToken.fetch(b, n*o.tops), o.topLogP.fetch(b, n*o.tops)
	}
}
