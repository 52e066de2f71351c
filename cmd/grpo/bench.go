package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/cmd/grpo/grading"
	"github.com/seed-7879b91d/grpo/cmd/grpo/load"
	"github.com/seed-7879b91d/grpo/cmd/grpo/output"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels/device"
	"github.com/seed-7879b91d/grpo/model"
)

func newBenchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the hot paths beside the limits of this machine",
		Long: `Each benchmark needs no files: it makes random, non-zero weights of a shape. It prints a table with the
share of the limit that the hardware sets, measured in the same run, and one JSON line last. Rates are
medians.`,
		Example: `  grpo bench train
  grpo bench decode --batch 32`,
		Args: usage.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchGemmCmd(), newBenchTrainCmd(), newBenchLongCmd(), newBenchGroupsCmd(), newBenchSandboxCmd(), newBenchDecodeCmd(),
		newBenchPrefillCmd(), newBenchDraftsCmd(), newBenchServeCmd(), newBenchStepCmd(), newBenchCardCmd())
	return cmd
}

// printResult prints the table of a benchmark, and then the JSON line for programs.
func printResult(w io.Writer, r bench.Result) error {
	report := r.Report()
	fmt.Fprint(w, report.Above)
	t := output.NewTable(w, report.Header...)
	for _, row := range report.Rows {
		t.Row(row...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, report.Below)
	return printJSON(w, r)
}

// benchFlags are the flags of a model's benchmarks.
type benchFlags struct {
	policyFlags
	bench.Sampling
}

func (f *benchFlags) register(cmd *cobra.Command, rank int) {
	f.registerSpeed(cmd)
	cmd.Flags().StringVar(&f.Shape, "shape", "qwen3-0.6b", "one of "+strings.Join(model.Shapes(), ", ")+"; NAME/N is N layers of it")
	cmd.Flags().IntVar(&f.Tokens, "tokens", 512, "rows of activations")
	usage := "of the adapter"
	if rank == 0 {
		usage += "; 0: none"
	}
	cmd.Flags().IntVar(&f.Rank, "rank", rank, usage)
	cmd.Flags().IntVar(&f.Runs, "runs", 5, "timed runs, after one to warm up")
}

// registerRecompute adds the flag of benchmarks that train.
func (f *benchFlags) registerRecompute(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Recompute, "recompute", "auto",
		"what is computed again to save memory: none, cheap, `blocks`, or auto, the first of them that fits")
}

// registerSampling adds the flags of the sampler's benchmarks.
func (f *benchFlags) registerSampling(cmd *cobra.Command, batch, context int) {
	f.register(cmd, 0)
	cmd.Flags().IntVar(&f.Batch, "batch", batch, "sequences")
	cmd.Flags().IntVar(&f.Context, "context", context, "tokens of each sequence")
	usage.Unused(cmd, "tokens", "max-rows")
}

// command makes a verb that runs a benchmark and prints its result.
func (f *benchFlags) command(cmd cobra.Command, measure func(context.Context) (bench.Result, error)) *cobra.Command {
	cmd.Args = usage.Takes()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if err := f.CheckSizes(); err != nil {
			return err
		}
		f.Open, f.Device, f.Threads, f.Options = f.ordered(openDevice(cmd.Context())), f.device, f.threads, f.options()
		r, err := measure(cmd.Context())
		if err != nil {
			return err
		}
		return printResult(cmd.OutOrStdout(), r)
	}
	return &cmd
}

func verb(v bench.Verb) cobra.Command {
	return cobra.Command{Use: v.Use, Short: v.Short, Long: v.Long, Example: v.Example}
}

func newBenchGemmCmd() *cobra.Command {
	var f benchFlags
	cmd := f.command(verb(bench.GemmVerb), func(ctx context.Context) (bench.Result, error) { return bench.Gemm(ctx, &f.Model) })
	f.register(cmd, 16)
	usage.Unused(cmd, "quantize", "kv-cache-dtype", "rank", "adapter-precision", "max-rows")
	return cmd
}

func newBenchTrainCmd() *cobra.Command {
	var f benchFlags
	cmd := f.command(verb(bench.TrainVerb), func(ctx context.Context) (bench.Result, error) { return bench.Train(ctx, &f.Model) })
	f.register(cmd, 16)
	cmd.Flags().Lookup("rank").Usage += "; 0: none, all weights are trained"
	f.registerRecompute(cmd)
	return cmd
}

func newBenchLongCmd() *cobra.Command {
	var f benchFlags
	var l bench.Long
	cmd := f.command(verb(bench.LongVerb), func(ctx context.Context) (bench.Result, error) {
		l.Model = f.Model
		return l.Run(ctx)
	})
	f.register(cmd, 16)
	cmd.Flags().IntSliceVar(&l.Lengths, "lengths", []int{4096, 8192, 16384, 24576}, "tokens of the sequence")
	f.registerRecompute(cmd)
	usage.Unused(cmd, "tokens", "max-rows", "runs")
	return cmd
}

func newBenchGroupsCmd() *cobra.Command {
	var f benchFlags
	var g bench.Groups
	cmd := f.command(verb(bench.GroupsVerb), func(ctx context.Context) (bench.Result, error) {
		g.Model = f.Model
		return g.Run(ctx)
	})
	f.register(cmd, 16)
	cmd.Flags().IntVar(&g.Prompts, "prompts", 8, "groups")
	cmd.Flags().IntVar(&g.Completions, "completions", 16, "of each prompt")
	cmd.Flags().IntVar(&g.Prompt, "prompt-tokens", 512, "of each prompt")
	cmd.Flags().IntVar(&g.Completion, "completion-tokens", 256, "of each completion")
	usage.Unused(cmd, "tokens")
	return cmd
}

func newBenchDecodeCmd() *cobra.Command {
	var f benchFlags
	cmd := f.command(verb(bench.DecodeVerb), func(ctx context.Context) (bench.Result, error) { return bench.Decode(ctx, &f.Sampling) })
	f.registerSampling(cmd, 1, 32)
	cmd.Flags().IntVar(&f.Group, "group", 1, "sequences that go on from one context, as samples of a prompt do")
	return cmd
}

func newBenchPrefillCmd() *cobra.Command {
	var f benchFlags
	cmd := f.command(verb(bench.PrefillVerb), func(ctx context.Context) (bench.Result, error) { return bench.Prefill(ctx, &f.Sampling) })
	f.registerSampling(cmd, 1, 512)
	return cmd
}

func newBenchDraftsCmd() *cobra.Command {
	var f benchFlags
	var d bench.Drafts
	cmd := f.command(verb(bench.DraftsVerb), func(ctx context.Context) (bench.Result, error) {
		d.Sampling = f.Sampling
		return d.Run(ctx)
	})
	f.registerSampling(cmd, 4, 128)
	usage.Unused(cmd, "rank")
	cmd.Flags().Float64SliceVar(&d.Alike, "alike", []float64{0, 0.7, 0.8, 0.9}, "`shares` of a text's tokens that are the completion's")
	return cmd
}

func newBenchServeCmd() *cobra.Command {
	var f benchFlags
	var l load.Load
	cmd := f.command(load.Verb, func(ctx context.Context) (bench.Result, error) {
		l.Model = f.Model
		return l.Run(ctx)
	})
	f.register(cmd, 0)
	l.Register(cmd.Flags())
	usage.Unused(cmd, "tokens", "max-rows", "rank")
	return cmd
}

func newBenchSandboxCmd() *cobra.Command {
	var flags grading.Sandbox
	var b bench.Sandbox
	cmd := &cobra.Command{
		Use: "sandbox [--runs N] [--completions N] [--tests N]",
		Example: `  grpo bench sandbox
  grpo bench sandbox --completions 64 --tests 10`,
		Short: "Runs of programs per second, beside the plain start of the interpreter",
		Long: `Measures trivial programs in warm cells, one at a time and on all slots, and the judging of a whole step:
completions that are all different, each with many tests. The plain start of the same interpreter,
without any isolation, stands beside them.`,
		Args: usage.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if b.Options, err = flags.Cells(); err != nil {
				return err
			}
			r, err := b.Run(cmd.Context())
			if err != nil {
				return err
			}
			return printResult(cmd.OutOrStdout(), r)
		},
	}
	flags.Register(cmd)
	cmd.Flags().IntVar(&b.Runs, "runs", 2000, "trivial programs to run")
	cmd.Flags().IntVar(&b.Completions, "completions", 128, "completions of the step")
	cmd.Flags().IntVar(&b.Tests, "tests", 20, "tests of each completion")
	return cmd
}

func newBenchStepCmd() *cobra.Command {
	var b bench.Step
	var onlyJSON bool
	cmd := &cobra.Command{
		Use:   "step [--preset P] [--steps N] [--rounds N] [--share S] [key=value …]",
		Short: "Whole training steps, with nothing, scoring, or also sampling overlapped",
		Long: `Takes the same training steps with each pipeline, on fresh sessions of one seed, and shows where their
time goes, in medians: sampling, waiting for scores while nothing else runs, training. It is the real
sampler, sandbox and trainer; nothing is written.

Overlapping pays where the sandbox has processors of its own and sampling takes long enough to hide it.
So, unless key=value say otherwise, the model computes on one core and the sandbox has one slot
(threads=1 sandbox_slots=1), and a program has one test (max_tests=1). The tiny model draws a batch of tokens
nearly for free and spends its step on training; so completions are drawn one at a time, bound by memory
as the decoding of a large model is (max_sequences=1), and groups are small and teach nothing where
everything is wrong, as hard problems do (prompts_per_step=16 completions_per_prompt=4 format_coef=0).

Every program works for some milliseconds of processor time before it begins, as many as it takes for scoring
to be the --share of a step of pipeline=off. With --sleep it sleeps instead, as if the sandbox were on
another machine: for one whose cores have other work. A pipeline is compared with the off of its own round. At best
is what it would be if everything were hidden that its sampling and training can hide.`,
		Example: `  grpo bench step
  grpo bench step --share 0.5 --steps 20
  grpo bench step --preset tiny --share 0 max_sequences=16 sandbox_slots=2`,
		Args: trainArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			b.Open, b.Words, b.Watch = openDevice(cmd.Context()), words, screen.New(io.Discard, cmd.ErrOrStderr(), true, false)
			r, err := b.Run(cmd.Context())
			if err != nil {
				return err
			}
			if onlyJSON {
				err = printJSON(cmd.OutOrStdout(), r)
			} else {
				err = printResult(cmd.OutOrStdout(), r)
			}
			if err != nil {
				return err
			}
			return r.Check()
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&b.Preset, "preset", configs.DefaultPreset, "settings to start from: "+strings.Join(configs.Presets(), ", "))
	fl.IntVar(&b.Steps, "steps", 8, "steps that count, after one to warm up and before one to end")
	fl.IntVar(&b.Rounds, "rounds", 3, "runs of each pipeline, in turn")
	fl.Float64Var(&b.Share, "share", 1./3, "of a step of pipeline=off that scoring takes; 0: leave the programs as they are")
	fl.BoolVar(&b.Sleep, "sleep", false, "programs sleep in place of working")
	fl.BoolVar(&onlyJSON, "json", false, "only the line of JSON")
	return cmd
}

func newBenchCardCmd() *cobra.Command {
	var c bench.Card
	var contract bool
	cmd := &cobra.Command{
		Use:   "card [--device cuda:N] [--size full|smoke] [--contract]",
		Short: "What a card must prove, and how fast it is: one table, for the first minutes with one",
		Long: `Proves on a card what the emulated device cannot show, and measures it beside its limits. Every operation keeps
the contract of the kernels, the suite that all backends pass (--contract: that alone, case by case); a small model
is that of the processor but for rounding; rows of products are the same bits in every batch and place; what the
sampler recorded is what the trainer computes, over 100,000 tokens. Then the speeds of a model of 4 B parameters with
random weights: decoding one sequence and 128, a prompt, LoRA training on 4k and 16k tokens, a step of 8 × 16. The
limits are measured just before: reads of memory, fused multiply-adds, and products by mma.sync.

It ends with exit code 1 where something does not hold. --size smoke is a tiny model, for an emulated card.`,
		Example: `  grpo bench card
  GRPO_CUDA_LIB=$(make -s emulator | tail -n 1) bin/grpo bench card --size smoke`,
		Args: usage.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := device.Check(c.Device); err != nil {
				return badinput.Errorf("--device: %w", err)
			}
			c.Open = openDevice(cmd.Context())
			if contract {
				return c.HoldContract()
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			c.Contract = []string{self, "bench", "card", "--contract", "--device", c.Device, "--size", c.Size}
			c.Say = func(line string) { screen.Tell(cmd.ErrOrStderr(), line) }
			r, err := c.Run(cmd.Context())
			if err != nil {
				return err
			}
			if err = printResult(cmd.OutOrStdout(), r); err != nil {
				return err
			}
			return r.Check()
		},
	}
	registerDevice(cmd, &c.Device)
	cmd.Flags().StringVar(&c.Size, "size", "full", "full, or `smoke`")
	cmd.Flags().BoolVar(&contract, "contract", false, "only the contract of the kernels, each case as go test tells it")
	return cmd
}
