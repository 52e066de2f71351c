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

// policy is a model with its tokenizer, chat template and prompt wording.
type policy struct {
	*model.Policy
	*sources.Language
	print provenance.Part // the model's fingerprint
	full  bool            // all weights are trained, not an adapter
}

// openPolicy opens model, adapter and language of a run that is replayed.
func openPolicy(ctx context.Context, cfg *configs.Config, b kernels.Backend) (*policy, error) {
	p, err := openLanguage(ctx, cfg)
	if err != nil {
		return nil, err
	}
	o, err := footprint.ReplayOptions(footprint.Run{Config: cfg, Backend: b, Dir: p.Dir, Trains: true})
	if err != nil {
		return nil, err
	}
	return p, p.load(ctx, cfg, b, o, nil)
}

// load opens the model with its adapter, sharing the frozen weights of open unless that is nil.
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

// adapt attaches the adapter that the run starts from.
func (p *policy) adapt(cfg *configs.Config) error {
	a, err := footprint.Adapter(cfg, p.LoRADims())
	if err != nil {
		return err
	}
	return p.Attach(a)
}

// openLanguage opens the language of a model and checks the model's files, without loading its weights.
func openLanguage(ctx context.Context, cfg *configs.Config) (p *policy, err error) {
	p = &policy{full: cfg.Train == "full"}
	if p.Language, err = sources.OpenLanguage(ctx, cfg); err != nil {
		return p, err
	}
	if err = cmp.Or(footprint.CheckAdapter(cfg, p.Shape.LoRADims()), provenance.CheckIntact(p.Dir)); err == nil { // before the model is loaded
		p.print, err = provenance.FingerprintModel(p.Dir)
	}
	return p, err
}

// prompts renders and tokenizes problems, as the prompts from index first on.
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
