package sampler

import (
	"fmt"
	"math"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// UsualSequences is the default of Options.MaxSequences.
const UsualSequences = 64

// Options size an engine. They do not change what is sampled.
type Options struct {
	MaxSequences int // sequences that run at once; 0: 64
	MaxLength    int // tokens of the longest sequence, prompt and completion; 0: 2,048
	TokenBudget  int // rows of one iteration; 0: 512
	Adapters     int // adapters that a Live can serve at once, each request naming its own; 0: all use the one attached to the policy
	// Pace is the time that an iteration of a Live may take while it both decodes and prefills. If decoding alone takes more than
	// half of it, such an iteration may take twice the time of decoding. 0: prefill takes what TokenBudget leaves.
	Pace       time.Duration
	MaxWaiting int // requests of one client of a Live that may wait for their prefill; more are refused; 0: 1,024
	// CacheBytes is the memory of the KV cache; 0: enough for MaxSequences of MaxLength, but at most
	// half of the free memory.
	CacheBytes int64
	// NoDrafts turns speculative decoding off. It never changes what is sampled (see Engine.Drafted).
	NoDrafts bool
	// Free is the free memory, for a plan that is made before other things are allocated; 0: ask the backend.
	Free int64
}

func (o Options) withDefaults() Options {
	if o.MaxSequences == 0 {
		o.MaxSequences = UsualSequences
	}
	if o.MaxLength == 0 {
		o.MaxLength = 2048
	}
	if o.TokenBudget == 0 {
		o.TokenBudget = 512
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = 1024
	}
	return o
}

// free is the free memory, if it is known.
func (o Options) free(p *model.Policy) (bytes int64, known bool) {
	if o.Free != 0 {
		return o.Free, true
	}
	room, known := p.Free()
	return room.Bytes, known
}

// Plan has the sizes of an engine, known before it allocates anything.
type Plan struct {
	Options
	Block      int // positions in one block of the cache
	Blocks     int
	CacheBytes int64
	reach      int // positions that a row attends to, if every layer has a sliding window; 0: all
}

// held is the most blocks that a running sequence holds. If every layer has a sliding window, slide releases those behind it, and this
// is what the rows of one iteration read, rounded to the blocks that attention reads together. (When samples of a prompt start, they
// share all of its blocks.)
func (p Plan) held() int {
	all := p.blocksFor(p.MaxLength)
	if p.reach == 0 {
		return all
	}
	return min(all, p.blocksFor(p.reach+p.TokenBudget)+kernels.BlocksAtOnce)
}

func (p Plan) String() string {
	if p.Blocks == 0 {
		return "KV: none"
	}
	size := fmt.Sprintf("%.2f GiB", float64(p.CacheBytes)/(1<<30))
	if p.CacheBytes < 1<<30 {
		size = fmt.Sprintf("%.1f MiB", float64(p.CacheBytes)/(1<<20))
	}
	return fmt.Sprintf("KV: %s, %s of %d tokens, %d at once at full length",
		size, plural.Of(p.MaxSequences, "sequence"), p.MaxLength, p.Blocks/p.held())
}

// Decoder is the size of the engine's decoder.
func (p Plan) Decoder() model.DecoderSize {
	return model.DecoderSize{
		Blocks: p.Blocks, Rows: max(p.TokenBudget, p.MaxSequences),
		Sequences: 2 * p.MaxSequences, TableStride: p.blocksFor(p.MaxLength),
		Adapters: p.Adapters,
	}
}

// check refuses more sequences or rows than there is memory for beside the cache, before the cache is allocated, which takes long. It
// counts block tables and inputs only, so that it is a lower bound.
func (p Plan) check(policy *model.Policy) error {
	const rowBytes = 8 * 4 // token, position, parameters and results of the draw
	d := p.Decoder()
	least := 4*float64(d.Sequences)*float64(d.TableStride) + rowBytes*float64(d.Rows)
	if free, known := p.free(policy); known && least > float64(free) || least > math.MaxInt64 {
		return badinput.Errorf("sampler: %s at a time with %s an iteration take %.3g GB or more besides the KV cache, but this process may "+
			"take only %s more memory; expected fewer of "+
			"them", plural.Of(p.MaxSequences, "sequence"), plural.Of(d.Rows, "row"), least/1e9, memory.GB(free))
	}
	return nil
}

// NewPlan computes the sizes of an engine for a policy, and refuses a cache that cannot hold one
// sequence.
func NewPlan(p *model.Policy, o Options) (Plan, error) {
	precondition.NotNil("sampler.NewPlan", "p", p)
	o = o.withDefaults()
	if o.MaxSequences < 1 || o.MaxLength < 2 || o.TokenBudget < 1 {
		return Plan{}, badinput.Errorf(
			"sampler: %d sequences of %d tokens, %d rows at a time: expected all of them above 0, and room for two tokens",
			o.MaxSequences, o.MaxLength, o.TokenBudget)
	}
	if o.Adapters < 0 || o.MaxWaiting < 0 || o.Pace < 0 || o.CacheBytes < 0 {
		return Plan{}, badinput.Errorf("sampler: found Adapters %d, MaxWaiting %d, Pace %v and CacheBytes %d, expected none below 0",
			o.Adapters, o.MaxWaiting, o.Pace, o.CacheBytes)
	}
	if o.MaxLength > p.MaxPositions {
		return Plan{}, badinput.Errorf("max_length: found %d, the model has %d positions", o.MaxLength, p.MaxPositions)
	}
	plan := Plan{Options: o, Block: p.CacheBlock(), reach: p.Reach()}
	// One block more than the length: copy-on-write holds a block and its copy at the same time.
	needed := plan.blocksFor(o.MaxLength) + 1
	size := int64(p.BlockBytes())
	want := max(needed, o.MaxSequences*(plan.held()+1))
	free, known := o.free(p)
	switch {
	case o.CacheBytes > 0 && known && o.CacheBytes > free:
		return Plan{}, badinput.Errorf("a KV cache of %s is too large: this process may take only %s more memory",
			memory.GB(o.CacheBytes), memory.GB(free))
	case o.CacheBytes > 0:
		want = int(o.CacheBytes / size)
	case known:
		want = min(want, max(needed, int(free/2/size)))
	}
	if want < needed {
		return Plan{}, badinput.Errorf(
			"a KV cache of %d bytes has %d blocks of %d tokens, but a sequence of %d tokens needs %d; expected at least %d bytes",
			o.CacheBytes, want, plan.Block, o.MaxLength, needed, int64(needed)*size)
	}
	plan.Blocks, plan.CacheBytes = want, int64(want)*size
	return plan, nil
}
