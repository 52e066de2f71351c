package footprint

import (
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// What answers beside a run: a few people who look on, not a load.
const (
	besideSequences = 4
	besideLength    = 4096 // tokens
	besideBudget    = 128  // rows of an iteration, which the trainer waits for
	besideAdapters  = 3    // one that is served, and those before that are still read
)

// packed is how many targets of an adapter may be parts of one linear: those that make queries, keys and values.
const packed = 3

// Beside is the size of the sampler that answers while a policy is trained.
func Beside(p *model.Policy) (sampler.Options, error) {
	o := sampler.Options{MaxSequences: besideSequences, MaxLength: min(besideLength, p.MaxPositions), TokenBudget: besideBudget,
		Adapters: besideAdapters, Free: math.MaxInt64}
	plan, err := sampler.NewPlan(p, o)
	o.CacheBytes = plan.CacheBytes
	return o, err
}

// beside adds it, with the adapters that it has room for.
func (r Run) beside(p *Plan, l *kernels.Ledger, policy *model.Policy) error {
	twin, err := policy.Twin()
	if err != nil {
		return err
	}
	o, err := Beside(twin)
	if err != nil {
		return err
	}
	plan, err := sampler.NewPlan(twin, o)
	if err != nil {
		return err
	}
	if _, err := twin.NewDecoder(plan.Decoder()); err != nil {
		return err
	}
	layout, err := AdapterLayout(r.Config, twin.LoRADims())
	if err != nil {
		return err
	}
	for range besideAdapters {
		for _, e := range layout.Entries() {
			if _, err := l.NewMatrix(twin.Options.AdapterPrecision.Trained(), e.Rows, e.Cols); err != nil {
				return err
			}
		}
	}
	bytes, host := l.Take()
	one := kernels.F32.Size() * layout.Len()
	low := kernels.F32.Size() * plan.Decoder().Rows * layout.Config.Rank * packed
	p.add("serve", bytes+low, host+2*one) // one on its way, and one that waits
	p.add("drafts of serve", 0, plan.DraftBytes())
	return nil
}
