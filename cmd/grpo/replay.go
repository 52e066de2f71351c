package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/input"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/settings"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/sampler"
)

// replayFlags are the flags of the verb replay.
type replayFlags struct {
	policyFlags
	datums, out, dumpGrads string
	steps                  int

	recorded string // the run's directory
	step     int

	rank    int
	alpha   float64
	targets []string
	seed    uint64

	lossName  string
	learning  float64
	adam      optim.Config
	reduction string
	temper    float64
	clipLow   float64
	clipHigh  float64
	train     string
	share     bool
}

func newReplayCmd() *cobra.Command {
	f := replayFlags{adam: optim.Defaults(), learning: 4e-5, reduction: string(model.Sum), temper: 1, clipLow: -1, clipHigh: -1, train: "lora"}
	cmd := &cobra.Command{
		Use:   "replay (--run DIR --step N | --model DIR (--adapter DIR | --rank R --seed S) --datums FILE --steps N --out DIR [key=value …])",
		Short: "Train on recorded datums, or repeat a step of a run and compare",
		Long: `With --run, repeats step N of a run, from the checkpoint before it and with the completions recorded
since then, and fails unless the policy is the recorded one, to the last bit.

With --datums, takes N optimizer steps on the datums of a JSON Lines file, all of them in each step:
  {"tokens":[…], "ob_len":P, "logprobs":[len(tokens)-1 numbers], "advantage":A}
logprobs[i] belongs to tokens[i+1]; the first ob_len tokens are the prompt and are not trained on. A datum
of several turns also has "spans":[[from,to],…]: from ob_len on, only tokens in spans were sampled. Prints
one line of JSON a step and writes a PEFT adapter to DIR (with train=full, a model).

Keys: learning_rate (4e-5), adam_beta1 (0.9), adam_beta2 (0.95), adam_eps (1e-12), weight_decay (0),
grad_clip_norm (0: off), reduction (sum, token_mean, sequence_mean, sequence_sum), temperature (1), clip_low and
clip_high (of --loss ppo and cispo), train (lora, full), share_prefixes (false).`,
		Example: `  grpo replay --model ~/Qwen3-0.6B --rank 16 --seed 1 --datums d.jsonl --steps 3 --out /tmp/adapter
  grpo replay --run runs/today --step 20
  grpo replay --model ~/Qwen3-0.6B --adapter /tmp/adapter --datums d.jsonl --steps 1 --out /tmp/next learning_rate=1e-4 adam_eps=1e-8`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.recorded != "" {
				return f.repeat(cmd, args)
			}
			if err := f.settings().Apply(args); err != nil {
				return err
			}
			if err := f.checkStart(cmd.Flags().Changed); err != nil {
				return err
			}
			return f.run(cmd)
		},
	}
	f.registerAll(cmd)
	usage.CheckBefore(cmd, func([]string) error { return f.checkOut() })
	fl := cmd.Flags()
	fl.StringVar(&f.datums, "datums", "", "JSON Lines `file` of datums")
	fl.StringVar(&f.out, "out", "", "`directory` to write the adapter or model to")
	fl.StringVar(&f.dumpGrads, "dump-grads", "", "write the first step's gradients to this safetensors `file`")
	fl.IntVar(&f.steps, "steps", 1, "number of optimizer steps")
	fl.IntVar(&f.rank, "rank", 0, "`rank` of a new adapter")
	fl.Float64Var(&f.alpha, "alpha", lora.Defaults().Alpha, "`alpha` of a new adapter")
	fl.StringSliceVar(&f.targets, "targets", nil, "`modules` of a new adapter: q_proj,…; all seven if not given")
	fl.Uint64Var(&f.seed, "seed", 0, "`seed` of a new adapter")
	fl.StringVar(&f.lossName, "loss", "importance_sampling", "loss: importance_sampling, ppo, cispo or cross_entropy")
	fl.StringVar(&f.recorded, "run", "", "`directory` of a run")
	fl.IntVar(&f.step, "step", 0, "`step` of the run to repeat")
	cmd.MarkFlagsOneRequired("run", "datums")
	cmd.MarkFlagsMutuallyExclusive("run", "datums")
	cmd.MarkFlagsRequiredTogether("run", "step")
	for _, flag := range []string{"model", "adapter", "precision", "kv-cache-dtype", "adapter-precision", "quantize", "order", "max-rows",
		"steps", "dump-grads", "rank", "alpha", "targets", "seed", "loss"} {
		cmd.MarkFlagsMutuallyExclusive("run", flag)
	}
	return cmd
}

func (f *replayFlags) settings() settings.Set {
	return settings.Set{
		"learning_rate": settings.Float(&f.learning), "adam_beta1": settings.Float(&f.adam.Beta1), "adam_beta2": settings.Float(&f.adam.Beta2),
		"adam_eps": settings.Float(&f.adam.Eps), "weight_decay": settings.Float(&f.adam.WeightDecay),
		"grad_clip_norm": settings.Float(&f.adam.ClipNorm),
		"reduction":      settings.String(&f.reduction), "temperature": settings.Float(&f.temper),
		"clip_low": settings.Float(&f.clipLow), "clip_high": settings.Float(&f.clipHigh), "train": settings.String(&f.train),
		"share_prefixes": settings.Bool(&f.share),
	}
}

// checkOut checks in advance where the results are to be written.
func (f *replayFlags) checkOut() error {
	reads := []string{f.model, f.adapter, f.datums}
	return errors.Join(
		destination.Place{Flag: "--out", Path: f.out, IsDir: true, Inputs: reads, Run: f.recorded}.Check(),
		destination.Place{Flag: "--dump-grads", Path: f.dumpGrads, Name: "grads.safetensors", Inputs: reads}.Check())
}

// checkStart refuses flags about an adapter that would have no effect.
func (f *replayFlags) checkStart(given func(flag string) bool) error {
	for _, flag := range []string{"adapter", "rank", "alpha", "targets", "seed"} {
		switch {
		case given(flag) && f.train == "full":
			return badinput.Errorf("--%s is for an adapter, and train=full trains the model itself; leave one of them out", flag)
		case given(flag) && f.adapter != "" && flag != "adapter" && f.rank == 0:
			return badinput.Errorf("--%s is for a new adapter; leave it out, or type --rank R instead of --adapter", flag)
		}
	}
	return nil
}

// objective is the objective of the flags.
func (f *replayFlags) objective() (o model.Objective, err error) {
	if o.Loss, err = kernels.ParseLoss(f.lossName); err != nil {
		return o, badinput.Errorf("--loss: %w", err)
	}
	if o.Reduction, err = model.ParseReduction(f.reduction); err != nil {
		return o, badinput.Errorf("reduction: %w", err)
	}
	if err := sampler.CheckTemperature(float32(f.temper)); err != nil || f.temper == 0 {
		return o, cmp.Or(err, badinput.Errorf("temperature: found 0, expected a number above 0"))
	}
	o.Temperature = float32(f.temper)
	if f.clipLow != -1 {
		o.Loss.Low = float32(f.clipLow)
	}
	if f.clipHigh != -1 {
		o.Loss.High = float32(f.clipHigh)
	}
	if !(o.Loss.Low >= 0 && o.Loss.Low <= o.Loss.High) {
		return o, badinput.Errorf("clip_low is %v, expected 0 or more, and at most clip_high, which is %v", o.Loss.Low, o.Loss.High)
	}
	return o, nil
}

// repeat replays a recorded step of a run.
func (f *replayFlags) repeat(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return badinput.Errorf("%s: with --run the settings are the run's", args[0])
	}
	b, err := f.backend()
	if err != nil {
		return err
	}
	defer b.Close()
	enc := json.NewEncoder(cmd.OutOrStdout())
	var unwritten error
	after, err := grpo.Replay(cmd.Context(), f.recorded, f.step, b, func(m grpo.Metrics) {
		unwritten = errors.Join(unwritten, enc.Encode(map[string]any{
			"step": m.Step, "n_datums": m.Datums, "loss": m.Loss, "grad_norm": m.GradNorm, "trained_sha256": m.Trained}))
	})
	if err = errors.Join(err, unwritten); err != nil || f.out == "" {
		return err
	}
	return f.save(after.Save)
}

func (f *replayFlags) run(cmd *cobra.Command) error {
	if f.model == "" || f.out == "" {
		return badinput.Errorf("--datums needs --model DIR and --out DIR")
	}
	objective, err := f.objective()
	if err != nil {
		return err
	}
	if f.steps < 1 {
		return badinput.Errorf("--steps: found %d, expected 1 or more", f.steps)
	}
	if f.train != "lora" && f.train != "full" {
		return badinput.Errorf("train: found %q, expected lora or full", f.train)
	}
	datums, err := readDatums(f.datums)
	if err != nil {
		return err
	}
	f.learns = true
	return f.withModel(cmd.Context(), f.train == "full", func(b kernels.Backend, p *model.Policy) error {
		p.SharePrefixes = f.share // older runs without this setting keep their bits
		if f.train == "lora" {
			if err := f.attach(p); err != nil {
				return err
			}
		}
		adam, err := f.optimizer(b, p)
		if err != nil {
			return err
		}
		enc := json.NewEncoder(cmd.OutOrStdout())
		for step := 1; step <= f.steps; step++ {
			adam.ZeroGrad()
			stats, err := p.Accumulate(cmd.Context(), datums, objective)
			if err != nil {
				return fmt.Errorf("%s: %w", f.datums, err)
			}
			if step == 1 && f.dumpGrads != "" {
				if err := p.SaveGradients(f.dumpGrads); err != nil {
					return err
				}
			}
			update, err := adam.Step(f.learning)
			if err != nil {
				return errors.Join(f.culprit(cmd.Context(), p, adam, datums, objective), fmt.Errorf("step %d: %w", step, err))
			}
			p.Publish()
			if err := enc.Encode(replayLine{step, stats, update.GradNorm}); err != nil {
				return fmt.Errorf("standard output: %w", err)
			}
		}
		base := f.model
		if f.train == "lora" { // a full model copies its other files from there
			base = sources.BaseName(base)
		}
		return f.save(func(out string) error { return p.Save(out, base) })
	})
}

// save saves the result with fn. If it fails, a folder made for it is removed.
func (f *replayFlags) save(fn func(out string) error) error {
	_, missing := os.Stat(f.out)
	err := fn(f.out)
	if err != nil && errors.Is(missing, fs.ErrNotExist) {
		err = errors.Join(err, os.RemoveAll(f.out))
	}
	return destination.Place{Flag: "--out", Path: f.out}.Failed(err)
}

// culprit is the first datum whose own gradient is not finite; nil if there is none.
func (f *replayFlags) culprit(ctx context.Context, p *model.Policy, adam *optim.Adam, datums []model.Datum, o model.Objective) error {
	for i := range datums {
		adam.ZeroGrad()
		if _, err := p.Accumulate(ctx, datums[i:i+1], o); err != nil {
			return err
		}
		if norm, err := adam.GradNorm(); err != nil {
			return err
		} else if norm-norm != 0 {
			return badinput.Errorf("%s: datum %d: its gradient is not finite; leave it out, or look at its logprobs and advantage", f.datums, i)
		}
	}
	return nil
}

// optimizer is the optimizer of the settings, for everything that is trained.
func (f *replayFlags) optimizer(b kernels.Backend, p *model.Policy) (*optim.Adam, error) {
	params, grads, locate := p.Slabs()
	adam, err := optim.NewAdam(b, params, grads, f.adam, locate)
	if err != nil {
		return nil, err
	}
	return adam, adam.Spare(p.Spared())
}

// replayLine is the output for a step.
type replayLine struct {
	Step int `json:"step"`
	model.Stats
	GradNorm float64 `json:"grad_norm"`
}

// attach attaches the adapter of the flags to the model: an existing or a new one.
func (f *replayFlags) attach(p *model.Policy) error {
	switch {
	case f.adapter != "" && f.rank != 0:
		return badinput.Errorf("--adapter and --rank: expected one of them")
	case f.adapter == "" && f.rank == 0:
		return badinput.Errorf("--adapter DIR or --rank R: expected one of them")
	case f.adapter != "":
		a, err := lora.Load(f.adapter, p.LoRADims())
		if err != nil {
			return err
		}
		return p.Attach(a)
	}
	c := lora.Config{Rank: f.rank, Alpha: f.alpha, Targets: lora.AllTargets()}
	if len(f.targets) > 0 {
		var err error
		if c.Targets, err = lora.ParseTargets(f.targets); err != nil {
			return err
		}
	}
	layout, err := lora.NewLayout(c, p.LoRADims())
	if err != nil {
		return err
	}
	a := lora.New(layout)
	a.Init(f.seed)
	return p.Attach(a)
}

func readDatums(path string) ([]model.Datum, error) {
	file, err := input.File(path)
	if err != nil {
		return nil, badinput.Errorf("--datums: %w", err)
	}
	defer file.Close()
	var datums []model.Datum
	err = jsonl.Each(file, path, func(_ int, d model.Datum) error {
		datums = append(datums, d)
		return nil
	})
	if err == nil && len(datums) == 0 {
		err = badinput.Errorf("%s: no datums", path)
	}
	return datums, err
}
