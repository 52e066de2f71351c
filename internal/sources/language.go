package sources

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/model"
)

// Language has what is needed to talk to a model, without its weights: tokenizer, chat format and templates.
type Language struct {
	Dir       string // of the model
	Base      string // the model's name in saved adapters
	Shape     model.Config
	Tokenizer *tokenizer.Tokenizer
	Renderer  *chat.Renderer
	Stops     []int32 // stop tokens

	// Tools returns the tools offered to the model for a problem; nil: none.
	Tools func(context.Context, *data.Problem) ([]chat.Tool, error)

	// Begin returns the environment's first text about a problem, which ends the user's message; nil: none.
	Begin func(context.Context, *data.Problem) (string, error)

	wording *prompt.Builder
}

// OpenLanguage finds the model of a configuration, and opens its tokenizer, chat format and prompt template.
func OpenLanguage(ctx context.Context, cfg *configs.Config) (*Language, error) {
	precondition.NotNil("grpo.Saved.Language", "ctx", ctx)
	dir, err := ModelDir(ctx, cfg.Model)
	if err != nil {
		return nil, hintMovedModel(cfg, err)
	}
	l := &Language{Dir: dir, Base: dir}
	// Adapters name a downloaded base by its name on the Hub, not by the path of our copy. A fully trained model copies its
	// other files from there.
	switch {
	case cfg.Train == "full" || cfg.Model == Embedded:
	case cfg.Model != dir:
		l.Base, _, _ = strings.Cut(cfg.Model, "@")
	default:
		l.Base = BaseName(dir)
	}
	if l.Shape, err = model.ReadConfig(dir); err != nil {
		return nil, err
	}
	if l.Tokenizer, err = tokenizer.Load(dir); err != nil {
		return nil, err
	}
	if l.Renderer, err = renderer(cfg, l.Tokenizer); err != nil {
		return nil, err
	}
	if l.wording, err = PromptTemplate(cfg); err != nil {
		return nil, err
	}
	l.Stops, err = tokenizer.StopTokens(dir, l.Tokenizer, l.Renderer.Stop()...)
	return l, err
}

func renderer(cfg *configs.Config, tok *tokenizer.Tokenizer) (*chat.Renderer, error) {
	if cfg.Renderer != "auto" {
		return chat.New(cfg.Renderer, tok)
	}
	vars, err := chat.ParseVars(cfg.ChatVars)
	if err != nil {
		return nil, err
	}
	return chat.ForModel(tok, chat.Options{Date: cfg.ChatDate, Vars: vars})
}

// Prompt renders and tokenizes the prompt of a problem.
func (l *Language) Prompt(ctx context.Context, problem *data.Problem) (tokens []int32, text string, err error) {
	messages, tools, err := l.Messages(ctx, problem)
	if err != nil {
		return nil, "", err
	}
	if tokens, text, err = l.Renderer.Prompt(messages, tools...); err != nil {
		return nil, "", fmt.Errorf("problem %s: render: %w", problem.ID, err)
	}
	return tokens, text, nil
}

// Messages are the first messages of a conversation about a problem, and the tools offered to the model.
func (l *Language) Messages(ctx context.Context, problem *data.Problem) (messages []chat.Message, tools []chat.Tool, err error) {
	if messages, err = l.wording.Messages(problem); err != nil {
		return nil, nil, fmt.Errorf("problem %s: prompt: %w", problem.ID, err)
	}
	if l.Begin != nil {
		text, err := l.Begin(ctx, problem)
		if err != nil {
			return nil, nil, fmt.Errorf("problem %s: %w", problem.ID, err)
		}
		if last := &messages[len(messages)-1]; text != "" {
			last.Content = strings.TrimSpace(last.Content + "\n\n" + text)
		}
	}
	if l.Tools != nil {
		if tools, err = l.Tools(ctx, problem); err != nil {
			return nil, nil, fmt.Errorf("problem %s: tools: %w", problem.ID, err)
		}
	}
	return messages, tools, nil
}

// Longest is the number of tokens of the longest prompt. If the model is trained, a prompt without room for a full
// completion is an error.
func (p *Problems) Longest(ctx context.Context, l *Language, cfg *configs.Config, learns bool) (tokens int, err error) {
	where := ""
	for _, set := range []struct {
		name     string
		problems []data.Problem
	}{{"data", p.Train}, {"test_data", p.HeldOut}} {
		for i := range set.problems {
			prompt, _, err := l.Prompt(ctx, &set.problems[i])
			if err = cmp.Or(err, context.Cause(ctx)); err != nil { // a server that begins it may take a while
				return 0, err
			}
			if n := len(prompt); n > tokens {
				tokens, where = n, fmt.Sprintf("problem %s of %s", set.problems[i].ID, set.name)
			}
		}
	}
	if most := l.Shape.MaxPositions; learns && tokens+cfg.SequenceTokens() > most {
		return 0, tooLong(cfg, where, tokens, most)
	}
	return tokens, nil
}

// tooLong is the error of the longest prompt. It names the setting that leaves no room for a completion.
func tooLong(cfg *configs.Config, where string, tokens, most int) error {
	follows, lower := cfg.SequenceTokens(), "lower max_tokens"
	what := fmt.Sprintf("max_tokens is %d", follows)
	switch room := most - tokens; {
	case cfg.Env == "none":
	case cfg.MaxConversationTokens > 0:
		what, lower = fmt.Sprintf("max_conversation_tokens is %d", follows), "lower max_conversation_tokens"
	case cfg.MaxTurns == 1:
	default:
		what = fmt.Sprintf("max_turns is %d and max_tokens %d, so a conversation has up to %d", cfg.MaxTurns, cfg.MaxTokens, follows)
		if lower = "lower max_tokens and max_turns"; room >= cfg.MaxTokens {
			lower = fmt.Sprintf("type max_turns=%d or max_conversation_tokens=%d, lower max_tokens", room/cfg.MaxTokens, room)
		}
	}
	return badinput.Errorf("%s, and the longest prompt, %s, has %d tokens: %d together, more than the model's %d positions; "+
		"%s, or leave the problem out (max_prompt_chars leaves out those of a data set)", what, where, tokens, tokens+follows, most, lower)
}
