package sources

import (
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// Wording is how problems are put into words.
func Wording(cfg *configs.Config) (*prompt.Builder, error) {
	switch {
	case cfg.PromptTemplate != "":
		return prompt.Load(cfg.PromptTemplate)
	case cfg.Model == Embedded:
		return tiny.Wording()
	}
	return prompt.Default(), nil
}
