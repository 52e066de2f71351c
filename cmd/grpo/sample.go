package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/output"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// sampleFlags are the flags of the verb sample.
type sampleFlags struct {
	policyFlags
	promptFlags
	recorded string   // the run's directory
	step     int      // of the run; below 0: the last
	who      []string // describes the run's policy, for the output
	n        int
	seed     uint64
	params   sampler.Params
	stop     []string
	json     bool
	engine   sampler.Options
}

func newSampleCmd() *cobra.Command {
	var f sampleFlags
	cmd := &cobra.Command{
		Use:   "sample (--run DIR [--step N] | --model DIR [--adapter DIR]) (--prompt TEXT | --messages FILE | --tokens FILE | --data SOURCE)",
		Short: "Sample completions of prompts from a model or a run",
		Long: `Samples completions in the chat format of the model and streams them to the terminal; with --json, writes one line per
completion: {"prompt":i,"sample":j,"tokens":[…],"logprobs":[…],"text":"…","finish_reason":"stop|length"}.

--messages reads JSON Lines {"messages":[{"role":"user","content":"…"}]}, optionally with "tools"; --tokens reads JSON Lines
{"tokens":[…]}, uses these prompts as they are, and needs no tokenizer. A completion depends on the seed, its prompt's place among the
prompts, and its own number, not on what is sampled beside it.

With --run, it samples from the policy of a run, at its last checkpoint or at --step, prompted as in training: --prompt is the
statement of a problem, for the run's prompt template, and --data reads problems. The chat format, stop strings, temperature and length
of completions are the run's, unless flags say otherwise.`,
		Example: `  grpo sample --run runs/x --prompt "Read an integer x. Print x plus 1."
  grpo sample --run runs/x --step 20 --data tasks.jsonl --n 4 --temperature 0.7
  grpo sample --model ~/Qwen3-0.6B --prompt "Write a haiku in Python."
  grpo sample --model ~/Qwen3-0.6B --adapter ~/adapter --messages chats.jsonl --n 4 --temperature 0.7 --json`,
		Args: usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.policyFlags.registerAll(cmd)
	f.promptFlags.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.recorded, "run", "", "`directory` of a run, or of one of its checkpoints")
	fl.StringVar(&f.problems, "data", "", "problems, a SOURCE as in 'grpo data', put into the run's prompt template")
	fl.IntVar(&f.step, "step", -1, "sample from the checkpoint of this step of the run, not the last")
	fl.IntVar(&f.n, "n", 1, "completions per prompt")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the sampling")
	fl.IntVar(&f.params.MaxTokens, "max-tokens", 512, "most tokens of a completion")
	fl.Float32Var(&f.params.Temperature, "temperature", 1, "sampling temperature; 0: always the most likely token")
	fl.Float32Var(&f.params.TopP, "top-p", 1, "sample from the fewest tokens whose probabilities add up to this")
	fl.IntVar(&f.params.TopK, "top-k", 0, "sample from the k most likely tokens; 0: all")
	fl.Float32Var(&f.params.MinP, "min-p", 0, "sample from tokens with at least this share of the highest probability")
	fl.StringArrayVar(&f.stop, "stop", nil, "`text` that ends a completion; may be given several times")
	fl.BoolVar(&f.json, "json", false, "print a line of JSON for each completion")
	fl.IntVar(&f.engine.MaxSequences, "max-sequences", 0, "completions sampled at a time; 0: 64")
	fl.BoolVar(&f.engine.NoDrafts, "no-drafts", false, "no speculative decoding; completions do not depend on it")
	fl.Int64Var(&f.engine.CacheBytes, "cache-bytes", 0, "memory of the KV cache; 0: as needed, up to half of the free memory")
	cmd.MarkFlagsOneRequired("run", "model")
	for _, flag := range []string{"model", "adapter", "precision", "kv-cache-dtype", "adapter-precision", "quantize", "order"} {
		cmd.MarkFlagsMutuallyExclusive("run", flag)
	}
	return cmd
}

// follow takes the policy of a run, and its settings except for flags that were given.
func (f *sampleFlags) follow(cmd *cobra.Command) error {
	if f.recorded == "" {
		if cmd.Flags().Changed("step") {
			return badinput.Errorf("--step needs a run; type --run DIR instead of --model")
		}
		if f.problems != "" {
			return badinput.Errorf("--data needs the prompt template of a run; type --run DIR instead of --model")
		}
		return nil
	}
	saved, err := grpo.OpenSaved(f.recorded, f.step, screen.New(io.Discard, cmd.ErrOrStderr(), true, false))
	if err != nil {
		return err
	}
	run, given := saved.Settings, cmd.Flags().Changed
	for flag, said := range map[string][2]*string{"renderer": {&f.renderer, &run.Renderer}, "chat-date": {&f.chatDate, &run.ChatDate},
		"chat-vars": {&f.chatVars, &run.ChatVars}} {
		if given(flag) {
			*said[1] = *said[0]
		}
		*said[0] = *said[1]
	}
	language, err := saved.Language(cmd.Context())
	if err != nil {
		return err
	}
	f.model, f.adapter, f.precision, f.kv = language.Dir, saved.Trained(), run.Precision, run.KVCacheDtype
	f.adapted, f.quantize, f.order, f.kept = run.AdapterPrecision, run.Quantize, run.Order, true
	if run.Train == "full" {
		f.model, f.adapter = saved.Trained(), ""
	}
	if err := f.word(cmd.Context(), language, run.AnswerMatch); err != nil {
		return err
	}
	if !given("temperature") {
		f.params.Temperature = float32(run.Temperature)
	}
	if !given("max-tokens") {
		f.params.MaxTokens = run.MaxTokens
	}
	if !given("stop") {
		f.stop = run.Stop
	}
	f.who = []string{fmt.Sprintf("%s with %s, temperature %v", run.Model, saved.Dir, f.params.Temperature)}
	return nil
}

func (f *sampleFlags) run(cmd *cobra.Command) error {
	if e := f.engine; e.CacheBytes < 0 || e.MaxSequences < 0 {
		return badinput.Errorf("--cache-bytes and --max-sequences: found %d and %d, expected 0 or more", e.CacheBytes, e.MaxSequences)
	}
	if err := f.follow(cmd); err != nil {
		return err
	}
	if err := usage.CheckTemplateFlags(cmd.Flags(), f.renderer); err != nil {
		return err
	}
	prompts, tok, turnEnd, err := f.promptFlags.open(f.model, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if f.params.StopTokens, err = tokenizer.StopTokens(f.model, tok, turnEnd...); err != nil {
		return err
	}
	if len(f.stop) > 0 {
		if tok == nil {
			return badinput.Errorf("--stop: needs a tokenizer, and %s has none", f.model)
		}
		f.params.Watch = sampler.StopStrings(f.stop, func() sampler.TextStream { return tok.NewStream(false) })
	}
	longest := 0
	var requests []sampler.Request
	for i, p := range prompts {
		requests = append(requests, sampler.Request{Prompt: p, N: f.n, Key: sampler.Key{Seed: f.seed, Problem: i}, Params: f.params})
		longest = max(longest, len(p))
	}
	return f.withPolicy(cmd.Context(), func(_ kernels.Backend, p *model.Policy) error {
		o := f.engine
		o.MaxLength = min(longest+max(f.params.MaxTokens, 1), p.MaxPositions)
		if o.MaxSequences == 0 {
			o.MaxSequences = min(64, len(requests)*max(f.n, 1))
		}
		e, err := sampler.New(p, o)
		if err != nil {
			return err
		}
		for _, line := range append(f.who, e.Plan.String()) {
			screen.PrintLine(cmd.ErrOrStderr(), line)
		}
		return f.sample(cmd.Context(), e, requests, tok, cmd.OutOrStdout())
	})
}

// sampleLine is a completion as --json prints it.
type sampleLine struct {
	Prompt   int                  `json:"prompt"`
	Sample   int                  `json:"sample"`
	Tokens   []int32              `json:"tokens"`
	LogProbs []float32            `json:"logprobs"`
	Text     string               `json:"text"`
	Finish   sampler.FinishReason `json:"finish_reason"`
}

// sample prints completions: a single one as it is sampled, several when they are done, or as lines of JSON.
func (f *sampleFlags) sample(
	ctx context.Context, e *sampler.Engine, requests []sampler.Request, tok *tokenizer.Tokenizer, out io.Writer,
) error {
	alone := len(requests) == 1 && f.n == 1 && !f.json && tok != nil
	text := func([]int32) string { return "" } // without a tokenizer
	if tok != nil {
		text = tok.Text
	}
	shown := screen.Sanitizer(out)
	var on sampler.Events
	if alone {
		stream := tok.NewStream(true)
		on.Token = func(_, _ int, token int32) { fmt.Fprint(out, shown(stream.Push(token))) }
		on.Done = func(sampler.Rollout) { fmt.Fprintln(out, shown(stream.Flush())) }
	} else if !f.json {
		on.Done = func(r sampler.Rollout) {
			fmt.Fprintf(out, "--- prompt %d, sample %d, %s, %s\n%s\n", r.Request, r.Sample, plural.Of(len(r.Tokens), "token"),
				r.Finish, shown(text(r.Tokens)))
		}
	}
	rollouts, err := e.Sample(ctx, requests, on)
	if err != nil || !f.json {
		return err
	}
	lines := output.NewJSONLines(out)
	for _, r := range rollouts {
		if err := lines.Write(sampleLine{r.Request, r.Sample, r.Tokens, r.LogProbs, text(r.Tokens), r.Finish}); err != nil {
			return err
		}
	}
	return nil
}
