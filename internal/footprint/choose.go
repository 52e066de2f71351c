package footprint

import (
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/model"
)

// Estimate plans the memory of a run, chooses the settings that are left open, and refuses what does not fit. If the longest
// prompt is not known yet, it chooses nothing.
func Estimate(r Run) (*Plan, error) { return r.within(roomsOf(r.Backend)) }

// within is Estimate for the given memory.
func (r Run) within(rooms rooms) (*Plan, error) {
	r.sketch = &sketch{}
	longest, err := r.longest()
	if err != nil {
		return nil, err
	}
	sizes := r.sizes(longest)
	thrifty := r.settled("blocks", sizes[len(sizes)-1])
	if !rooms[device].known {
		thrifty = r.settled("cheap", sizes[len(sizes)-1])
	}
	least, err := thrifty.plan(rooms)
	if err != nil {
		return nil, err
	}
	if s, fits := least.fits(); !fits {
		return nil, thrifty.refuse(least, s)
	}
	if r.Trains && r.MaxPrompt > 0 {
		return r.choose(least, thrifty, sizes, longest)
	}
	return least, nil
}

// choose takes the first option that fits for each open setting: first recompute, with batches of one longest sequence, then the batch
// size. An option fits if the KV cache keeps half of what it has with the most frugal one. Finally recompute is reduced if that costs
// neither anything.
func (r Run) choose(least *Plan, with Run, sizes []int, longest int) (*Plan, error) {
	best, known := least, least.rooms[device].known
	better := func(recompute string, rows int) (*Plan, error) {
		p, err := r.settled(recompute, rows).plan(least.rooms)
		if err == nil && known && p.enough() && 2*p.BytesOf("cache") >= least.BytesOf("cache") {
			best, with = p, r.settled(recompute, rows)
		}
		return p, err
	}
	recompute := "recompute=" + with.Recompute
	if r.Recompute == "auto" && known {
		cheap, err := better("cheap", with.MaxRows)
		if err != nil {
			return nil, err
		}
		recompute = "recompute=cheap, which fits"
		if best != cheap {
			recompute = fmt.Sprintf("recompute=blocks, as cheap would take %s for %d tokens", memory.GB(cheap.BytesOf("activations")), longest)
		}
	}
	for _, rows := range sizes {
		if rows <= with.MaxRows {
			break
		}
		if p, err := better(with.Recompute, rows); err != nil {
			return nil, err
		} else if p == best {
			break
		}
	}
	if r.Recompute == "auto" && known && with.Recompute == "cheap" {
		none, err := r.settled("none", with.MaxRows).plan(least.rooms)
		if err != nil {
			return nil, err
		}
		recompute = fmt.Sprintf("recompute=cheap, as none would take %s for %d tokens", memory.GB(none.BytesOf("activations")),
			max(with.MaxRows, longest))
		if none.enough() && none.BytesOf("cache") >= best.BytesOf("cache") {
			best, recompute = none, "recompute=none, which fits"
		}
	}
	rows := with.MaxRows
	best.Why = fmt.Sprintf("batches of %d tokens%s, sequences of up to %d; %s", rows, r.share(rows, longest), longest, recompute)
	return best, nil
}

// longest is the length of the longest possible sequence.
func (r Run) longest() (int, error) {
	c, err := model.ReadConfig(r.Dir)
	return min(max(r.MaxPrompt, 1)+r.mostDrawn(), c.MaxPositions), err
}

// mostDrawn is the most tokens that can follow a prompt.
func (r Run) mostDrawn() int {
	if r.ScoringOnly {
		return 0
	}
	return r.SequenceTokens()
}

// settled is the run with its open settings set.
func (r Run) settled(recompute string, rows int) Run {
	c := *r.Config
	c.MaxRows = rows
	if c.Recompute == "auto" {
		c.Recompute = recompute
	}
	r.Config = &c
	return r
}

// sizes are the possible batch sizes, largest first. With share_prefixes: a whole group with its prompt once, half of its
// completions, and so on down to one longest sequence, for which there must be room anyway.
func (r Run) sizes(longest int) []int {
	least := max(longest, model.UsualRows)
	switch {
	case r.MaxRows > 0:
		return []int{r.MaxRows}
	case r.ScoringOnly:
		return []int{least}
	case !r.SharePrefixes || !r.Trains:
		return []int{model.UsualRows}
	case r.Deterministic: // free memory may differ another time
		return []int{least}
	}
	var sizes []int
	prompt := max(r.MaxPrompt, 1)
	for n := r.CompletionsPerPrompt; n > 1; n = (n + 1) / 2 {
		sizes = append(sizes, max(prompt+n*(longest-prompt), least))
	}
	return slices.Compact(append(sizes, least))
}

// share says how much of a group fits into a batch whose size was chosen.
func (r Run) share(rows, longest int) string {
	prompt := max(r.MaxPrompt, 1)
	if r.MaxRows > 0 || !r.SharePrefixes || r.ScoringOnly {
		return ""
	}
	switch n := (rows - prompt) / (longest - prompt); {
	case r.Deterministic:
		return " (max_rows=0: with deterministic=true, what fits wherever the run does)"
	case n >= r.CompletionsPerPrompt:
		return " (max_rows=0: a whole group)"
	case n == 1:
		return " (max_rows=0: the longest sequence; more would not fit)"
	default:
		return fmt.Sprintf(" (max_rows=0: %d of a group's %d completions; more would not fit)", n, r.CompletionsPerPrompt)
	}
}

// ReplayOptions are the model's options for replaying steps, without a sampler.
func ReplayOptions(r Run) (model.Options, error) {
	o, err := ModelOptions(r.Config)
	if err != nil || r.Recompute != "auto" {
		return o, err
	}
	p, err := r.settled("cheap", r.MaxRows).plan(roomsOf(r.Backend))
	if err == nil && !p.enough() {
		o.Recompute = model.RecomputeBlocks
	}
	return o, err
}
