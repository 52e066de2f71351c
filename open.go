package grpo

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// openModel opens the policy, its adapter and the optimizer.
func (s *Session) openModel(ctx context.Context) error {
	cfg := s.Config
	dir, err := modelDir(ctx, cfg.Model)
	if err != nil {
		return err
	}
	s.baseDir = dir
	o := model.Options{MaxRows: cfg.MaxRows}
	if o.Precision, err = model.ParsePrecision(cfg.Precision); err != nil {
		return badinput.Errorf("precision: %w", err)
	}
	if cfg.Recompute == "blocks" {
		o.Recompute = model.RecomputeBlocks
	}
	s.Full = cfg.Train == "full"
	if s.Policy, err = model.Open(s.backend, dir, s.Full, o); err != nil {
		return err
	}
	if !s.Full {
		a, err := s.newAdapter()
		if err != nil {
			return err
		}
		if err := s.Policy.Attach(a); err != nil {
			return err
		}
	}
	params, grads, locate := s.Policy.Slabs()
	s.Adam, err = optim.NewAdam(s.backend, params, grads, optim.Config{Beta1: cfg.AdamBeta1, Beta2: cfg.AdamBeta2, Eps: cfg.AdamEps,
		WeightDecay: cfg.WeightDecay, ClipNorm: cfg.GradClipNorm}, locate)
	return err
}

// newAdapter is the adapter that the run starts from.
func (s *Session) newAdapter() (*lora.Adapter, error) {
	cfg := s.Config
	c := lora.Config{Rank: cfg.LoRARank, Alpha: cfg.LoRAAlpha}
	for _, name := range cfg.LoRATargets {
		t, err := lora.ParseTarget(name)
		if err != nil {
			return nil, err
		}
		c.Targets = append(c.Targets, t)
	}
	layout, err := lora.NewLayout(c, s.Policy.LoRADims())
	if err != nil {
		return nil, err
	}
	a := lora.New(layout)
	if cfg.Adapter == "" {
		a.Init(cfg.Seed)
		return a, nil
	}
	given, err := lora.Load(cfg.Adapter, s.Policy.LoRADims())
	if err != nil {
		return nil, err
	}
	if given.Len() != a.Len() || given.Scale() != a.Scale() {
		return nil, badinput.Errorf("adapter %s has rank %d, alpha %v and targets %v; the configuration says rank %d, alpha %v and targets %v",
			cfg.Adapter, given.Config.Rank, given.Config.Alpha, given.Config.Targets, c.Rank, c.Alpha, layout.Config.Targets)
	}
	return given, nil
}

// openText opens the tokenizer, the chat format and the wording.
func (s *Session) openText(context.Context) (err error) {
	if s.Tokenizer, err = tokenizer.Load(s.baseDir); err != nil {
		return err
	}
	if s.Config.Renderer == "auto" {
		s.Renderer, err = chat.ForModel(s.Tokenizer)
	} else {
		s.Renderer, err = chat.New(s.Config.Renderer, s.Tokenizer)
	}
	if err != nil {
		return err
	}
	s.Wording, err = wording(s.Config)
	return err
}

// openProblems opens the problems to train on and those that are held out.
func (s *Session) openProblems(ctx context.Context) error {
	train, held, err := s.problems(ctx)
	if err != nil {
		return err
	}
	cfg := s.Config
	kept, dropped, err := data.Filter{MinTests: cfg.MinProblemTests, MaxTests: cfg.MaxProblemTests, MinPromptChars: cfg.MinPromptChars,
		MaxPromptChars: cfg.MaxPromptChars, TruncatePrompts: cfg.TruncatePrompts, Sources: cfg.DataSources}.Apply(train)
	if err != nil {
		return err
	}
	if cfg.Comparator == "tolerant" {
		tolerate(kept, cfg.Tolerance)
		tolerate(held, cfg.Tolerance)
	}
	s.dropped = dropped
	if err := s.holdOut(held, kept); err != nil {
		return err
	}
	s.Problems, err = data.NewPool(kept, cfg.Seed, data.Difficulty{Patience: cfg.DifficultyPatience, Keep: cfg.DifficultyKeep})
	s.train = kept
	return err
}

// holdOut takes the problems to evaluate on: the first eval_problems that are not trained on.
func (s *Session) holdOut(held, train []data.Problem) error {
	trained := make(map[string]bool, len(train))
	for i := range train {
		trained[train[i].ID] = true
	}
	both := 0
	for _, p := range held {
		switch n := s.Config.EvalProblems; {
		case trained[p.ID]:
			both++
		case n == 0 || len(s.HeldOut) < n:
			s.HeldOut = append(s.HeldOut, p)
		}
	}
	if both > 0 && len(s.HeldOut) == 0 {
		return badinput.Errorf("test_data: all its problems are among those to train on; give others, or type test_data= eval_every=-1")
	}
	if both > 0 {
		s.Watcher.Warn(fmt.Sprintf("%d problems of test_data are among those to train on, and are not evaluated", both))
	}
	return nil
}

// tolerate lets numbers differ by so much, for problems that say nothing themselves.
func tolerate(problems []data.Problem, tolerance float64) {
	for i := range problems {
		if problems[i].Tolerance == 0 {
			problems[i].Tolerance = tolerance
		}
	}
}

// setRules turns the configuration into the rules of the trainer.
func (s *Session) setRules(context.Context) error {
	cfg := s.Config
	loss, err := kernels.ParseLoss(cfg.Loss)
	if err != nil {
		return badinput.Errorf("loss: %w", err)
	}
	if loss.Kind == kernels.PPO || loss.Kind == kernels.CISPO {
		loss.Low, loss.High = float32(cfg.ClipLow), float32(cfg.ClipHigh)
	}
	reduction, err := model.ParseReduction(cfg.Reduction)
	if err != nil {
		return badinput.Errorf("reduction: %w", err)
	}
	schedule, err := optim.ParseSchedule(cfg.Schedule, cfg.SchedulerTotalSteps, cfg.WarmupSteps)
	if err != nil {
		return err
	}
	stops, err := tokenizer.StopTokens(s.baseDir, s.Tokenizer, s.Renderer.Stop()...)
	if err != nil {
		return err
	}
	sampling := sampler.Params{Temperature: float32(cfg.Temperature), MaxTokens: cfg.MaxTokens, StopTokens: stops,
		Watch: sampler.StopStrings(cfg.Stop, func() sampler.TextStream { return s.Tokenizer.NewStream(false) })}
	eval := sampling
	eval.TopK, eval.TopP, eval.MinP = cfg.EvalTopK, float32(cfg.EvalTopP), float32(cfg.EvalMinP)
	s.Rules = Rules{
		Seed: cfg.Seed, PromptsPerStep: cfg.PromptsPerStep, CompletionsPerPrompt: cfg.CompletionsPerPrompt, Sampling: sampling,
		Advantage:  AdvantageKind(cfg.Advantage),
		Objective:  model.Objective{Loss: loss, Reduction: reduction, Temperature: float32(cfg.Temperature)},
		Iterations: cfg.NumIterations, LearningRate: cfg.LearningRate, Schedule: schedule, ScoreWhenDone: cfg.Pipeline == "off",
		SampleAhead: cfg.Pipeline == "full", MaxSteps: cfg.MaxSteps, SaveEvery: max(cfg.SaveEvery, 0), KeepLast: cfg.KeepLast, KeepBest: cfg.KeepBest,
		Deterministic: cfg.Deterministic, BaseModel: s.baseDir, Full: s.Full, EvalEvery: cfg.EvalEvery,
		Eval: EvalRules{Samples: cfg.EvalSamples, K: cfg.EvalK, Temperature: float32(cfg.EvalTemperature), Sampling: eval},
	}
	if cfg.Refill {
		s.MaxRefills = cfg.MaxRefills
	}
	return nil
}

// openSampler makes room for the longest prompt that there is, with a completion of full length.
func (s *Session) openSampler(context.Context) error {
	longest, where := 0, ""
	for set, problems := range map[string][]data.Problem{"data": s.train, "test_data": s.HeldOut} {
		groups, err := s.render(problems)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if len(g.Prompt) > longest {
				longest, where = len(g.Prompt), fmt.Sprintf("problem %s of %s", g.Problem.ID, set)
			}
		}
	}
	s.longestPrompt = longest
	cfg := s.Config
	length := longest + cfg.MaxTokens
	if length > s.Policy.MaxPositions {
		return badinput.Errorf("max_tokens is %d and the longest prompt, %s, has %d tokens: %d together, more than the model's %d positions; lower max_tokens, or leave the problem out (max_prompt_chars is for data)",
			cfg.MaxTokens, where, longest, length, s.Policy.MaxPositions)
	}
	var err error
	if s.activations, err = s.Policy.Prepare(length); err != nil {
		return err
	}
	s.Engine, err = sampler.New(s.Policy, sampler.Options{MaxSequences: cfg.MaxSequences, MaxLength: length, TokenBudget: cfg.TokenBudget, CacheBytes: int64(cfg.CacheMemory)})
	return err
}

// openJudge opens the sandbox and what judges with it.
func (s *Session) openJudge(ctx context.Context) (err error) {
	cfg := s.Config
	rc := reward.Config{Weights: cfg.Weights(), File: cfg.RewardFile, OnTruncated: reward.Truncation(cfg.OnTruncated),
		Timeout: time.Duration(cfg.RewardTimeout * float64(time.Second)), MaxTests: cfg.MaxTests, InfraLimit: cfg.InfraThreshold,
		Sandbox: cfg.Sandbox, URL: cfg.SandboxURL, Slots: cfg.SandboxSlots, Python: cfg.Python}
	if cfg.Sandbox == "fusion" {
		if cfg.SandboxURL == "" && os.Getenv("SANDBOX_URL") == "" {
			return badinput.Errorf("sandbox=fusion: no server is named; type sandbox_url=http://host:8080, or set SANDBOX_URL")
		}
		rc.Sandbox = "auto"
	}
	if s.Judge, err = reward.Open(ctx, rc); err != nil {
		return err
	}
	s.Grader = s.Judge
	s.closers = append(s.closers, s.Judge)
	if cfg.Blocklist != "" {
		list, err := data.LoadBlocklist(cfg.Blocklist)
		if err != nil {
			return err
		}
		s.Grader = blocking{s.Judge, list, cfg.RejectBlocklisted}
	}
	return nil
}

// blocking scores completions that contain a blocked string.
type blocking struct {
	reward.Grader
	list   data.Blocklist
	reject bool
}

func (b blocking) Grade(ctx context.Context, c reward.Completion) (reward.Score, error) {
	word, found := b.list.Find(c.Text)
	if found && b.reject {
		return reward.Score{Blocked: word}, nil
	}
	s, err := b.Grader.Grade(ctx, c)
	s.Blocked = word
	return s, err
}
