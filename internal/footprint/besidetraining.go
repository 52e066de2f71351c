package footprint

import (
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// The size of the server beside a run, which is meant for a few people, not for load.
const (
	besideSequences = 4
	besideLength    = 4096 // tokens
	besideBudget    = 128  // rows of a decoding step, which delays the trainer
	besideAdapters  = 3    // the served one, and earlier ones still in use
)

// packed is how many targets of an adapter may be fused in one linear layer: queries, keys and values.
const packed = 3

// SamplerBesideTraining is the size of the sampler of that server.
func SamplerBesideTraining(p *model.Policy) (sampler.Options, error) {
	o := sampler.Options{MaxSequences: besideSequences, MaxLength: min(besideLength, p.MaxPositions), TokenBudget: besideBudget,
		Adapters: besideAdapters, Free: math.MaxInt64}
	plan, err := sampler.NewPlan(p, o)
	o.CacheBytes = plan.CacheBytes
	return o, err
}

// addServing adds that sampler with its adapters to the plan.
func (r Run) addServing(p *Plan, l *kernels.Ledger, policy *model.Policy) error {
	twin, err := policy.Twin()
	if err != nil {
		return err
	}
	o, err := SamplerBesideTraining(twin)
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
	p.add("serve", bytes+low, host+2*one) // one being copied, and one that waits
	p.add("drafts of serve", 0, plan.DraftBytes())
	return nil
}
