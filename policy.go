package grpo

import (
	"cmp"
	"context"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// policy is a model and the language that it is spoken to in.
type policy struct {
	*model.Policy
	*sources.Language
	print provenance.Part
	full  bool // all weights are trained, not an adapter
}

// openPolicy opens the model of a run that is replayed with its adapter, and the language.
func openPolicy(ctx context.Context, cfg *configs.Config, b kernels.Backend) (*policy, error) {
	p, err := openLanguage(ctx, cfg)
	if err != nil {
		return nil, err
	}
	o, err := footprint.Replaying(footprint.Run{Config: cfg, Backend: b, Dir: p.Dir, Learns: true})
	if err != nil {
		return nil, err
	}
	return p, p.load(ctx, cfg, b, o, nil)
}

// load opens the model with its adapter, over the weights of one that is open already where there is one.
func (p *policy) load(ctx context.Context, cfg *configs.Config, b kernels.Backend, o model.Options, open *model.Policy) (err error) {
	if open != nil && !p.full {
		p.Policy, err = open.TwinWith(o)
	} else {
		p.Policy, err = model.OpenContext(ctx, b, p.Dir, p.full, o)
	}
	if err != nil || p.full {
		return err
	}
	return p.adapt(cfg)
}

// adapt gives the model the adapter that the run starts from.
func (p *policy) adapt(cfg *configs.Config) error {
	a, err := footprint.Adapter(cfg, p.LoRADims())
	if err != nil {
		return err
	}
	return p.Attach(a)
}

// openLanguage opens the language of a model that is not loaded yet.
func openLanguage(ctx context.Context, cfg *configs.Config) (p *policy, err error) {
	p = &policy{full: cfg.Train == "full"}
	if p.Language, err = sources.OpenLanguage(ctx, cfg); err != nil {
		return p, err
	}
	if err = cmp.Or(footprint.CheckAdapter(cfg, p.Shape.LoRADims()), provenance.CheckWhole(p.Dir)); err == nil { // before the model is loaded
		p.print, err = provenance.OfModel(p.Dir)
	}
	return p, err
}

// prompts puts problems into words and tokens, as the prompts from index first on.
func (p *policy) prompts(ctx context.Context, problems []data.Problem, first int) ([]Prompt, error) {
	prompts := make([]Prompt, len(problems))
	for i := range problems {
		tokens, _, err := p.Prompt(ctx, &problems[i])
		if err != nil {
			return nil, err
		}
		prompts[i] = Prompt{Index: first + i, Problem: problems[i], Tokens: tokens}
	}
	return prompts, nil
}
