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
		Short: "Measure the hot paths, and compare them with the limits of this machine",
		Long: `Benchmarks need no files: they make random, non-zero weights of a model's shape. Each prints a table,
with the share of the hardware limit measured in the same run, and one JSON line last. Rates are
medians.`,
		Example: `  grpo bench train
  grpo bench decode --batch 32`,
		Args: usage.Args(),
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
	cmd.Flags().StringVar(&f.Shape, "shape", "qwen3-0.6b", "one of "+strings.Join(model.Shapes(), ", ")+"; NAME/N: N layers of it")
	cmd.Flags().IntVar(&f.Tokens, "tokens", 512, "rows of activations")
	usage := "rank of the LoRA adapter"
	if rank == 0 {
		usage += "; 0: none"
	}
	cmd.Flags().IntVar(&f.Rank, "rank", rank, usage)
	cmd.Flags().IntVar(&f.Runs, "runs", 5, "timed runs, after one warm-up run")
}

// registerRecompute adds the flag of benchmarks that train.
func (f *benchFlags) registerRecompute(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Recompute, "recompute", "auto",
		"activations to recompute to save memory: none, cheap, `blocks`, or auto, the first of these that fits")
}

// registerSampling adds the flags of the sampler's benchmarks.
func (f *benchFlags) registerSampling(cmd *cobra.Command, batch, context int) {
	f.register(cmd, 0)
	cmd.Flags().IntVar(&f.Batch, "batch", batch, "number of sequences")
	cmd.Flags().IntVar(&f.Context, "context", context, "tokens of each sequence")
	usage.HideFlags(cmd, "tokens", "max-rows")
}

// command makes a verb that runs a benchmark and prints its result.
func (f *benchFlags) command(cmd cobra.Command, measure func(context.Context) (bench.Result, error)) *cobra.Command {
	cmd.Args = usage.Args()
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
	usage.HideFlags(cmd, "quantize", "kv-cache-dtype", "rank", "adapter-precision", "max-rows")
	return cmd
}

func newBenchTrainCmd() *cobra.Command {
	var f benchFlags
	cmd := f.command(verb(bench.TrainVerb), func(ctx context.Context) (bench.Result, error) { return bench.Train(ctx, &f.Model) })
	f.register(cmd, 16)
	cmd.Flags().Lookup("rank").Usage += "; 0: no adapter, train all weights"
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
	cmd.Flags().IntSliceVar(&l.Lengths, "lengths", []int{4096, 8192, 16384, 24576}, "lengths of the sequence in tokens")
	f.registerRecompute(cmd)
	usage.HideFlags(cmd, "tokens", "max-rows", "runs")
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
	cmd.Flags().IntVar(&g.Prompts, "prompts", 8, "number of prompts, and so of groups")
	cmd.Flags().IntVar(&g.Completions, "completions", 16, "completions of each prompt")
	cmd.Flags().IntVar(&g.Prompt, "prompt-tokens", 512, "tokens of each prompt")
	cmd.Flags().IntVar(&g.Completion, "completion-tokens", 256, "tokens of each completion")
	cmd.Flags().Lookup("max-rows").Usage = "tokens in a batch; 0: as many as a group has"
	usage.HideFlags(cmd, "tokens")
	return cmd
}

func newBenchDecodeCmd() *cobra.Command {
	var f benchFlags
	cmd := f.command(verb(bench.DecodeVerb), func(ctx context.Context) (bench.Result, error) { return bench.Decode(ctx, &f.Sampling) })
	f.registerSampling(cmd, 1, 32)
	cmd.Flags().IntVar(&f.Group, "group", 1, "sequences that share one context, like completions of one prompt")
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
	usage.HideFlags(cmd, "rank")
	cmd.Flags().Float64SliceVar(&d.Alike, "alike", []float64{0, 0.7, 0.8, 0.9}, "`shares` of the draft text that match the completion")
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
	usage.HideFlags(cmd, "tokens", "max-rows", "rank")
	return cmd
}

func newBenchSandboxCmd() *cobra.Command {
	var flags grading.Sandbox
	var b bench.Sandbox
	cmd := &cobra.Command{
		Use: "sandbox [--runs N] [--completions N] [--tests N]",
		Example: `  grpo bench sandbox
  grpo bench sandbox --completions 64 --tests 10`,
		Short: "Programs judged per second in the sandbox, compared with a bare interpreter",
		Long: `Measures trivial programs in sandbox cells that are already started, one at a time and on all slots, and
the judging of a whole step: completions that are all different, each with many tests. For comparison it
starts the same interpreter without any isolation.`,
		Args: usage.Args(),
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
	cmd.Flags().IntVar(&b.Completions, "completions", 128, "completions of a step")
	cmd.Flags().IntVar(&b.Tests, "tests", 20, "tests of each completion")
	return cmd
}

func newBenchStepCmd() *cobra.Command {
	var b bench.Step
	var onlyJSON bool
	cmd := &cobra.Command{
		Use:   "step [--preset P] [--steps N] [--rounds N] [--share S] [key=value …]",
		Short: "Whole training steps: no overlap, scoring overlapped, or also sampling",
		Long: `Runs the same training steps with each pipeline, in fresh sessions of one seed, and shows the median time of
sampling, of waiting for scores while nothing else runs, and of training. Sampler, sandbox and trainer are the real
ones; nothing is written.

Overlapping pays if the sandbox has processors of its own and sampling takes long enough to hide it. So, unless
key=value say otherwise, the model computes on one core, the sandbox has one slot (threads=1 sandbox_slots=1), and
a program has one test (max_tests=1). The tiny model samples a batch of tokens almost for free and spends its step
on training; so completions are sampled one at a time, bound by memory like the decoding of a large model
(max_sequences=1). Groups are small and give no gradient if all are wrong, as on hard problems (prompts_per_step=16
completions_per_prompt=4 format_coef=0).

Every program first uses some milliseconds of processor time, enough for scoring to take the --share of a step of
pipeline=off. With --sleep it sleeps instead, as if the sandbox were on another machine: use that if the cores here
are busy. Each pipeline is compared with pipeline=off of the same round. The column "at best" is the speed if its
sampling and training hid all that they can hide.`,
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
	fl.StringVar(&b.Preset, "preset", configs.DefaultPreset, "preset to start from: "+strings.Join(configs.Presets(), ", "))
	fl.IntVar(&b.Steps, "steps", 8, "measured steps, after one warm-up step and before a last one")
	fl.IntVar(&b.Rounds, "rounds", 3, "rounds, each of which runs every pipeline once")
	fl.Float64Var(&b.Share, "share", 1./3, "share of a step of pipeline=off that scoring is made to take; 0: leave the programs as they are")
	fl.BoolVar(&b.Sleep, "sleep", false, "programs sleep instead of using the processor")
	fl.BoolVar(&onlyJSON, "json", false, "print only the line of JSON")
	return cmd
}

func newBenchCardCmd() *cobra.Command {
	var c bench.Card
	var contract bool
	cmd := &cobra.Command{
		Use:   "card [--device cuda:N] [--size full|smoke] [--contract]",
		Short: "Check a new card and measure its speed, in one table",
		Long: `Checks on a real card what the emulated device cannot show, and compares its speed with its limits. The checks: every
operation passes the kernel tests of all backends (--contract: these alone, case by case); a small model agrees with
the processor's but for rounding; rows of products have the same bits in every batch and place; sampler and trainer
compute the same log-probabilities, over 100,000 tokens. The speeds are those of a 4 B model with random weights:
decoding 1 and 128 sequences, a prompt, LoRA training on 4k and 16k tokens, a step of 8 × 16. The limits are measured
just before: memory reads, fused multiply-adds, mma.sync products.

If a check fails, the exit code is 1. --size smoke uses a tiny model, for an emulated card.`,
		Example: `  grpo bench card
  GRPO_CUDA_LIB=$(make -s emulator | tail -n 1) bin/grpo bench card --size smoke`,
		Args: usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := device.Check(c.Device); err != nil {
				return badinput.Errorf("--device: %w", err)
			}
			c.Open = openDevice(cmd.Context())
			if contract {
				return c.CheckContract()
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			c.Contract = []string{self, "bench", "card", "--contract", "--device", c.Device, "--size", c.Size}
			c.Say = func(line string) { screen.PrintLine(cmd.ErrOrStderr(), line) }
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
	cmd.Flags().StringVar(&c.Size, "size", "full", "size of the model: full, or `smoke`")
	cmd.Flags().BoolVar(&contract, "contract", false, "run only the kernel tests, and print each case like go test")
	return cmd
}
