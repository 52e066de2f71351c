package suites

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/outcome"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/suite"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/internal/version"
	"github.com/seed-7879b91d/grpo/reward"
)

// Card documents an evaluation: what was asked, how, and the results.
type Card struct {
	Suite      string `json:"suite"`
	Title      string `json:"title"`
	Source     string `json:"source"`
	SHA256     string `json:"source_sha256"`
	Commit     string `json:"source_commit,omitempty"` // on the Hub
	From       string `json:"from,omitempty"`
	To         string `json:"to,omitempty"`
	Difficulty string `json:"difficulty,omitempty"`
	Problems   int    `json:"problems"`
	Refused    int    `json:"refused,omitempty"`
	NoRoom     int    `json:"left_out_too_long,omitempty"`
	LessRoom   int    `json:"less_room,omitempty"`

	Model       string   `json:"model"`
	ModelSHA256 string   `json:"model_sha256"`
	ModelCommit string   `json:"model_commit,omitempty"`
	Adapter     string   `json:"adapter,omitempty"`
	AdapterSHA  string   `json:"adapter_sha256,omitempty"`
	Run         string   `json:"run,omitempty"`
	Step        *int     `json:"step,omitempty"`
	Style       string   `json:"style"`
	Shots       int      `json:"shots"`
	Prompt      string   `json:"prompt_template"` // "": the suite's own
	FirstPrompt string   `json:"first_prompt"`    // as the model read it
	Renderer    string   `json:"renderer"`
	Stop        []string `json:"stop,omitempty"`
	Samples     int      `json:"samples"`
	K           int      `json:"k"`
	Temperature float64  `json:"temperature"`
	TopP        float64  `json:"top_p"`
	TopK        int      `json:"top_k"`
	MinP        float64  `json:"min_p"`
	MaxTokens   int      `json:"max_tokens"`
	Seed        uint64   `json:"seed"`
	Papers      string   `json:"papers"`
	Deviations  []string `json:"deviations"` // from what papers report

	Sandbox     reward.Backend `json:"sandbox"`
	TimeLimit   float64        `json:"time_limit_seconds"`
	MemoryLimit int            `json:"memory_limit_mb"`
	Precision   string         `json:"precision"`
	Order       string         `json:"order"`
	Backend     string         `json:"backend"`
	Program     string         `json:"grpo"`

	Results
	Contamination *Contamination `json:"contamination"` // null: not checked
}

// CardInput is the input of a card.
type CardInput struct {
	Evaluator  *grpo.Evaluator
	Evaluation *grpo.Evaluation
	Report     *outcome.Report
	Run        *configs.Config // the training settings of a run; nil: no run
	RunDir     string
}

// Card makes the card.
func (p *Plan) Card(ctx context.Context, e CardInput) (*Card, error) {
	cfg := e.Evaluator.Settings()
	c := &Card{Suite: p.Suite.Name, Title: p.Suite.Title, Source: p.Source, SHA256: p.Origin.SHA256, Commit: p.Origin.Commit,
		From: p.flags.from, To: p.flags.to, Difficulty: p.Options.Difficulty, Problems: e.Report.Problems, Refused: len(p.Refused),
		NoRoom: e.Report.NoRoom, LessRoom: e.Report.LessRoom, Model: e.Report.Model, Adapter: e.Report.Adapter,
		Style: string(p.Options.Style), Shots: p.Options.Shots, Prompt: p.Prompt, Renderer: cfg.Renderer, Stop: cfg.Stop,
		Samples: cfg.EvalSamples, K: cfg.EvalK, Temperature: cfg.EvalTemperature, TopP: cfg.EvalTopP, TopK: cfg.EvalTopK, MinP: cfg.EvalMinP,
		MaxTokens: cfg.MaxTokens, Seed: cfg.Seed, Papers: p.Suite.Papers, Sandbox: e.Evaluator.Sandbox(), TimeLimit: cfg.RewardTimeout,
		MemoryLimit: 1024, Precision: cfg.Precision, Order: cfg.Order, Backend: e.Report.Backend, Program: version.Program(),
		Results: results(e.Evaluation, cfg.Seed)}
	language := e.Evaluator.Language()
	print, err := provenance.FingerprintModel(language.Dir)
	if err != nil {
		return nil, err
	}
	c.ModelSHA256, c.ModelCommit = print.SHA256, print.Commit
	if held := e.Evaluator.HeldOut(); len(held) > 0 {
		if _, c.FirstPrompt, err = language.Prompt(ctx, &held[0]); err != nil {
			return nil, err
		}
	}
	adapter := c.Adapter
	if e.Run != nil {
		c.Run, c.Step = e.RunDir, &e.Evaluation.Step
		if e.Run.Train != "full" {
			adapter = filepath.Join(e.Report.Checkpoint, "adapter")
		}
	}
	if adapter != "" {
		if print, err = provenance.FingerprintAdapter(adapter); err != nil {
			return nil, err
		}
		c.Adapter, c.AdapterSHA = adapter, print.SHA256
	}
	c.deviations(p, cfg)
	c.Contamination, err = p.contamination(ctx, e)
	return c, err
}

// deviations lists the settings that differ from those of papers.
func (c *Card) deviations(p *Plan, cfg *configs.Config) {
	c.Deviations = []string{}
	s := p.Suite.Settings
	note := func(differs bool, format string, args ...any) {
		if differs {
			c.Deviations = append(c.Deviations, fmt.Sprintf(format, args...))
		}
	}
	note(cfg.EvalSamples != s.Samples, "%d samples, %d in the suite", cfg.EvalSamples, s.Samples)
	note(cfg.EvalSamples > 0 && cfg.EvalTemperature != s.Temperature, "temperature %v, %v in the suite", cfg.EvalTemperature, s.Temperature)
	note(cfg.EvalSamples > 0 && cfg.EvalTopP != s.TopP, "top_p %v, %v in the suite", cfg.EvalTopP, s.TopP)
	note(cfg.EvalSamples > 0 && cfg.EvalTopK > 0, "top_k %d, none in the suite", cfg.EvalTopK)
	note(cfg.EvalSamples > 0 && cfg.EvalMinP > 0, "min_p %v, none in the suite", cfg.EvalMinP)
	note(cfg.MaxTokens != s.MaxTokens, "%d tokens at most, %d in the suite", cfg.MaxTokens, s.MaxTokens)
	note(cfg.PromptTemplate != p.Template, "a prompt of your own, %s", cfg.PromptTemplate)
	note(p.Options.First > 0, "the first %d problems alone", p.Options.First)
	note(c.Style == string(suite.Completion) && c.Shots != s.Shots, "%d examples, %d in the suite", c.Shots, s.Shots)
	note(c.Style == string(suite.Chat) && c.Shots > 0, "%d examples in a chat, none in the suite", c.Shots)
	note(c.Refused > 0, "%d problems left out, whose tests fit no known shape", c.Refused)
	note(c.NoRoom > 0, "%d problems left out, whose prompts take all of the model's positions", c.NoRoom)
	note(cfg.MaxTests > 0, "judged by %d tests of a problem", cfg.MaxTests)
	if cfg.PromptTemplate != p.Template {
		c.Prompt = cfg.PromptTemplate
	}
}

// Write writes the card to --card.
func (c *Card) Write(path string) error {
	if path == "" {
		return nil
	}
	err := atomicfile.Result(path, func(w io.Writer) error {
		if strings.HasSuffix(path, ".json") {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			return enc.Encode(c)
		}
		_, err := io.WriteString(w, c.Markdown())
		return err
	})
	if err != nil {
		return fmt.Errorf("--card: %w", err)
	}
	return nil
}

// Print prints what the verb's table does not have.
func (c *Card) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, %s: %s of %s (SHA-256 %.12s…)\n", c.Title, c.Style, plural.Of(c.Problems, "problem"), c.Source, c.SHA256)
	if len(c.PassAt) > 1 {
		b.WriteString("sampled: " + strings.Join(slices.Collect(passes(c.PassAt)), ", ") + "\n")
	}
	for _, g := range c.Groups {
		greedy := fmt.Sprintf("pass@1 %.3f [%.3f, %.3f] greedy", g.Greedy, g.CI[0], g.CI[1])
		if stats.Unjudged(g.Greedy, g.CI) {
			greedy = "not judged"
		}
		fmt.Fprintf(&b, "%-10s %4d problems  %s%s\n", g.Name, g.Problems, greedy, g.sampled())
	}
	if len(c.Deviations) > 0 {
		b.WriteString("different from the papers: " + strings.Join(c.Deviations, "; ") + "\n")
	}
	b.WriteString(c.Contamination.String() + "\n")
	_, err := io.WriteString(w, display.Visible(b.String()))
	return err
}
