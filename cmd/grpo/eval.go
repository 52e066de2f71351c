package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/outcome"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/suites"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
)

// evalFlags are the flags of the verb eval.
type evalFlags struct {
	recorded                      string // the run's directory
	step                          int    // of the run; below 0: the last
	model, adapter, data, split   string
	problems, samples, k, maxToks int
	temperature                   float64
	seed                          uint64
	json                          bool
	out, device                   string

	checkpoint string          // of the run
	trained    *configs.Config // the settings that the run was trained with
	suite      suites.Flags
	plan       *suites.Plan // nil: no suite
}

func newEvalCmd() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval [--run DIR [--step N] | --model DIR|NAME [--adapter DIR] [key=value …]] [--data SOURCE]",
		Short: "Evaluate a model on problems: pass@1, pass@k, formats and verdicts",
		Long: `Prompts the model with every problem, once greedily and --samples times at the temperature, and judges the
programs. It trains nothing and makes no run directory. With --run it evaluates the policy of a run at its last
checkpoint, or at --step, with the run's settings and problems unless flags say otherwise. The numbers are then
those of the run's own evaluation, with the change since its first one. The training data of the run may be gone.
Without --run, the settings are the defaults and key=value.

A prompt that leaves fewer than --max-tokens positions of the model gets a shorter completion; one that leaves
none is skipped. Both are counted.

pass@1 (greedy) comes with a 95 % bootstrap interval; pass@1 and pass@k of the samples are unbiased estimates,
and best of k is the mean of the best reward among the first k. --out writes for each completion
{"problem","sample","temperature","text","tokens","truncated","verdict","score","passed","total"}: the greedy one
has temperature 0, the verdict is "" if nothing was run, and the score is null if the machine failed. key=value
are settings of a run, such as threads=2, eval_top_p=0.9 or sandbox=unsafe; settings that only training uses are
refused.

--suite evaluates on a published benchmark, with the papers' number of samples, temperature and tokens, unless
flags say otherwise; --data then names a local copy or another source. --card writes the results and every
setting, and lists the problems that are in the training data (--against). --oracle judges the benchmark's own
solutions instead.`,
		Example: `  grpo eval
  grpo eval --run runs/x
  grpo eval --run runs/x --step 20 --data tasks.jsonl --samples 8 --k 4
  grpo eval --adapter runs/x/checkpoints/step_000060/adapter
  grpo eval --suite humaneval --model ~/Qwen3-0.6B --card humaneval.md
  grpo eval --suite livecodebench --from 2024-08-01 --to 2025-02-01 --run runs/x --card lcb.json
  grpo eval --suite mbpp --style completion --model ~/Qwen3-0.6B-Base --data ~/mbpp
  grpo eval --model ~/Qwen3-0.6B --data tasks.jsonl --problems 100 --samples 0 --max-tokens 2048 --json --out answers.jsonl`,
		Args: trainArgs,
		RunE: func(cmd *cobra.Command, words []string) error { return f.run(cmd, words) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.recorded, "run", "", "`directory` of a run, or of one of its checkpoints")
	fl.IntVar(&f.step, "step", -1, "evaluate the checkpoint of this step of the run, not the last")
	fl.StringVar(&f.model, "model", configs.DefaultPreset,
		"Hugging Face model directory, name on the Hub, or tiny, the built-in model")
	fl.StringVar(&f.adapter, "adapter", "", "PEFT adapter `directory`")
	fl.StringVar(&f.data, "data", "",
		"problems: a SOURCE as in 'grpo data', or tiny, the built-in held-out problems; if not given: tiny, or with --run its test_data")
	fl.StringVar(&f.split, "split", "test", "part of the data: train, test, validation or all")
	fl.IntVar(&f.problems, "problems", 0, "only the first N problems; 0: all; if not given: all, or with --run as many as the run")
	fl.IntVar(&f.samples, "samples", 4, "sampled completions of each problem, besides the greedy one; 0: none")
	fl.IntVar(&f.k, "k", 0, "k of pass@k and best of k; 0: --samples")
	fl.Float64Var(&f.temperature, "temperature", 1, "temperature of the sampled completions")
	fl.IntVar(&f.maxToks, "max-tokens", 0, "most tokens of a completion; 0: max_tokens of the settings")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the sampled completions")
	registerDevice(cmd, &f.device)
	fl.BoolVar(&f.json, "json", false, "print one JSON object instead of the table")
	fl.StringVar(&f.out, "out", "", "write a line of JSON for each completion to this `file`")
	f.suite.Register(cmd)
	cmd.MarkFlagsMutuallyExclusive("run", "model")
	cmd.MarkFlagsMutuallyExclusive("run", "adapter")
	return cmd
}

func (f *evalFlags) run(cmd *cobra.Command, words []string) error {
	if err := configs.CheckEvaluation(words, flagOfSetting); err != nil {
		return err
	}
	if err := f.openSuite(cmd, words); err != nil {
		return err
	}
	cfg, err := f.config(words)
	if err != nil {
		return err
	}
	if f.recorded != "" && len(words) > 0 {
		return badinput.Errorf("%s: with --run the settings are the run's; to evaluate with others, such as a server at another address, leave "+
			"out --run and type --adapter DIR of its checkpoint (after train=full --model DIR), with --data and the settings", words[0])
	}
	if f.recorded == "" && cmd.Flags().Changed("step") {
		return badinput.Errorf("--step needs a run; type --run DIR, too")
	}
	if err := f.checkOut(cfg); err != nil { // before the evaluation, which may take hours
		return err
	}
	if f.suite.Oracle {
		return f.judgeSolutions(cmd, cfg)
	}
	b, err := openDevice(cmd.Context())(cfg.Device, cfg.Threads)
	if err != nil {
		return err
	}
	defer b.Close()
	show := screen.New(cmd.OutOrStdout(), cmd.ErrOrStderr(), false, f.json)
	e, err := f.open(cmd, cfg, b, show)
	if err != nil {
		return err
	}
	r, card, err := f.evaluate(cmd.Context(), e, b.Name())
	show.End()
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), r, card)
}

// checkOut checks where the completions are to be written.
func (f *evalFlags) checkOut(cfg *configs.Config) error {
	return destination.Place{Flag: "--out", Path: f.out, Name: "answers.jsonl", Run: f.recorded,
		Inputs: []string{cfg.TestData, cfg.Model, cfg.Adapter, cfg.RewardFile, cfg.PromptTemplate}}.Check()
}

// open opens an evaluator with these settings, or those of a run.
func (f *evalFlags) open(cmd *cobra.Command, cfg *configs.Config, b kernels.Backend, show *screen.Screen) (*grpo.Evaluator, error) {
	if f.recorded == "" {
		e, err := grpo.OpenEvaluator(cmd.Context(), cfg, b, show, f.grading()...)
		return e, f.named(err)
	}
	saved, err := grpo.OpenSaved(f.recorded, f.step, show)
	if err != nil {
		return nil, err
	}
	if saved.Settings.TestData == "" && f.data == "" && !saved.Settings.Warmup() {
		return nil, badinput.Errorf("%s: the run has no test_data; type --data SOURCE", f.recorded)
	}
	e, err := saved.Evaluator(cmd.Context(), b, func(c *configs.Config) error {
		f.trained = new(*c)
		f.follow(c, cmd.Flags().Changed)
		f.setProblems(c)
		f.model, f.checkpoint = c.Model, saved.Dir
		return cmp.Or(f.check(), errors.Join(f.checkOut(c), c.Validate()))
	}, f.grading()...)
	return e, f.named(err)
}

// named rewords an error about the problems to name the flag.
func (f *evalFlags) named(err error) error {
	if err == nil {
		return nil
	}
	if what, ok := strings.CutPrefix(err.Error(), "test_data "+f.data+": "); ok && f.data != "" && badinput.Is(err) {
		return badinput.Errorf("--data %s: %s", f.data, what)
	}
	if errors.Is(err, dataset.ErrAbsent) && f.recorded != "" {
		return badinput.Errorf("%w; start in the directory where the run began, or type --data PATH", err)
	}
	return err
}

// follow takes the settings of a run, except for flags that were given.
func (f *evalFlags) follow(run *configs.Config, given func(flag string) bool) {
	if !given("problems") && f.data == "" {
		f.problems = run.EvalProblems
	}
	if !given("samples") {
		f.samples = run.EvalSamples
		if !given("k") {
			f.k = run.EvalK
		}
	}
	if !given("temperature") {
		f.temperature = run.EvalTemperature
	}
	if !given("seed") {
		f.seed = run.Seed
	}
}

// evaluate runs the evaluation, and writes the completions.
func (f *evalFlags) evaluate(ctx context.Context, evaluator *grpo.Evaluator, backend string) (*outcome.Report, *suites.Card, error) {
	err := configs.CheckEvaluated(len(evaluator.HeldOut()), evaluator.Settings().EvalSamples, "--samples ", "--problems")
	if err != nil {
		return nil, nil, err
	}
	e, err := evaluator.Evaluate(ctx)
	if err != nil {
		return nil, nil, err
	}
	if f.out != "" {
		if err := atomicfile.Result(f.out, func(w io.Writer) error { return outcome.WriteLines(w, e, f.temperature) }); err != nil {
			return nil, nil, fmt.Errorf("--out: %w", err)
		}
	}
	cfg := evaluator.Settings()
	r := &outcome.Report{Model: f.model, Adapter: f.adapter, Checkpoint: f.checkpoint, Data: cfg.TestData, Problems: e.Problems, Seed: f.seed,
		MaxTokens: cfg.MaxTokens, Change: e.Change, Backend: backend}
	r.NoRoom, r.LessRoom = evaluator.TooLong()
	if r.Data != configs.DefaultPreset {
		r.Split = cfg.TestSplit
	}
	r.Greedy = outcome.Greedy{PassAt1: e.Greedy, CI: e.GreedyCI, Attempts: outcome.NewAttempts(e.GreedyTry)}
	if e.Sampled != nil {
		r.Sampled = &outcome.Sampled{Samples: f.samples, Temperature: f.temperature, Sampled: *e.Sampled,
			Attempts: outcome.NewAttempts(e.SampledTry)}
	}
	card, err := f.card(ctx, evaluator, &e, r)
	return r, card, err
}

// flagOfSetting are the settings that have a flag of their own here.
var flagOfSetting = map[string]string{
	"model": "--model", "adapter": "--adapter", "data": "--data", "test_data": "--data", "data_split": "--split", "test_split": "--split",
	"eval_problems": "--problems", "eval_samples": "--samples", "eval_k": "--k",
	"temperature": "--temperature", "eval_temperature": "--temperature", "max_tokens": "--max-tokens", "seed": "--seed", "device": "--device",
	"run": "--run", "run_dir": "--run", "resume": "--run", "init_from": "--run",
}

// config is the configuration for the flags.
func (f *evalFlags) config(words []string) (*configs.Config, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	preset := "defaults"
	if f.model == configs.DefaultPreset {
		preset = configs.DefaultPreset
	}
	cfg, err := configs.Load(configs.Source{Preset: preset, Overrides: words})
	if err != nil {
		return nil, err
	}
	cfg.Model, cfg.Adapter, cfg.Device = f.model, f.adapter, f.device
	f.setProblems(cfg)
	cfg.LoRARank = 1 // without an adapter, the smallest one that changes nothing
	if f.adapter != "" {
		shape, err := lora.ReadConfig(f.adapter)
		if err != nil {
			return nil, err
		}
		cfg.LoRARank, cfg.LoRAAlpha, cfg.LoRATargets = shape.Rank, shape.Alpha, nil
		for _, t := range shape.Targets {
			cfg.LoRATargets = append(cfg.LoRATargets, t.String())
		}
	}
	return cfg, cfg.Validate()
}

// setProblems sets the problems and the number of samples. A session requires training problems; the embedded ones cost nothing.
func (f *evalFlags) setProblems(cfg *configs.Config) {
	cfg.Seed = f.seed
	switch {
	case f.plan != nil:
		cfg.TestData, cfg.TestSplit = f.plan.Tasks, "all"
		f.plan.Configure(cfg)
	case f.data != "":
		cfg.TestData, cfg.TestSplit = f.data, f.split
	case f.recorded == "":
		cfg.TestData = configs.DefaultPreset
	}
	cfg.Data, cfg.DataSplit, cfg.ExpectedDatasetHash = configs.DefaultPreset, "train", ""
	cfg.CacheDataset = cfg.CacheDataset && f.recorded != "" && f.data == "" // use the run's own copy
	cfg.DataSources = []string{}
	if cfg.TestData == cfg.Data {
		cfg.TestSplit = "test"
	}
	cfg.EvalProblems, cfg.EvalSamples, cfg.EvalTemperature, cfg.EvalK = f.problems, f.samples, f.temperature, f.k
	if f.k == 0 || f.k > f.samples { // the number of samples comes from the run, and is not known yet
		cfg.EvalK = f.samples
	}
	if f.maxToks > 0 {
		cfg.MaxTokens, cfg.OverlongBuffer = f.maxToks, min(cfg.OverlongBuffer, f.maxToks)
		if cfg.MaxConversationTokens > 0 {
			cfg.MaxConversationTokens = max(cfg.MaxConversationTokens, f.maxToks)
		}
	}
	if f.samples == 0 {
		cfg.EvalTemperature = 1 // unused
	}
}

// check refuses invalid numbers, by the names of the flags.
func (f *evalFlags) check() error {
	if f.split != "test" && f.data == "" {
		return badinput.Errorf("--split %s needs data; type --data SOURCE, too", f.split)
	}
	if err := dataset.CheckSplit(f.split); err != nil {
		return badinput.Errorf("--split: %w", err)
	}
	if f.split != "test" && f.data == configs.DefaultPreset {
		return badinput.Errorf("--split %s: %s is evaluated on its held-out problems; leave --split out", f.split, f.data)
	}
	for _, n := range []struct {
		flag  string
		value int
	}{{"--problems", f.problems}, {"--samples", f.samples}, {"--k", f.k}, {"--max-tokens", f.maxToks}} {
		if n.value < 0 {
			return badinput.Errorf("%s: found %d, expected 0 or more", n.flag, n.value)
		}
	}
	if f.samples > configs.MostSamples {
		return badinput.Errorf("--samples: found %d, expected at most %d", f.samples, configs.MostSamples)
	}
	if f.k > f.samples && (f.recorded == "" || f.trained != nil) {
		return badinput.Errorf("--k: found %d, expected at most --samples, which is %d", f.k, f.samples)
	}
	if f.samples > 0 && !(f.temperature > 0) {
		return badinput.Errorf("--temperature: found %v, expected a number above 0; the greedy completion of each problem is always included",
			f.temperature)
	}
	return nil
}
