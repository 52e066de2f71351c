package main

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// The model and how it is trained.
const (
	vocabulary    = 768
	trainingSteps = 1000
	batch         = 32 // completions a step
	learningRate  = 3e-3
	warmup        = 50

	tokenizerTexts = 8000 // problems that the tokenizer learns from
)

var shapeOfModel = model.Config{
	Architecture: "Qwen3ForCausalLM", Vocab: vocabulary, Hidden: 192, Intermediate: 512, Layers: 4,
	Heads: kernels.Heads{Q: 6, KV: 2, Dim: 32}, Eps: 1e-6, RopeTheta: 1e4, MaxPositions: 2048, TiedHead: true,
}

var adam = optim.Config{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.05, ClipNorm: 1}

const (
	start, end, pad = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
)

// corpus is an endless text of problems with answers. None of its problems is in a set of problems, and no answer of
// it has a program in it that solves a held-out one.
type corpus struct {
	families  []family
	has       map[string]bool
	alike     map[string][]op // for each family
	taken     map[string]bool
	solutions solutions
}

func newCorpus(w world, s *sets) *corpus {
	c := &corpus{families: w.train, has: map[string]bool{}, alike: map[string][]op{}, taken: s.taken, solutions: s.solutions}
	for _, f := range w.train {
		c.has[f.String()], c.alike[f.String()] = true, wordedLike(f)
	}
	return c
}

// example is number i of the corpus.
func (c *corpus) example(i int) (problem, string) {
	rng := rand.New(rand.NewPCG(corpusSeed, uint64(i)))
	for {
		p := pick(rng, c.families).instance(rng)
		answer := c.answer(p, rng)
		if !c.taken[p.statement()] && !c.solutions.in(p.program(p.right())) && !c.solutions.in(answer) {
			return p, answer
		}
	}
}

// all is everything that the tokenizer and so many steps of training see.
func (c *corpus) all(steps int) iter.Seq2[problem, string] {
	return func(yield func(problem, string) bool) {
		for i := -tokenizerTexts; i < steps*batch; i++ {
			if !yield(c.example(i)) {
				return
			}
		}
	}
}

// voice turns a problem and its answer into tokens, as the trainer and the sampler see them.
type voice struct {
	tok      *tokenizer.Tokenizer
	wording  *prompt.Builder
	renderer *chat.Renderer
}

func (v *voice) datum(p problem, answer string) (model.Datum, error) {
	task := p.task()
	messages, err := v.wording.Messages(&task)
	if err != nil {
		return model.Datum{}, err
	}
	tokens, _, err := v.renderer.Prompt(messages)
	if err != nil {
		return model.Datum{}, err
	}
	observed := len(tokens)
	tokens = append(v.tok.AppendText(tokens, answer), v.renderer.Stop()[0])
	return model.NewDatum(tokens, observed, make([]float32, len(tokens)-1), 1), nil
}

// makeModel trains a tokenizer and a model and writes both into dir, in place of what is there.
func makeModel(ctx context.Context, b kernels.Backend, c *corpus, dir, template string, steps int) error {
	wording, err := prompt.Load(template)
	if err != nil {
		return err
	}
	trained, err := tokenizer.Train(func(yield func(string) bool) {
		for p, answer := range c.all(0) {
			task := p.task()
			messages, err := wording.Messages(&task)
			if err != nil || !yield("user\n"+messages[0].Content) || !yield("assistant\n"+answer) {
				return
			}
		}
	}, tokenizer.TrainOptions{
		VocabSize: vocabulary, EOS: end, Pad: pad, ChatTemplate: chat.Template,
		Special: []tokenizer.Special{{Content: pad, Control: true}, {Content: start, Control: true}, {Content: end, Control: true}},
	})
	if err != nil {
		return err
	}
	tok, err := trained.Tokenizer()
	if err != nil {
		return err
	}
	renderer, err := chat.ForModel(tok, chat.Options{})
	if err != nil {
		return err
	}
	p, err := model.New(b, shapeOfModel, modelSeed, model.Options{})
	if err != nil {
		return err
	}
	if err := teach(ctx, b, p, c, &voice{tok, wording, renderer}, steps); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := p.SaveModel(dir); err != nil {
		return err
	}
	if err := trained.Save(dir); err != nil {
		return err
	}
	generation := fmt.Sprintf("{\"eos_token_id\": %d, \"pad_token_id\": %d}\n", renderer.Stop()[0], tok.EOS()[0])
	return atomicfile.WriteBytes(filepath.Join(dir, "generation_config.json"), []byte(generation))
}

// teach is supervised training on all weights.
func teach(ctx context.Context, b kernels.Backend, p *model.Policy, c *corpus, v *voice, steps int) error {
	params, grads, locate := p.Slabs()
	fmt.Printf("%d parameters\n", params.Len())
	opt, err := optim.NewAdam(b, params, grads, adam, locate)
	if err != nil {
		return err
	}
	schedule, err := optim.ParseSchedule("constant", steps, min(warmup, steps-1))
	if err != nil {
		return err
	}
	objective := model.Objective{Loss: kernels.Loss{Kind: kernels.CrossEntropy}, Reduction: model.TokenMean, Temperature: 1}
	began, tokens, loss := time.Now(), 0, 0.0
	for step := 1; step <= steps; step++ {
		var datums []model.Datum
		for i := range batch {
			d, err := v.datum(c.example((step-1)*batch + i))
			if err != nil {
				return err
			}
			datums = append(datums, d)
			tokens += d.Rows()
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
		if step%50 == 0 || step == steps {
			n := (step-1)%50 + 1
			fmt.Printf("step %d of %d  loss %.4f  %.0f tokens/s\n", step, steps, loss/float64(n),
				float64(tokens)/time.Since(began).Seconds())
			loss = 0
		}
	}
	return nil
}
