package lora

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// leastKept is the share of an adapter that must survive the rounding of the merged weights.
const leastKept = 0.1

// CheckMerge checks that mergedDir is the model in modelDir with the adapter merged: adapted weights must be within half
// a unit in the last place of W + scale·B·A, all others must be equal. It finds weights by the names of tensors, and
// shares no code with Merge except for reading files and checking that the adapter fits the model. kept is the share of
// the adapter that is left after rounding: near 1, and less if the adapter is so small that most weights round back to
// their old values. A merge that lost nearly all of its adapter is an error, too.
func CheckMerge(modelDir string, a *Adapter, mergedDir string) (kept float64, err error) {
	precondition.NotNil("lora.CheckMerge", "a", a)
	return CheckMergeContext(context.Background(), modelDir, a, mergedDir)
}

// CheckMergeContext is CheckMerge that stops with the error of ctx when ctx is done.
func CheckMergeContext(ctx context.Context, modelDir string, a *Adapter, mergedDir string) (kept float64, err error) {
	precondition.NotNil("lora.CheckMergeContext", "ctx", ctx, "a", a)
	before, err := tensorfile.OpenModel(modelDir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, before.Close()) }()
	after, err := tensorfile.OpenModel(mergedDir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, after.Close()) }()
	if err := a.fits(before); err != nil {
		return 0, err
	}
	if !slices.Equal(before.Names(), after.Names()) {
		return 0, fmt.Errorf("%s has other tensors than %s", mergedDir, modelDir)
	}
	var all projection
	for _, name := range before.Names() {
		if o, ok := before.Other(name); ok {
			if m, _ := after.Other(name); !reflect.DeepEqual(o, m) {
				return 0, fmt.Errorf("%s: it differs in the merged model, though it is no weight that the adapter changes", name)
			}
			continue
		}
		w, err := before.Tensor(name)
		if err != nil {
			return 0, err
		}
		m, err := after.Tensor(name, w.Shape...)
		if err != nil {
			return 0, err
		}
		p, err := a.checkTensor(ctx, w, m)
		if err != nil {
			return 0, err
		}
		all.add(p)
		before.Release(name)
		after.Release(name)
	}
	kept = all.share()
	if kept < leastKept {
		return kept, badinput.Errorf("only %.0f %% of the adapter's change is left after rounding to the number format of the weights; keep "+
			"it as an adapter, or merge it into a model in F32", 100*kept)
	}
	return kept, nil
}

// projection measures how much of the wanted change happened: it has the sums of wanted·happened and of wanted².
type projection struct{ happened, wanted float64 }

func (p *projection) add(q projection) {
	p.happened, p.wanted = p.happened+q.happened, p.wanted+q.wanted
}

func (p *projection) share() float64 {
	if p.wanted == 0 {
		return 1 // nothing was wanted
	}
	return p.happened / p.wanted
}

// checkTensor compares one weight before and after.
func (a *Adapter) checkTensor(ctx context.Context, w, m tensorfile.Tensor) (projection, error) {
	if m.Encoding != w.Encoding {
		return projection{}, fmt.Errorf("%s: the merged weight has another encoding", w.Name)
	}
	pair := [2][]float32{}
	for _, e := range a.Entries() {
		if e.Name == "base_model.model."+strings.TrimSuffix(w.Name, ".weight")+"."+e.Side.String()+".weight" {
			pair[e.Side] = a.Of(e)
		}
	}
	if pair[A] == nil {
		if !bytes.Equal(w.Bytes, m.Bytes) {
			return projection{}, fmt.Errorf("%s: the weight differs in the merged model, though the adapter does not change it", w.Name)
		}
		return projection{}, ctx.Err()
	}
	rows, cols := w.Shape[0], w.Shape[1]
	var sum projection
	var failed error
	var lock sync.Mutex
	var wg sync.WaitGroup
	for worker := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			c := checker{w: w, m: m, before: make([]float32, cols), after: make([]float32, cols),
				change: make([]float64, cols), size: make([]float64, cols)}
			for row := worker; row < rows && c.err == nil; row += runtime.GOMAXPROCS(0) {
				if c.err = ctx.Err(); c.err == nil {
					c.row(row, a.Config, pair[A], pair[B])
				}
			}
			lock.Lock()
			defer lock.Unlock()
			sum.add(c.projection)
			if c.err != nil {
				failed = c.err
			}
		})
	}
	wg.Wait()
	return sum, failed
}

// checker is the working space of one core.
type checker struct {
	projection
	w, m          tensorfile.Tensor
	before, after []float32
	change, size  []float64 // scale·B·A of the row, and the sum of the magnitudes of its terms
	err           error
}

// row compares one row of a weight.
func (c *checker) row(i int, of Config, a, b []float32) {
	cols := len(c.before)
	from, to := i*cols*c.w.Encoding.Size(), (i+1)*cols*c.w.Encoding.Size()
	tensorfile.Widen(c.before, c.w.Encoding, c.w.Bytes[from:to])
	tensorfile.Widen(c.after, c.m.Encoding, c.m.Bytes[from:to])
	clear(c.change)
	clear(c.size)
	scale := of.Alpha / float64(of.Rank)
	for r := range of.Rank {
		factor := scale * float64(b[i*of.Rank+r])
		for j, x := range a[r*cols : (r+1)*cols] {
			term := factor * float64(x)
			c.change[j] += term
			c.size[j] += math.Abs(term)
		}
	}
	for j, change := range c.change {
		want := float64(c.before[j]) + change
		// Sums in double precision may differ in their last bits, by far less than half a unit of a weight.
		slack := 1e-12 * (math.Abs(float64(c.before[j])) + c.size[j])
		if off := math.Abs(float64(c.after[j]) - want); !(off <= halfUnit(want, c.w.Encoding)+slack) {
			c.err = fmt.Errorf("%s: row %d, column %d is %v in the merged model; %v with %+.3g of the adapter make %v",
				c.w.Name, i, j, c.after[j], c.before[j], change, want)
			return
		}
		c.happened += (float64(c.after[j]) - float64(c.before[j])) * change
		c.wanted += change * change
	}
}

// halfUnit is the largest rounding error of a number in an encoding.
func halfUnit(x float64, e kernels.Encoding) float64 {
	digits, smallest := 24, -126
	switch e {
	case kernels.EncodedBF16:
		digits = 8
	case kernels.EncodedF16:
		digits, smallest = 11, -14
	}
	exponent := smallest
	if x != 0 {
		exponent = max(math.Ilogb(x), smallest)
	}
	return math.Ldexp(1, exponent-digits)
}
