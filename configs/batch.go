package configs

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/settings"
)

// aliases are the other names of the settings for the size of a step: group_size is the number of problems, batch_size
// that of completions.
var aliases = map[string]string{"prompts_per_step": "group_size", "completions_per_prompt": "batch_size"}

// batch has what a layer says about the size of a step, under either names; 0: nothing.
type batch struct {
	prompts, each, groups, all int
	where                      string
}

// take takes a setting if it is one of these four.
func (b *batch) take(s setting, before *Config) (known bool, err error) {
	fields := map[string]*int{
		"prompts_per_step": &b.prompts, "completions_per_prompt": &b.each, "group_size": &b.groups, "batch_size": &b.all,
	}
	p, known := fields[s.key]
	switch {
	case !known:
		return false, nil
	case s.value.isList:
		return true, badinput.Errorf("found a list, expected a whole number")
	}
	if err := settings.Int(p)(s.value.text); err != nil {
		return true, err
	}
	b.where = s.where
	if *p < 1 || *p > maxBatch {
		n := *p
		*p = 0
		return true, badinput.Errorf("found %d, expected 1 to %d; type %s=%d", n, maxBatch, s.key, map[string]int{
			"prompts_per_step": before.PromptsPerStep, "group_size": before.PromptsPerStep,
			"completions_per_prompt": before.CompletionsPerPrompt, "batch_size": before.PromptsPerStep * before.CompletionsPerPrompt,
		}[s.key])
	}
	return true, nil
}

// maxBatch is more than any machine can use, and keeps products far from overflow.
const maxBatch = 1 << 20

// MostSamples is the most completions of a held-out problem in an evaluation.
const MostSamples = maxBatch

// mostEvaluated is the most completions in an evaluation, as all of them are in memory at once, with their scores.
const mostEvaluated = 4 << 20

// CheckEvaluated refuses a larger evaluation. The keys are as typed, such as "--samples " and "--problems".
func CheckEvaluated(problems, samples int, samplesKey, problemsKey string) error {
	if problems*samples <= mostEvaluated {
		return nil
	}
	return badinput.Errorf("%s: found %d of each of %d problems, expected at most %d in all; type %s%d, or fewer %s",
		strings.TrimRight(samplesKey, " ="), samples, problems, mostEvaluated, samplesKey, mostEvaluated/problems, problemsKey)
}

// resolve sets the prompts and completions of c. If a layer sets only one of two names, the other stays: the completions
// per prompt for the first names, the completions in all for the others.
func (b *batch) resolve(c *Config) error {
	before := c.PromptsPerStep * c.CompletionsPerPrompt
	if b.prompts > 0 && b.groups > 0 && b.prompts != b.groups {
		return badinput.Errorf("prompts_per_step=%d and group_size=%d both count the problems of a step; keep one", b.prompts, b.groups)
	}
	prompts := max(b.prompts, b.groups)
	all := b.all
	if all == 0 && b.groups > 0 && b.prompts == 0 && b.each == 0 {
		all = before // only one of the two was set
	}
	switch {
	case all > 0 && b.each > 0 && prompts > 0 && prompts*b.each != all:
		return badinput.Errorf("batch_size=%d contradicts %d problems with %d completions each, which make %d; leave batch_size out",
			all, prompts, b.each, prompts*b.each)
	case all > 0 && b.each > 0:
		if all%b.each != 0 {
			return indivisible(all, b.each, "prompts of %d completions")
		}
		prompts = all / b.each
	case all > 0:
		if prompts == 0 {
			prompts = c.PromptsPerStep
		}
		if all%prompts != 0 {
			return indivisible(all, prompts, "%d prompts (group_size)")
		}
		b.each = all / prompts
	}
	if prompts > 0 {
		c.PromptsPerStep = prompts
	}
	if b.each > 0 {
		c.CompletionsPerPrompt = b.each
	}
	return nil
}

// indivisible suggests the nearest divisible batch sizes.
func indivisible(all, parts int, what string) error {
	below := all / parts * parts
	fit := fmt.Sprintf("batch_size=%d or %d", below, below+parts)
	if below == 0 {
		fit = fmt.Sprintf("batch_size=%d", parts)
	}
	return badinput.Errorf("batch_size=%d: that number of completions does not divide among "+what+"; type %s", all, parts, fit)
}

// Batch is the size of a step in words: 8 prompts × 16 completions.
func (c *Config) Batch() string {
	return plural.Of(c.PromptsPerStep, "prompt") + " × " + plural.Of(c.CompletionsPerPrompt, "completion")
}

// AlsoRounded says in words what is rounded besides products with the weights; the adapter only if it is.
func (c *Config) AlsoRounded() string {
	words := "kv_cache_dtype=" + c.KVCacheDtype
	if c.AdapterPrecision != "f32" {
		words += ", adapter_precision=" + c.AdapterPrecision
	}
	return words
}
