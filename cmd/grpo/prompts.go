package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/input"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/match"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// promptFlags are the flags about prompts.
type promptFlags struct {
	prompt, messages, tokens string
	problems                 string // a data set, for a run's template
	renderer                 string
	chatDate, chatVars       string // for the model's chat template

	worded [][]int32 // --prompt or the problems, rendered as the run does; nil: --prompt is a plain message
}

// conversation is a line of --messages.
type conversation struct {
	Messages []chat.Message `json:"messages"`
	Tools    []chat.Tool    `json:"tools"`
}

func (f *promptFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.prompt, "prompt", "", "`text` of one user message")
	fl.StringVar(&f.messages, "messages", "", "JSON Lines `file` of conversations; - for standard input")
	fl.StringVar(&f.tokens, "tokens", "", "JSON Lines `file` of token prompts; - for standard input")
	fl.StringVar(&f.renderer, "renderer", "", "chat format: plain, "+strings.Join(chat.Names(), ", ")+"; if not given, the model's template")
	fl.StringVar(&f.chatDate, "chat-date", configs.Defaults().ChatDate, "`day` that the model's chat template uses as today")
	fl.StringVar(&f.chatVars, "chat-vars", "", "`JSON` object of variables for the model's chat template")
	for _, words := range []string{"renderer", "chat-date", "chat-vars"} {
		cmd.MarkFlagsMutuallyExclusive("tokens", words)
	}
}

// open returns tokenized prompts, the model's tokenizer if it has one, and the stop tokens if the prompts are in a chat
// format.
func (f *promptFlags) open(dir string, stdin io.Reader) (prompts [][]int32, tok *tokenizer.Tokenizer, turnEnd []int32, err error) {
	given := 0
	for _, s := range []string{f.prompt, f.messages, f.tokens, f.problems} {
		if s != "" {
			given++
		}
	}
	switch {
	case given != 1:
		err = badinput.Errorf("--prompt, --messages, --tokens, --data: expected exactly one of them; type --prompt TEXT")
	case f.tokens != "":
		prompts, tok, err = f.read(dir, stdin)
	default:
		prompts, tok, turnEnd, err = f.render(dir, stdin)
	}
	if err == nil && len(prompts) == 0 {
		err = badinput.Errorf("no prompts")
	}
	return prompts, tok, turnEnd, err
}

// read reads prompts that are tokens, so that the model needs no tokenizer.
func (f *promptFlags) read(dir string, stdin io.Reader) (prompts [][]int32, tok *tokenizer.Tokenizer, err error) {
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err == nil {
		if tok, err = tokenizer.Load(dir); err != nil {
			return nil, nil, err
		}
	}
	err = input.Each(f.tokens, stdin, func(_ int, v tokenLine) error {
		prompts = append(prompts, v.Tokens)
		return nil
	})
	return prompts, tok, err
}

// render renders conversations in the chat format.
func (f *promptFlags) render(dir string, stdin io.Reader) (prompts [][]int32, tok *tokenizer.Tokenizer, turnEnd []int32, err error) {
	if tok, err = tokenizer.Load(dir); err != nil {
		return nil, nil, nil, err
	}
	renderer, err := f.chosen(tok)
	if err != nil {
		return nil, nil, nil, err
	}
	add := func(messages []chat.Message, tools ...chat.Tool) error {
		prompt, _, err := renderer.Prompt(messages, tools...)
		prompts = append(prompts, prompt)
		return err
	}
	switch {
	case f.worded != nil:
		prompts = f.worded
	case f.prompt != "":
		err = add([]chat.Message{{Role: "user", Content: f.prompt}})
	default:
		err = input.Each(f.messages, stdin, func(_ int, c conversation) error { return add(c.Messages, c.Tools...) })
	}
	return prompts, tok, renderer.Stop(), err
}

// chosen is the renderer of --renderer, or the model's own.
func (f *promptFlags) chosen(tok *tokenizer.Tokenizer) (*chat.Renderer, error) {
	if f.renderer != "" && f.renderer != "auto" {
		return chat.New(f.renderer, tok)
	}
	vars, err := chat.ParseVars(f.chatVars)
	if err != nil {
		return nil, err
	}
	return chat.ForModel(tok, chat.Options{Date: f.chatDate, Vars: vars})
}

// word renders --prompt, or the problems, with the template of a run; by is how the run matches answers.
func (f *promptFlags) word(ctx context.Context, l *grpo.Language, by string) error {
	problems := []data.Problem{{ID: "--prompt", Statement: f.prompt, Kind: data.Stdin}}
	switch {
	case f.problems != "":
		if by == "row" {
			by = ""
		}
		_, statErr := os.Stat(f.problems)
		set, err := dataset.Open(ctx, f.problems, dataset.Options{Setting: "--data", Split: "all", Strict: statErr == nil,
			AnswerMatch: match.By(by)})
		if err != nil {
			return err
		}
		defer set.Close()
		problems = set.Problems()
	case f.prompt == "":
		return nil
	}
	f.worded = make([][]int32, len(problems))
	for i := range problems {
		var err error
		if f.worded[i], _, err = l.Prompt(ctx, &problems[i]); err != nil {
			return err
		}
	}
	return nil
}
