package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/given"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Score gives log p(s[i+1] | s[..i]) for every token but the first of each sequence, of the distribution at that temperature.
func (p *Policy) Score(ctx context.Context, sequences [][]int32, temperature float32) ([][]float32, error) {
	asked := make([]Datum, len(sequences))
	for i, s := range sequences {
		if err := p.CheckSequence(s); err != nil {
			return nil, fmt.Errorf("sequence %d: %w", i, err)
		}
		asked[i] = Datum{Tokens: s[:len(s)-1], Targets: s[1:]} // without a mask: a row's target is the next row
	}
	return p.score(ctx, asked, temperature, nil)
}

// ScoreTargets gives log p(target | the tokens up to its row) for every row of the datums, also those that teach nothing.
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

// ScoreBase gives what the frozen weights alone say of the rows that count, as if no adapter were attached, and 0 of others:
// one pass of the program that scores, in the same memory. A model that is trained as a whole has no such weights any more.
func (p *Policy) ScoreBase(ctx context.Context, datums []Datum, temperature float32) ([][]float32, error) {
	if _, whole := p.trained.(*masters); whole {
		return nil, badinput.Errorf("a model that is trained as a whole keeps no weights from before; open it with train=lora")
	}
	p.inputs.run.Bare = true
	defer func() { p.inputs.run.Bare = false }()
	return p.ScoreLearned(ctx, datums, temperature)
}

// ScoreLearned gives log p(target | the tokens up to its row) for the rows of the datums that teach, and 0 of others.
func (p *Policy) ScoreLearned(ctx context.Context, datums []Datum, temperature float32) ([][]float32, error) {
	for i := range datums {
		if err := datums[i].Check(p.Config); err != nil {
			return nil, fmt.Errorf("datum %d: %w", i, err)
		}
	}
	return p.score(ctx, datums, temperature, p.Progress)
}

// score gives what each row is asked for, and tells done of each batch.
func (p *Policy) score(ctx context.Context, asked []Datum, temperature float32, done func(sequences, tokens int)) ([][]float32, error) {
	given.All("model.Policy.Score", "ctx", ctx)
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

// Objective is what a step minimises.
type Objective struct {
	Loss        kernels.Loss
	Reduction   Reduction
	Temperature float32 // that the data were sampled at
	// Custom, where set, takes the place of Loss. The statistics but for the loss itself are then those of importance sampling.
	Custom LossFunc
}

// Accumulate adds the gradient of the objective over the datums to the gradient slab, which the optimizer zeroes, and says what it saw.
func (p *Policy) Accumulate(ctx context.Context, datums []Datum, o Objective) (Stats, error) {
	given.All("model.Policy.Accumulate", "ctx", ctx)
	var stats Stats
	if err := o.Reduction.Check(); err != nil {
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
	// By MaxRows, not by the room that a longer sequence once made: a sum over batches keeps its order
	// whatever was seen before, so that a resumed run adds up as one that was not interrupted.
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

// Prepare makes room for training and scoring sequences of that many tokens, so that none is too long for
// the memory later, and says how many bytes the activations of each take.
func (p *Policy) Prepare(length int) (training, scoring int, err error) {
	if err := p.prepare(&p.scorer, length, (*builder).scoring); err != nil {
		return 0, 0, err
	}
	if err := p.prepare(&p.trainer, length, (*builder).training); err != nil {
		return 0, 0, err
	}
	return p.trainer.Bytes(), p.scorer.Bytes(), nil
}

// run loads one batch and issues everything that is to be computed for it.
func (p *Policy) run(prog *program.Program, batch *Batch, temperature float32) error {
	if by := 1 / temperature; !(by > 0 && by-by == 0) {
		return badinput.Errorf("temperature: found %v, expected a number above 0; 1 leaves the distribution as it is", temperature)
	}
	kernels.SetOrder(p.b, p.order)
	p.inputs.load(p.b, batch, temperature)
	prog.T = batch.Rows()
	return prog.RunAll()
}

// prepare compiles the program of a graph, and compiles it again when a sequence does not fit.
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

// closePrograms gives the memory of the programs back, so that others may take their place.
func (p *Policy) closePrograms() {
	for _, prog := range []**program.Program{&p.scorer, &p.trainer} {
		if *prog != nil {
			(*prog).Close()
		}
		*prog = nil
	}
}

// grow makes room for batches of rows tokens; programs of the old size are gone.
func (p *Policy) grow(rows int) error {
	p.closePrograms()
	p.rows = 0 // until there is room for more
	rows = program.AlignUp(rows)
	if err := cmp.Or(p.inputs.grow(p.b, rows), p.logp.grow(p.b, kernels.F32, rows)); err != nil {
		return err
	}
	p.rows = rows
	return nil
}
