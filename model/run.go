package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/asked"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Score computes log p(s[i+1] | s[..i]) at a temperature for every token but the first of each sequence.
func (p *Policy) Score(ctx context.Context, sequences [][]int32, temperature float32) ([][]float32, error) {
	asked := make([]Datum, len(sequences))
	for i, s := range sequences {
		if err := p.CheckSequence(s); err != nil {
			return nil, fmt.Errorf("sequence %d: %w", i, err)
		}
		asked[i] = Datum{Tokens: s[:len(s)-1], Targets: s[1:]} // no mask: all rows are scored
	}
	return p.score(ctx, asked, temperature, nil)
}

// ScoreTargets computes log p(target | tokens up to its row) for every row of the datums, masked ones included.
func (p *Policy) ScoreTargets(ctx context.Context, datums []Datum, temperature float32) ([][]float32, error) {
	asked := slices.Clone(datums)
	for i := range asked {
		asked[i].Mask = slices.Repeat([]bool{true}, asked[i].Rows())
		if err := asked[i].Check(p.Config); err != nil {
			return nil, fmt.Errorf("datum %d: %w", i, err)
		}
	}
	return p.score(ctx, asked, temperature, p.Progress)
}

// ScoreBase is ScoreLearned for the model without its adapter: the reference policy of KL penalties. It takes no further memory.
// It is an error for a fully trained model, which does not keep its original weights.
func (p *Policy) ScoreBase(ctx context.Context, datums []Datum, temperature float32) ([][]float32, error) {
	if _, whole := p.trained.(*masters); whole {
		return nil, badinput.Errorf("a model with train=full does not keep its original weights, so it has no reference policy; open it " +
			"with train=lora")
	}
	p.inputs.run.WithoutAdapter = true
	defer func() { p.inputs.run.WithoutAdapter = false }()
	return p.ScoreLearned(ctx, datums, temperature)
}

// ScoreLearned computes log p(target | tokens up to its row) for the unmasked rows of the datums; masked rows get 0.
func (p *Policy) ScoreLearned(ctx context.Context, datums []Datum, temperature float32) ([][]float32, error) {
	for i := range datums {
		if err := datums[i].Check(p.Config); err != nil {
			return nil, fmt.Errorf("datum %d: %w", i, err)
		}
	}
	return p.score(ctx, datums, temperature, p.Progress)
}

// score computes the log-probabilities of the rows in each mask, and calls done after each batch.
func (p *Policy) score(ctx context.Context, asked []Datum, temperature float32, done func(sequences, tokens int)) ([][]float32, error) {
	precondition.NotNil("model.Policy.Score", "ctx", ctx)
	longest, out := 0, make([][]float32, len(asked))
	for _, d := range asked {
		longest = max(longest, d.Rows())
	}
	if err := p.prepare(&p.scorer, longest, (*builder).scoring); err != nil {
		return nil, err
	}
	for _, batch := range p.packer.packToScore(asked, p.MaxRows, p.SharePrefixes) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.run(p.scorer, batch, temperature); err != nil {
			return nil, err
		}
		logp, err := p.logp.fetch(p.b, p.scorer.Outputs[outResult].Buf, len(batch.Targets))
		if err != nil {
			return nil, err
		}
		for k, i := range batch.Sequences {
			places := batch.Places[batch.Offsets[k]:batch.Offsets[k+1]]
			out[i] = make([]float32, len(places))
			for p, pair := range places {
				if pair >= 0 {
					out[i][p] = logp[pair]
				}
			}
		}
		if done != nil {
			done(len(batch.Sequences), len(batch.Places))
		}
	}
	return out, nil
}

// Objective is the loss that a step minimises.
type Objective struct {
	Loss        kernels.Loss
	Reduction   Reduction
	Temperature float32 // at which the data were sampled
	// Custom, if set, replaces Loss. Statistics other than the loss are then those of importance sampling.
	Custom LossFunc
}

// Accumulate adds the gradient of the objective over the datums to the gradient slab, in micro-batches,
// and returns statistics. The optimizer zeroes the gradients.
func (p *Policy) Accumulate(ctx context.Context, datums []Datum, o Objective) (Stats, error) {
	precondition.NotNil("model.Policy.Accumulate", "ctx", ctx)
	var stats Stats
	if err := cmp.Or(o.Reduction.Check(), asked.Loss(o.Loss)); err != nil {
		return stats, err
	}
	longest := 0
	for i, d := range datums {
		if err := d.Check(p.Config); err != nil {
			return stats, fmt.Errorf("datum %d: %w", i, err)
		}
		longest = max(longest, d.Rows())
	}
	if err := p.prepare(&p.trainer, longest, (*builder).training); err != nil {
		return stats, err
	}
	// Batches have MaxRows, even if a longer sequence has made the programs larger: the order of sums must not depend
	// on earlier steps, or a resumed run would differ from one that was not interrupted.
	for _, batch := range p.packer.pack(datums, p.MaxRows, o.Reduction, p.SharePrefixes) {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		p.loadLoss(o, batch)
		if err := p.run(p.trainer, batch, o.Temperature); err != nil {
			return stats, err
		}
		if err := p.b.Download(p.statsAny, p.trainer.Outputs[outLoss].Buf); err != nil {
			return stats, err
		}
		stats.add(&p.stats)
		stats.Shared += batch.Shared()
		if p.Progress != nil {
			p.Progress(len(batch.Sequences), len(batch.Places))
		}
	}
	return stats, nil
}

// Prepare allocates memory to train and score sequences of that many tokens, so that no longer one runs out of
// memory in the middle of a run, and returns the bytes of activations of each.
func (p *Policy) Prepare(length int) (training, scoring int, err error) {
	if err := p.prepare(&p.scorer, length, (*builder).scoring); err != nil {
		return 0, 0, err
	}
	if err := p.prepare(&p.trainer, length, (*builder).training); err != nil {
		return 0, 0, err
	}
	return p.trainer.Bytes(), p.scorer.Bytes(), nil
}

// run uploads one batch and queues all operations of a program.
func (p *Policy) run(prog *program.Program, batch *Batch, temperature float32) error {
	if by := 1 / temperature; !(by > 0 && by-by == 0) {
		return badinput.Errorf("temperature: found %v, expected a number above 0; 1 leaves the distribution as it is", temperature)
	}
	kernels.SetOrder(p.b, p.order)
	p.inputs.load(p.b, batch, temperature)
	prog.T = batch.Rows()
	return prog.RunAll()
}

// prepare compiles a program if that is necessary: the first time, and when the longest sequence does not fit.
func (p *Policy) prepare(prog **program.Program, longest int, write func(*builder) (*program.Graph, error)) error {
	if need := max(longest, p.MaxRows); need > p.rows {
		if err := p.grow(need); err != nil {
			return err
		}
	}
	if *prog != nil {
		return nil
	}
	g, err := p.graphs.Once(prog, func() (*program.Graph, error) { return write(p.builder(&p.inputs)) })
	if err != nil {
		return err
	}
	*prog, err = program.Compile(p.b, g, p.rows, p.Recompute)
	return err
}

// closePrograms frees the memory of the programs, before larger or other ones are compiled.
func (p *Policy) closePrograms() {
	for _, prog := range []**program.Program{&p.scorer, &p.trainer} {
		if *prog != nil {
			(*prog).Close()
		}
		*prog = nil
	}
}

// grow allocates inputs for batches of so many rows, and drops the programs, which have the old size.
func (p *Policy) grow(rows int) error {
	p.closePrograms()
	p.rows = 0 // in case the allocation fails
	rows = program.AlignUp(rows)
	if err := cmp.Or(p.inputs.grow(p.b, rows), p.logp.grow(p.b, kernels.F32, rows)); err != nil {
		return err
	}
	p.rows = rows
	return nil
}
