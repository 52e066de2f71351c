package sampler

import (
	"context"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Options size an engine. They change no result.
type Options struct {
	MaxSequences int // completions at work at a time; 0: 64
	MaxLength    int // tokens of the longest sequence, prompt and completion; 0: 2,048
	TokenBudget  int // rows of one iteration; 0: 512
	// CacheBytes is the memory for keys and values; 0: what MaxSequences of MaxLength take, but no
	// more than half of what is free.
	CacheBytes int64
}

func (o Options) withDefaults() Options {
	if o.MaxSequences == 0 {
		o.MaxSequences = 64
	}
	if o.MaxLength == 0 {
		o.MaxLength = 2048
	}
	if o.TokenBudget == 0 {
		o.TokenBudget = 512
	}
	return o
}

// Plan is what an engine will hold, known before it starts.
type Plan struct {
	Options
	Blocks     int
	CacheBytes int64
}

func (p Plan) String() string {
	return fmt.Sprintf("KV: %.2f GiB, %d sequences of %d tokens, %d at once at full length", float64(p.CacheBytes)/(1<<30),
		p.MaxSequences, p.MaxLength, p.Blocks/blocksFor(p.MaxLength))
}

// NewPlan computes the sizes of an engine for a model, and refuses a cache that cannot hold one
// sequence.
func NewPlan(c model.Config, o Options) (Plan, error) {
	o = o.withDefaults()
	if o.MaxSequences < 1 || o.MaxLength < 2 || o.TokenBudget < 1 {
		return Plan{}, badinput.Errorf("sampler: %d sequences of %d tokens, %d rows at a time: expected all of them above 0, and room for two tokens", o.MaxSequences, o.MaxLength, o.TokenBudget)
	}
	if o.MaxLength > c.MaxPositions {
		return Plan{}, badinput.Errorf("max_length: found %d, the model has %d positions", o.MaxLength, c.MaxPositions)
	}
	// A sequence may hold one block more than its length: the copy of a block that it shares.
	needed := blocksFor(o.MaxLength) + 1
	size := int64(c.BlockBytes())
	want := o.MaxSequences * needed
	if o.CacheBytes > 0 {
		want = int(o.CacheBytes / size)
	} else if free := freeMemory(); free > 0 {
		want = min(want, max(needed, int(free/2/size)))
	}
	if want < needed {
		return Plan{}, badinput.Errorf("a cache of %d bytes has %d blocks of %d tokens; one sequence of %d tokens needs %d: expected at least %d bytes",
			o.CacheBytes, want, kernels.CacheBlock, o.MaxLength, needed, int64(needed)*size)
	}
	return Plan{Options: o, Blocks: want, CacheBytes: int64(want) * size}, nil
}

// Engine samples from a policy, with the adapter that it has at each iteration. It is not safe for
// concurrent use.
type Engine struct {
	Plan
	cfg     model.Config
	decoder *model.Decoder
	blocks  *blocks

	// Preempted counts the times that a sample gave up its blocks and was computed again.
	Preempted int
}

// New makes an engine for a policy, as NewPlan says.
func New(p *model.Policy, o Options) (*Engine, error) {
	plan, err := NewPlan(p.Config, o)
	if err != nil {
		return nil, err
	}
	e := &Engine{Plan: plan, cfg: p.Config, blocks: newBlocks(plan.Blocks)}
	e.decoder, err = p.NewDecoder(model.DecoderSize{
		Blocks: plan.Blocks, Rows: max(plan.TokenBudget, plan.MaxSequences),
		Sequences: 2 * plan.MaxSequences, TableStride: blocksFor(plan.MaxLength),
	})
	return e, err
}

// FreeBlocks is how many blocks nobody uses: all of them between two calls of Sample.
func (e *Engine) FreeBlocks() int { return len(e.blocks.free) }

// Events tell of a run while it goes on; both may be nil. They are called by the goroutine that samples,
// so they should return soon.
type Events struct {
	Token func(request, sample int, token int32)
	Done  func(Rollout) // in the order in which completions end
}

// Sample draws every completion of the requests. The rollouts come in the order of the requests and
// their samples. On an error, or when the context ends, nothing is left in the cache.
func (e *Engine) Sample(ctx context.Context, requests []Request, on Events) ([]Rollout, error) {
	for i, r := range requests {
		if err := r.check(e.cfg, e.MaxLength); err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
	}
	w := newWork(e, requests, on)
	defer w.release()
	for w.open > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.compose()
		tokens, logps, err := e.decoder.Run(&w.rows)
		if err != nil {
			return nil, err
		}
		w.absorb(tokens, logps)
	}
	return w.rollouts, nil
}
