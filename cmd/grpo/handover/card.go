package handover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/provenance"
)

// card is a model card of what a run trained: the same for the same run.
func card(saved *grpo.Saved) ([]byte, error) {
	cfg := saved.Settings
	past, err := provenance.Read(cfg.RunDir)
	if err != nil {
		return nil, err
	}
	evaluations, err := jsonl.OfKind[grpo.Evaluation](filepath.Join(cfg.RunDir, "metrics.jsonl"), "evaluation")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	full := cfg.Train == "full"
	line("---")
	if base := onHub(cfg.Model); base != "" {
		line("base_model: %s", base)
	}
	if !full {
		line("library_name: peft")
	}
	line("pipeline_tag: text-generation")
	line("tags:\n- grpo\n- reinforcement-learning\n- code")
	line("---\n")
	line("# %s\n", nameOf(cfg.RunDir))
	what := fmt.Sprintf("A LoRA adapter of rank %d for %s", cfg.LoRARank, named(cfg.Model))
	if full {
		what = "The weights of " + named(cfg.Model)
	}
	line("%s, trained for %s with %s on %s.\n", what, plural.Of(saved.Step(), "step"), method(cfg), problems(past.Manifest, cfg))
	figures(line, evaluations, saved.Step())
	settings(line, cfg)
	line("## Where it comes from\n")
	line("| | |\n|---|---|")
	m := past.Manifest
	line("| trained by | grpo %s, %s, %s |", m.Version, m.Go, m.Platform)
	line("| computed by | %s |", m.Backend)
	line("| seed | %d |", m.Seed)
	for _, part := range []string{"model", "data", "test_data"} {
		if len(m.Starts) > 0 {
			if print, ok := m.Starts[0].Parts[part]; ok {
				line("| SHA-256 of %s | `%s` |", part, print.SHA256)
			}
		}
	}
	line("\n`training/` has the settings, the figures of every step, and the report. `grpo replay` reaches the same weights, to the bit,")
	line("from the same model, problems and settings.")
	return []byte(b.String()), nil
}

// figures is the table of held-out problems, before and after.
func figures(line func(string, ...any), all []grpo.Evaluation, step int) {
	line("## Held-out problems\n")
	var first, last *grpo.Evaluation
	for i, e := range all {
		if e.Problems > 0 && e.Step <= step {
			if last = &all[i]; first == nil || !first.SameProblems(last) {
				first = last
			}
		}
	}
	if first == nil {
		line("Nothing was evaluated.\n")
		return
	}
	line("| | problems | before (step %d) | step %d |\n|---|---|---|---|", first.Step, last.Step)
	share := func(e *grpo.Evaluation) string {
		return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Greedy, e.GreedyCI[0], e.GreedyCI[1])
	}
	line("| pass@1, greedy | %d | %s | %s |", last.Problems, share(first), share(last))
	if first.Sampled != nil && last.Sampled != nil {
		line("| pass@1, sampled | %d | %.3f | %.3f |", last.Problems, first.Sampled.PassAt1, last.Sampled.PassAt1)
		line("| pass@%d, sampled | %d | %s | %s |", last.Sampled.K, last.Problems, first.Sampled.AtK(first.Problems),
			last.Sampled.AtK(last.Problems))
	}
	line("\nIn parentheses the interval of 95 %%, from resampling the problems.\n")
	if last.Step != step {
		line("The weights are those of step %d, which was not evaluated itself.\n", step)
	}
}

// settings lists those that are not the defaults.
func settings(line func(string, ...any), cfg *configs.Config) {
	defaults := configs.Defaults()
	line("## Settings\n")
	line("Those that are not the defaults:\n")
	line("| setting | value |\n|---|---|")
	for _, c := range provenance.Changes(&defaults, cfg) {
		line("| `%s` | `%s` |", c.Key, strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(c.After), "|", `\|`), "\n", " "))
	}
	line("")
}

// onHub is the name of a model on the Hub, "" of any other.
func onHub(name string) string {
	id, _, _ := strings.Cut(name, "@")
	if info, err := os.Stat(name); err == nil && info.IsDir() || strings.Count(id, "/") != 1 || strings.HasPrefix(id, "/") ||
		strings.HasPrefix(id, ".") || strings.HasPrefix(id, "~") {
		return ""
	}
	return id
}

// named is a model as a reader elsewhere may know it.
func named(name string) string {
	if id := onHub(name); id != "" {
		return "[" + id + "](https://huggingface.co/" + id + ")"
	}
	if name == configs.DefaultPreset {
		return "the small model that is part of grpo"
	}
	return nameOf(name)
}

func method(cfg *configs.Config) string {
	if cfg.Warmup() {
		return cfg.Verb()
	}
	return "GRPO"
}

// problems are those that were trained on.
func problems(m provenance.Manifest, cfg *configs.Config) string {
	if cfg.Data == configs.DefaultPreset {
		return fmt.Sprintf("the %d problems that are part of grpo", m.Problems)
	}
	if id := onHub(cfg.Data); id != "" {
		return fmt.Sprintf("%s of [%s](https://huggingface.co/datasets/%s)", plural.Of(m.Problems, "problem"), id, id)
	}
	return plural.Of(m.Problems, "problem") + " of " + nameOf(cfg.Data)
}
