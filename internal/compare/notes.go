package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// promptingKeys are the settings that affect how held-out problems are prompted and judged.
var promptingKeys = []string{"prompt_template", "renderer", "chat_date", "chat_vars", "max_tokens", "stop", "env", "max_turns",
	"max_conversation_tokens", "turn_seconds", "conversation_seconds", "public_tests", "heal_template", "tools", "mcp", "openenv_action",
	"openenv_template", "answer_match", "blocklist", "reject_blocklisted",
	"reward_timeout", "max_tests", "on_truncated", "comparator", "tolerance", "eval_samples", "eval_temperature", "eval_top_k",
	"eval_top_p", "eval_min_p"}

// notes are caveats about the comparison.
func (c *Comparison) notes() (notes []string) {
	for _, r := range c.Runs {
		notes = append(notes, r.notes()...)
	}
	model := c.Base.Parts["model"].SHA256
	for _, p := range c.Pairs {
		if is := p.Run.Parts["model"].SHA256; is != model || p.Run.Settings.Model != c.Base.Settings.Model && is == "" {
			notes = append(notes, otherModel(p.Run, c.Base))
		}
		if c.Base.HeldOutAt(c.Step) != nil && p.Run.HeldOutAt(c.Step) != nil && !sameRows(c.Base, p.Run) {
			notes = append(notes, fmt.Sprintf("%s held out other rows than %s, so their losses do not compare; %s", p.Run.Name,
				c.Base.Name, holdTheSame))
		}
		switch a, b := c.Base.At(c.Step), p.Run.At(c.Step); {
		case c.Base.Settings.Warmup() && p.Run.Settings.Warmup():
		case p.Refused != "":
			notes = append(notes, fmt.Sprintf("%s is not compared problem by problem: %s", p.Run.Name, p.Refused))
		case a.Step != b.Step:
			notes = append(notes, fmt.Sprintf("%s was evaluated last after step %d, %s after step %d; --step N compares the same one",
				c.Base.Name, a.Step, p.Run.Name, b.Step))
		}
		if p.Greedy != nil {
			a, b := len(c.Base.At(c.Step).Judged.Problems), len(p.Run.At(c.Step).Judged.Problems)
			if n := p.Greedy.Change.Problems; n < max(a, b) {
				notes = append(notes, fmt.Sprintf("%s has %d of its %d held-out problems in common with the %d of %s", p.Run.Name, n, b, a,
					c.Base.Name))
			}
		}
	}
	var otherwise []string
	for _, s := range c.Settings {
		if slices.Contains(promptingKeys, s.Key) {
			otherwise = append(otherwise, s.Key)
		}
	}
	if len(otherwise) > 0 {
		notes = append(notes, "held-out problems are prompted or judged differently, which also changes scores: "+strings.Join(otherwise, ", "))
	}
	return notes
}

// otherModel says how the model of a run differs from that of the base. Models of the same name are told apart by their SHA-256, which
// old runs did not record.
func otherModel(r, base *Run) string {
	is, was := r.Settings.Model, base.Settings.Model
	if is == was {
		now, before := r.Parts["model"].SHA256, base.Parts["model"].SHA256
		if now == "" || before == "" {
			return fmt.Sprintf("%s may have another model than %s: not both recorded what was in %s", r.Name, base.Name, is)
		}
		is, was = is+"@"+now[:min(8, len(now))], was+"@"+before[:min(8, len(before))]
	}
	return fmt.Sprintf("%s has another model than %s: %s, not %s", r.Name, base.Name, is, was)
}

// notes are caveats about a single run.
func (r *Run) notes() (notes []string) {
	if !r.Finished() {
		of := ""
		if last := r.last(); last >= 0 {
			of = " of " + strconv.Itoa(last)
		}
		notes = append(notes, fmt.Sprintf("%s is unfinished, with %d%s steps; %s run_dir=%s resumes it", r.Name, r.Done(), of,
			r.Settings.Verb(), display.ShellQuote(r.Dir)))
	}
	if n := r.Resumes; n > 0 {
		text := fmt.Sprintf("%s was interrupted and resumed %d times", r.Name, n)
		if n == 1 {
			text = r.Name + " was interrupted and resumed once"
		}
		var changed []string
		for _, s := range r.Manifest.Starts {
			for key := range s.Settings {
				if !slices.Contains(changed, key) {
					changed = append(changed, key)
				}
			}
		}
		if slices.Sort(changed); len(changed) > 0 {
			text += ", with other settings than it began with: " + strings.Join(changed, ", ")
		}
		notes = append(notes, text)
	}
	if r.Manifest.Origin != "" {
		notes = append(notes, fmt.Sprintf("%s is a fork of %s", r.Name, r.Manifest.Origin))
	}
	return notes
}

// evaluated lists the steps with evaluations.
func (r *Run) evaluated() string {
	if len(r.Evaluations)+len(r.HeldOut) == 0 {
		return "none"
	}
	var steps []string
	for _, h := range r.HeldOut {
		steps = append(steps, strconv.Itoa(h.Step))
	}
	for _, e := range r.Evaluations {
		steps = append(steps, strconv.Itoa(e.Step))
	}
	return strings.Join(steps, ", ")
}
