package grpo

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

// policy is a model and the language that it is spoken to in.
type policy struct {
	*model.Policy
	dir       string // of the model
	print     provenance.Part
	base      string // what names the base in what is saved
	full      bool   // all weights are trained, not an adapter
	tokenizer *tokenizer.Tokenizer
	renderer  *chat.Renderer
	wording   *prompt.Builder
	stops     []int32 // tokens that end a completion
}

// openPolicy opens the model of a run with its adapter, and the language.
func openPolicy(ctx context.Context, cfg *configs.Config, b kernels.Backend) (*policy, error) {
	dir, err := sources.ModelDir(ctx, cfg.Model)
	if err != nil {
		return nil, err
	}
	p := &policy{dir: dir, base: dir, full: cfg.Train == "full"}
	if p.print, err = provenance.OfModel(dir); err != nil {
		return nil, err
	}
	o := model.Options{MaxRows: cfg.MaxRows}
	if o.Precision, err = model.ParsePrecision(cfg.Precision); err != nil {
		return nil, badinput.Errorf("precision: %w", err)
	}
	if cfg.Recompute == "blocks" {
		o.Recompute = model.RecomputeBlocks
	}
	if p.Policy, err = model.Open(b, dir, p.full, o); err != nil {
		return nil, err
	}
	if !p.full {
		if err := p.adapt(cfg); err != nil {
			return nil, err
		}
		// Adapters name a base that was downloaded as the Hub does, and not after our copy of it. What is
		// trained as a whole takes its other files from the copy.
		if cfg.Model != sources.Embedded && cfg.Model != dir {
			p.base, _, _ = strings.Cut(cfg.Model, "@")
		}
	}
	return p, p.openLanguage(cfg, dir)
}

// adapt gives the model the adapter that the run starts from.
func (p *policy) adapt(cfg *configs.Config) error {
	targets, err := lora.ParseTargets(cfg.LoRATargets)
	if err != nil {
		return err
	}
	c := lora.Config{Rank: cfg.LoRARank, Alpha: cfg.LoRAAlpha, Targets: targets}
	layout, err := lora.NewLayout(c, p.LoRADims())
	if err != nil {
		return err
	}
	a := lora.New(layout)
	if cfg.Adapter == "" {
		a.Init(cfg.Seed)
		return p.Attach(a)
	}
	given, err := lora.Load(cfg.Adapter, p.LoRADims())
	if err != nil {
		return err
	}
	if given.Len() != a.Len() || given.Scale() != a.Scale() {
		return badinput.Errorf("adapter %s has rank %d, alpha %v and targets %v; the configuration says rank %d, alpha %v and targets %v",
			cfg.Adapter, given.Config.Rank, given.Config.Alpha, given.Config.Targets, c.Rank, c.Alpha, layout.Config.Targets)
	}
	return p.Attach(given)
}

// openLanguage opens the tokenizer, the chat format and the wording.
func (p *policy) openLanguage(cfg *configs.Config, dir string) (err error) {
	if p.tokenizer, err = tokenizer.Load(dir); err != nil {
		return err
	}
	if cfg.Renderer == "auto" {
		p.renderer, err = chat.ForModel(p.tokenizer)
	} else {
		p.renderer, err = chat.New(cfg.Renderer, p.tokenizer)
	}
	if err != nil {
		return err
	}
	if p.wording, err = sources.Wording(cfg); err != nil {
		return err
	}
	p.stops, err = tokenizer.StopTokens(dir, p.tokenizer, p.renderer.Stop()...)
	return err
}

// prompts puts problems into words and tokens, as the prompts from index first on.
func (p *policy) prompts(problems []data.Problem, first int) ([]Prompt, error) {
	prompts := make([]Prompt, len(problems))
	for i := range problems {
		messages, err := p.wording.Messages(&problems[i])
		if err != nil {
			return nil, fmt.Errorf("problem %s: prompt: %w", problems[i].ID, err)
		}
		tokens, _, err := p.renderer.Prompt(messages)
		if err != nil {
			return nil, fmt.Errorf("problem %s: render: %w", problems[i].ID, err)
		}
		prompts[i] = Prompt{Index: first + i, Problem: problems[i], Tokens: tokens}
	}
	return prompts, nil
}

// text is the prompt of a problem as the model's chat format has it.
func (p *policy) text(problem *data.Problem) (string, error) {
	messages, err := p.wording.Messages(problem)
	if err != nil {
		return "", err
	}
	_, text, err := p.renderer.Prompt(messages)
	return text, err
}
