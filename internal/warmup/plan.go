package warmup

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/lesson"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// Plan describes in a few lines what the run will do and the memory that it needs.
func (t *Trainer) Plan() []string {
	cfg, s := t.cfg, t.set
	trained := fmt.Sprintf("LoRA rank %d, %.2f M trained", cfg.LoRARank, float64(t.policy.TrainableCount())/1e6)
	if t.full {
		trained = "all of them trained"
	}
	if cfg.Adapter != "" {
		trained += ", from " + cfg.Adapter
	}
	rows := fmt.Sprintf("%s to train on with %s in the loss, %d held out; the longest has %s", plural.Of(s.train, rowsAre(cfg.Method)),
		plural.Of(s.learned, "token"), t.HeldOutRows(), plural.Of(s.longest, "token"))
	for _, what := range []struct {
		n    int
		word string
	}{{s.cut, "cut off"}, {s.empty, "left out as too long"}, {s.refused, "refused"}} {
		if what.n > 0 {
			rows += fmt.Sprintf("; %d %s", what.n, what.word)
		}
	}
	epochs := ""
	if cfg.Epochs > 0 {
		epochs = fmt.Sprintf(" (epochs=%d)", cfg.Epochs)
	}
	return []string{
		fmt.Sprintf("model: %s, %.1f M weights in %.2f GB; %s",
			cfg.Model, float64(t.policy.WeightCount())/1e6, float64(t.policy.WeightBytes())/1e9, trained),
		fmt.Sprintf("numbers: precision=%s, order=%s, %s; %s", cfg.Precision, cfg.Order, cfg.AlsoRounded(), t.backend.Name()),
		"data: " + rows,
		fmt.Sprintf("step: %s, %s%s; learning rate %.2g, %s%s", plural.Of(cfg.RowsPerStep, "row"), plural.Of(t.Steps(), "step"), epochs,
			cfg.LearningRate, cfg.Schedule, cfg.Rise(t.Steps())),
		"objective: " + t.objective(),
		"training: " + t.memory.Why,
		fmt.Sprintf("memory: %s", t.memory),
	}
}

func (t *Trainer) objective() string {
	cfg := t.cfg
	if cfg.Method == configs.DPO {
		text := fmt.Sprintf("dpo_loss=%s with dpo_beta=%g", cfg.DPOLoss, cfg.DPOBeta)
		if cfg.LabelSmoothing > 0 {
			text += fmt.Sprintf(" and label_smoothing=%g", cfg.LabelSmoothing)
		}
		return text + "; the reference is the policy before the first step"
	}
	return fmt.Sprintf("−log p of the assistant's messages (learn_turns=%s), reduction=%s", cfg.LearnTurns, cfg.Reduction)
}

// FirstRow is the first row as the model reads it; the tokens to train on are between «marks».
func (t *Trainer) FirstRow() string {
	first := t.set.rows[0]
	names := []string{""}
	if t.cfg.Method == configs.DPO {
		names = []string{"chosen:\n", "rejected:\n"}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the first row, %s; tokens in the loss are between « and »:\n", first.where)
	for i, name := range names {
		for _, s := range first.sides[i] {
			b.WriteString(name + t.marked(s) + "\n")
		}
	}
	return b.String()
}

func (t *Trainer) marked(s lesson.Sequence) string {
	var b strings.Builder
	at, text := 0, func(tokens []int32) string { return t.lang.Tokenizer.Decode(tokens, false) }
	for _, span := range s.Spans {
		b.WriteString(text(s.Tokens[at:span[0]]) + "«" + text(s.Tokens[span[0]:span[1]]) + "»")
		at = span[1]
	}
	return b.String() + text(s.Tokens[at:])
}
