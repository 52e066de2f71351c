package handover

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/provenance"
)

// card is the model card of what a run trained: the same for the same run.
func card(saved *grpo.Saved) ([]byte, error) {
	past, err := provenance.Read(saved.Settings.RunDir)
	if err != nil {
		return nil, err
	}
	cfg, start, err := past.At(saved.Step()) // those of this step, not later ones
	if err != nil {
		return nil, err
	}
	cfg.RunDir = saved.Settings.RunDir
	m := past.Manifest
	if n := len(m.Starts); n > 0 && m.Starts[n-1].Parts["data"].SHA256 != start.Parts["data"].SHA256 {
		m.Problems = 0 // it counts other problems: the data has changed since
	}
	found, err := readFound(cfg.RunDir, saved.Step())
	if err != nil {
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
	line("tags:\n- grpo\n- %s\n- code", kind(cfg))
	line("---\n")
	line("# %s\n", nameOf(cfg.RunDir))
	what := fmt.Sprintf("A LoRA adapter of rank %d for %s", cfg.LoRARank, named(cfg.Model))
	if full {
		what = "The weights of " + named(cfg.Model)
	}
	line("%s, trained for %s with %s on %s.\n", what, plural.Of(saved.Step(), "step"), method(cfg), problems(m, cfg))
	writeFork(line, m)
	if cfg.Warmup() {
		found.rows(line, saved.Step())
	} else {
		found.problems(line, saved.Step())
	}
	if err := settings(line, cfg, past, saved.Step()); err != nil {
		return nil, err
	}
	found.autopilot(line)
	line("## Where it comes from\n")
	line("| | |\n|---|---|")
	line("| trained by | grpo %s, %s, %s |", m.Version, m.Go, m.Platform)
	line("| computed by | %s |", m.Backend)
	line("| seed | %d |", m.Seed)
	for _, part := range []string{"model", "data", "test_data"} {
		if print, ok := start.Parts[part]; ok {
			line("| fingerprint of %s | `%s` |", part, print.SHA256)
		}
	}
	line("\n`training/` has the settings, the figures of every step, and the report. %s", howToReproduce(cfg))
	return []byte(b.String()), nil
}

// writeFork says which steps of a fork another run made.
func writeFork(line func(string, ...any), m provenance.Manifest) {
	if run, step := m.Forked(); step > 0 {
		line("It is a fork: another run, %s, made the first %s, with settings and problems of its own.\n", nameOf(run), plural.Of(step, "step"))
	}
}

// settings lists the settings of the last step that differ from the defaults, and changes before.
func settings(line func(string, ...any), cfg *configs.Config, past *provenance.Run, last int) error {
	defaults := configs.Defaults()
	line("## Settings\n")
	line("Those that are not the defaults:\n")
	line("| setting | value |\n|---|---|")
	for _, c := range provenance.Changes(&defaults, cfg) {
		line("| `%s` | `%s` |", c.Key, cell(c.After))
	}
	line("")
	return writeChanges(line, past, last)
}

// cell escapes a value for a table.
func cell(value string) string {
	return strings.ReplaceAll(strings.ReplaceAll(value, "|", `\|`), "\n", " ")
}

// writeChanges lists earlier values of settings that changed during the run.
func writeChanges(line func(string, ...any), past *provenance.Run, last int) error {
	var after []int
	for _, s := range past.Manifest.Starts {
		if s.After > 0 && s.After < last {
			after = append(after, s.After)
		}
	}
	slices.Sort(after)
	var rows []string
	for _, step := range slices.Compact(after) {
		before, _, err := past.At(step)
		if err != nil {
			return err
		}
		now, _, err := past.At(step + 1)
		if err != nil {
			return err
		}
		for _, c := range provenance.Changes(before, now) {
			rows = append(rows, fmt.Sprintf("| `%s` | %d | `%s` |", c.Key, step, cell(c.Before)))
		}
	}
	if len(rows) > 0 {
		line("Settings that were others before:\n")
		line("| setting | up to step | value |\n|---|---|---|\n%s\n", strings.Join(rows, "\n"))
	}
	return nil
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

// named is a name for a model that is meaningful elsewhere.
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

// kind is the Hub's tag for the kind of training.
func kind(cfg *configs.Config) string {
	if cfg.Warmup() {
		return cfg.Method
	}
	return "reinforcement-learning"
}

// howToReproduce says how to reproduce the weights. The steps of a warm-up cannot be replayed one by one.
func howToReproduce(cfg *configs.Config) string {
	if cfg.Warmup() {
		return "The same model, rows and settings reach\nthe same weights, to the bit."
	}
	return "`grpo replay` reaches the same weights, to the bit,\n" +
		"from the same model, problems and settings, and the run's own record of completions."
}

// problems says how many problems, or rows, were trained on, and where they are from; without a number if that is unknown.
func problems(m provenance.Manifest, cfg *configs.Config) string {
	unit := "problem"
	if cfg.Warmup() {
		unit = "row"
	}
	many := plural.Of(m.Problems, unit)
	if m.Problems == 0 {
		many = unit + "s"
	}
	if cfg.Data == configs.DefaultPreset {
		return "the " + many + " that are part of grpo"
	}
	if id := onHub(cfg.Data); id != "" {
		return fmt.Sprintf("%s of [%s](https://huggingface.co/datasets/%s)", many, id, id)
	}
	return many + " of " + nameOf(cfg.Data)
}
