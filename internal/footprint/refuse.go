package footprint

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/memory"
)

// memorySetting is a setting that affects the memory.
type memorySetting struct {
	key   string
	value int // the current value
	least int
	set   func(c *configs.Config, v int)
	text  func(v int) string
}

// memorySettings are the settings of a run that affect memory, with their values. The cheapest to change comes first.
func (r Run) memorySettings(p *Plan) []memorySetting {
	plain := func(v int) string { return fmt.Sprint(v) }
	rows := r.MaxRows
	if rows == 0 {
		rows = 512
	}
	budget := r.TokenBudget
	if budget == 0 {
		budget = 512
	}
	all := []memorySetting{
		{"max_rows", rows, 1, func(c *configs.Config, v int) { c.MaxRows = v }, plain},
		{"token_budget", budget, 1, func(c *configs.Config, v int) { c.TokenBudget = v }, plain},
		{"max_sequences", r.MaxSequences, 1, func(c *configs.Config, v int) { c.MaxSequences = v }, plain},
		{"max_tokens", r.MaxTokens, 1, func(c *configs.Config, v int) { c.MaxTokens = v }, plain},
		{"prompts_per_step", r.PromptsPerStep, 1, func(c *configs.Config, v int) { c.PromptsPerStep = v }, plain},
		{"lora_rank", r.LoRARank, 1, func(c *configs.Config, v int) { c.LoRARank = v }, plain},
	}
	if r.ScoringOnly {
		return []memorySetting{all[0], all[len(all)-1]} // max_rows and lora_rank
	}
	if r.LocalSandbox {
		all = append(all, memorySetting{"sandbox_slots", r.slots(), 1, func(c *configs.Config, v int) { c.SandboxSlots = v }, plain})
	}
	if r.CacheMemory > 0 {
		const mib = 1 << 20
		all = append(all, memorySetting{"cache_memory", int(r.CacheMemory) / mib, (p.least + mib - 1) / mib,
			func(c *configs.Config, v int) { c.CacheMemory = configs.Bytes(v) * mib }, func(v int) string { return fmt.Sprintf("%dMiB", v) }})
	}
	return all
}

// with is the plan with another value of a setting; nil if that is impossible.
func (r Run) with(p *Plan, k memorySetting, v int) *Plan {
	c := *r.Config
	k.set(&c, v)
	r.Config, r.sketch = &c, nil
	again, err := r.plan(p.rooms)
	if err != nil {
		return nil
	}
	return again
}

// enough reports whether a plan fits.
func (p *Plan) enough() bool {
	_, fits := p.fits()
	return fits
}

// refuse is the error of a run that is too large by some amount. It names a setting that makes it fit on that side: of those
// that suffice alone, the one that takes the most memory, with its largest possible value.
func (r Run) refuse(p *Plan, s side) error {
	short := fmt.Sprintf("this run needs %s of memory, and this process has %s, of which a twentieth is kept free",
		memory.GB(p.needs(s)), p.rooms[s])
	if s == host {
		key := "sandbox_slots"
		if p.BytesOf("report") > p.BytesOf("sandbox") {
			key = "prompts_per_step"
		}
		return badinput.Errorf("%s: %s, besides that of the card: %s; lower it, or stop other programs", key, short, p)
	}
	best, saved := memorySetting{}, 0
	for _, k := range r.memorySettings(p) {
		if k.value <= k.least {
			continue
		}
		if low := r.with(p, k, k.least); low != nil && low.enough() && p.needs(s)-low.needs(s) > saved {
			best, saved = k, p.needs(s)-low.needs(s)
		}
	}
	if saved > 0 {
		v := r.largest(p, best)
		return badinput.Errorf("%s=%s: %s; the largest that fits is %s=%s", best.key, best.text(best.value), short, best.key, best.text(v))
	}
	for _, thriftier := range lessMemoryThan[r.Recompute] {
		choice := memorySetting{set: func(c *configs.Config, _ int) { c.Recompute = thriftier }}
		if again := r.with(p, choice, 0); r.Trains && again != nil && again.enough() {
			return badinput.Errorf("recompute=%s: %s; type recompute=%s", r.Recompute, short, thriftier)
		}
	}
	together := "max_tokens, max_rows and lora_rank"
	switch {
	case r.ScoringOnly:
		together = "row_tokens, max_rows and lora_rank"
	case s == p.host() && p.BytesOf("sandbox") > p.needs(s)/10:
		together = "max_tokens, max_rows, lora_rank and sandbox_slots"
	}
	return badinput.Errorf("model=%s: %s, and lowering one setting is not enough: %s; take a smaller model, or lower %s together",
		r.Model, short, p, together)
}

// lessMemoryThan are the values of recompute that take less memory, the fastest first.
var lessMemoryThan = map[string][]string{"none": {"cheap", "blocks"}, "cheap": {"blocks"}}

// largest is the largest value of a setting that fits, to three digits, by binary search: the memory is monotonic in a setting but not
// linear, as it is the maximum of several sums.
func (r Run) largest(p *Plan, k memorySetting) int {
	roomFor := func(v int) bool {
		again := r.with(p, k, v)
		return again != nil && again.enough()
	}
	fits, tooLarge := k.least, k.value
	for tooLarge-fits > max(1, fits/1000) {
		if v := fits + (tooLarge-fits)/2; roomFor(v) {
			fits = v
		} else {
			tooLarge = v
		}
	}
	if v := rounded(fits); roomFor(v) {
		return v
	}
	return fits
}

// rounded is n rounded to three digits.
func rounded(n int) int {
	unit := 1
	for n/unit >= 1000 {
		unit *= 10
	}
	return n / unit * unit
}
