package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// Size of the vocabulary, and settings of the training.
const (
	vocabulary       = 768
	firstLessonSteps = 700 // at a constant learning rate
	trainingSteps    = 900 // both lessons; in the second the learning rate falls to 0
	batch            = 16  // problems per step, each with several authors' answers
	authors          = 3
	learningRate     = 3e-3

	tokenizerTexts = 8000 // problems for training the tokenizer
)

var shapeOfModel = model.Config{
	Architecture: "Qwen3ForCausalLM", Vocab: vocabulary, Hidden: 192, Intermediate: 512, Layers: 4,
	Heads: kernels.Heads{Q: 6, KV: 2, Dim: 32}, Eps: 1e-6, RopeTheta: 1e4, MaxPositions: 2048, TiedHead: true,
}

var adam = optim.Config{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.05, ClipNorm: 1}

const (
	start, end, pad = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
)

// makeModel trains a tokenizer and a model, and writes both into dir, replacing its content.
func makeModel(ctx context.Context, b kernels.Backend, c *corpus, dir string, steps int) error {
	v, trained, err := newRenderer(c)
	if err != nil {
		return err
	}
	p, err := model.New(b, shapeOfModel, modelSeed, model.Options{})
	if err != nil {
		return err
	}
	first := lesson{steps: steps * firstLessonSteps / trainingSteps, schedule: "constant", warmup: 50}
	if err := first.teach(ctx, b, p, c, v); err != nil {
		return err
	}
	if err := replaceModel(p, dir); err != nil {
		return err
	}
	// The second lesson starts from the weights as saved, with new moments.
	if p, err = model.Open(b, dir, true, model.Options{}); err != nil {
		return err
	}
	second := lesson{from: firstLessonSteps, steps: steps - first.steps, schedule: "linear", warmup: 10}
	if err := second.teach(ctx, b, p, c, v); err != nil {
		return err
	}
	if err := replaceModel(p, dir); err != nil {
		return err
	}
	if err := trained.Save(dir); err != nil {
		return err
	}
	generation := fmt.Sprintf("{\"eos_token_id\": %d, \"pad_token_id\": %d}\n", v.renderer.Stop()[0], v.tok.EOS()[0])
	return atomicfile.WriteBytes(filepath.Join(dir, "generation_config.json"), []byte(generation))
}

// replaceModel removes a folder and writes a model to it.
func replaceModel(p *model.Policy, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return p.SaveModel(dir)
}

// lesson is a range of training steps with a learning rate schedule of its own.
type lesson struct {
	from, steps int
	schedule    string
	warmup      int
}

// teach trains all weights on the examples of the lesson.
func (l lesson) teach(ctx context.Context, b kernels.Backend, p *model.Policy, c *corpus, v *textRenderer) error {
	if l.steps == 0 {
		return nil
	}
	params, grads, locate := p.Slabs()
	fmt.Printf("%d parameters\n", params.Len())
	opt, err := optim.NewAdam(b, params, grads, adam, locate)
	if err != nil {
		return err
	}
	schedule, err := optim.ParseSchedule(l.schedule, l.steps, max(0, min(l.warmup, l.steps-1)))
	if err != nil {
		return err
	}
	p.SharePrefixes = true
	objective := model.Objective{Loss: kernels.Loss{Kind: kernels.CrossEntropy}, Reduction: model.TokenMean, Temperature: 1}
	began, tokens, loss := time.Now(), 0, 0.0
	for step := 1; step <= l.steps; step++ {
		var datums []model.Datum
		for i := range batch {
			p, dialogues := c.example((l.from+step-1)*batch + i)
			for _, d := range dialogues {
				datum, err := v.datum(p, d)
				if err != nil {
					return err
				}
				datums = append(datums, datum)
				tokens += datum.Rows()
			}
		}
		opt.ZeroGrad()
		stats, err := p.Accumulate(ctx, datums, objective)
		if err != nil {
			return err
		}
		if _, err := opt.Step(learningRate * schedule.Factor(step)); err != nil {
			return err
		}
		p.Publish()
		loss += stats.Loss
		if step%50 == 0 || step == l.steps {
			n := (step-1)%50 + 1
			fmt.Printf("step %d of %d  loss %.4f  %.0f tokens/s\n", l.from+step, l.from+l.steps, loss/float64(n),
				float64(tokens)/time.Since(began).Seconds())
			loss = 0
		}
	}
	return nil
}
