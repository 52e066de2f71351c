package sources

import (
	_ "embed"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// PromptTemplate is the prompt template of a configuration.
func PromptTemplate(cfg *configs.Config) (*prompt.Builder, error) {
	switch {
	case cfg.PromptTemplate != "":
		words, err := prompt.Load(cfg.PromptTemplate)
		return words, MissingText(cfg, "prompt_template", err)
	case cfg.Model == Embedded:
		return tiny.PromptTemplate()
	}
	return prompt.Default(), nil
}

//go:embed heal.tmpl
var healWords string

// HealTemplate is the template for the answer to a wrong program, with env=heal.
func HealTemplate(cfg *configs.Config) (text string, err error) {
	switch {
	case cfg.HealTemplate != "":
		words, err := openfile.Read(cfg.HealTemplate)
		if err != nil {
			return "", MissingText(cfg, "heal_template", badinput.Errorf("heal_template: %w", err))
		}
		return string(words), nil
	case cfg.Model == Embedded:
		return tiny.HealTemplate(), nil
	}
	return healWords, nil
}
