// Package suites is the part of the verb eval for the sets that papers report on, with a card that documents how they were run.
package suites

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/suite"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/reward"
)

// Flags are the flags of the verb about suites.
type Flags struct {
	Name, Card string
	Oracle     bool

	from, to, difficulty, style string
	shots                       int
	against                     []string
}

// Register adds them to the verb.
func (f *Flags) Register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.Name, "suite", "", "`name` of a published benchmark, sampled as in papers: "+strings.Join(suite.Names(), ", "))
	fl.StringVar(&f.Card, "card", "", "`file` (.md or .json) for a card with the results of the suite and every setting")
	fl.StringVar(&f.from, "from", "", "for a dated suite: problems of this `day` and later, such as 2024-08-01")
	fl.StringVar(&f.to, "to", "", "for a dated suite: problems of this `day` and earlier")
	fl.StringVar(&f.difficulty, "difficulty", "", "for a dated suite: only easy, medium or hard problems")
	fl.StringVar(&f.style, "style", string(suite.Chat), "prompts of a suite: chat, or completion for models without a chat template")
	fl.IntVar(&f.shots, "shots", 0, "solved examples in the prompt of a suite; if not given: as in papers")
	fl.StringSliceVar(&f.against, "against", nil,
		"data sets to search for the problems of the suite; if not given, with --run: its training data; none: no search")
	fl.BoolVar(&f.Oracle, "oracle", false, "judge the suite's own solutions, not a model's")
	for _, ofModel := range []string{"out", "card", "against", "run", "adapter"} {
		cmd.MarkFlagsMutuallyExclusive("oracle", ofModel)
	}
}

// suiteFlags are the flags that require --suite.
var suiteFlags = []string{"card", "from", "to", "difficulty", "style", "shots", "against", "oracle"}

// Plan is a suite as it is to be evaluated.
type Plan struct {
	*suite.Built
	flags   *Flags
	changed func(flag string) bool
	words   []string
}

// Open finds the suite and prepares its problems; without --suite it returns nil. source, if not "", replaces the suite's own source;
// first is --problems. there checks that the model exists, before gigabytes of problems are downloaded for it.
func (f *Flags) Open(cmd *cobra.Command, source string, first int, words []string, there func() error) (*Plan, error) {
	changed := cmd.Flags().Changed
	if f.Name == "" {
		for _, flag := range suiteFlags {
			if changed(flag) {
				return nil, badinput.Errorf("--%s needs a suite; type --suite %s, too", flag, strings.Join(suite.Names(), "|"))
			}
		}
		return nil, nil
	}
	if changed("split") {
		return nil, badinput.Errorf("--split: %s prescribes its own part of the data; leave --split out", f.Name)
	}
	for _, key := range refusedSettings {
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, key+"=") }) {
			return nil, badinput.Errorf("%s: --suite prompts in one turn, and judges by its own tests; leave it out", key)
		}
	}
	s, err := suite.Find(f.Name)
	if err != nil {
		return nil, badinput.Errorf("--suite: %w", err)
	}
	o := suite.Options{Source: source, Difficulty: f.difficulty, Style: suite.Style(f.style), Shots: f.shots, First: max(first, 0)}
	if !changed("shots") && o.Style == suite.Completion {
		o.Shots = s.Settings.Shots
	}
	for _, day := range []struct {
		flag, text string
		to         *time.Time
	}{{"from", f.from, &o.From}, {"to", f.to, &o.To}} {
		if day.text == "" {
			continue
		}
		if *day.to, err = time.Parse(time.DateOnly, day.text); err != nil {
			return nil, badinput.Errorf("--%s: found %q, expected a day such as 2024-08-01", day.flag, day.text)
		}
	}
	if err = s.Check(o); err == nil && f.Oracle && s.Unsolved {
		err = badinput.Errorf("--oracle: %s has no solutions; leave it out", s.Title)
	}
	if err == nil {
		err = there()
	}
	if err == nil {
		err = f.checkAgainst(cmd.Context())
	}
	if err != nil {
		return nil, err
	}
	built, err := s.Build(cmd.Context(), o)
	if err != nil {
		return nil, err
	}
	return &Plan{Built: built, flags: f, changed: changed, words: words}, nil
}

// refusedSettings are settings that a suite does not allow.
var refusedSettings = []string{"env", "heal_template", "mcp", "tools", "conversation_seconds", "openenv_action", "openenv_template",
	"reward", "reward_weights", "reward_file", "reward_python", "judge_url", "judge_model", "judge_prompt", "judge_score", "judge_budget",
	"judge_slots", "judge_timeout", "blocklist", "reject_blocklisted"}

// CheckCard checks where the card is to be written.
func (f *Flags) CheckCard(run string) error {
	if f.Card != "" && !strings.HasSuffix(f.Card, ".md") && !strings.HasSuffix(f.Card, ".json") {
		return badinput.Errorf("--card %s: expected a name that ends in .md or .json", f.Card)
	}
	return destination.Place{Flag: "--card", Path: f.Card, Name: "card.md", Run: run}.Check()
}

// Requested are the flags of the verb for which a suite has its own defaults.
type Requested struct {
	Samples, K, MaxTokens *int
	Temperature           *float64
}

// ApplyDefaults sets the suite's defaults for what the user did not say.
func (p *Plan) ApplyDefaults(a Requested) {
	s := p.Suite.Settings
	if !p.changed("samples") {
		*a.Samples = s.Samples
	}
	if !p.changed("k") {
		*a.K = min(s.K, *a.Samples)
	}
	if !p.changed("max-tokens") {
		*a.MaxTokens = s.MaxTokens
	}
	if !p.changed("temperature") {
		*a.Temperature = s.Temperature
	}
}

// Configure sets up a configuration for the suite: one turn, the suite's prompts, and all tests as they are. Settings that the user
// typed as key=value stay.
func (p *Plan) Configure(cfg *configs.Config) {
	d := configs.Defaults()
	cfg.Env, cfg.HealTemplate, cfg.MCP, cfg.Tools, cfg.ConversationSeconds = d.Env, d.HealTemplate, d.MCP, d.Tools, d.ConversationSeconds
	cfg.OpenEnvAction, cfg.OpenEnvTemplate = d.OpenEnvAction, d.OpenEnvTemplate
	set := func(key string, change func()) {
		if !slices.ContainsFunc(p.words, func(w string) bool { return strings.HasPrefix(w, key+"=") }) {
			change()
		}
	}
	set("prompt_template", func() { cfg.PromptTemplate = p.Template })
	set("eval_top_p", func() { cfg.EvalTopP = p.Suite.TopP })
	set("eval_top_k", func() { cfg.EvalTopK = d.EvalTopK })
	set("eval_min_p", func() { cfg.EvalMinP = d.EvalMinP })
	set("max_tests", func() { cfg.MaxTests = 0 })
	set("comparator", func() { cfg.Comparator = d.Comparator })
	set("on_truncated", func() { cfg.OnTruncated = d.OnTruncated })
	set("reward_timeout", func() { cfg.RewardTimeout = d.RewardTimeout })
	// Rewards beyond the tests are not needed, and their files may be gone.
	cfg.Reward, cfg.RewardWeights, cfg.RewardFile, cfg.RewardPython = d.Reward, d.RewardWeights, d.RewardFile, d.RewardPython
	cfg.JudgeURL, cfg.JudgeModel, cfg.JudgePrompt, cfg.JudgeScore = d.JudgeURL, d.JudgeModel, d.JudgePrompt, d.JudgeScore
	cfg.JudgeBudget, cfg.JudgeSlots, cfg.JudgeTimeout = d.JudgeBudget, d.JudgeSlots, d.JudgeTimeout
	cfg.Blocklist, cfg.RejectBlocklisted = d.Blocklist, d.RejectBlocklisted
	if p.Options.Style == suite.Completion {
		set("renderer", func() { cfg.Renderer = "plain" })
		set("stop", func() { cfg.Stop = p.Suite.Stops() })
	}
}

// Grading is how the evaluator judges completions: continuations of a text are completed to programs first.
func (p *Plan) Grading() []grpo.Option {
	if p.Options.Style != suite.Completion {
		return nil
	}
	return []grpo.Option{grpo.WrapGrader(func(inner reward.Grader) reward.Grader {
		return reward.GraderFunc(func(ctx context.Context, c reward.Completion) (reward.Score, error) {
			return inner.Grade(ctx, p.whole(c))
		})
	})}
}

// whole prepends the beginning of the problem to a completion that continues it.
func (p *Plan) whole(c reward.Completion) reward.Completion {
	if c.Text = p.Suite.Ended(c.Text); p.Suite.Programs() {
		c.Text, c.Bare = suite.Of(c.Problem).Prefix+c.Text+"\n", true
	}
	return c
}

// String describes the suite in a line.
func (p *Plan) String() string {
	text := p.Suite.Title
	if p.Suite.Dated {
		day := func(t time.Time, never string) string {
			if t.IsZero() {
				return never
			}
			return t.Format(time.DateOnly)
		}
		text += fmt.Sprintf(", %s to %s", day(p.Options.From, "the first day"), day(p.Options.To, "the last"))
	}
	if p.Options.Difficulty != "" {
		text += ", " + p.Options.Difficulty
	}
	return text
}
