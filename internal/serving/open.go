package serving

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// PromptOptions says how prompts are rendered, as the settings of the same names do.
type PromptOptions struct {
	Renderer string // "" means auto
	ChatDate string
	ChatVars string
}

// DefaultLength is the default for the longest sequence, in tokens.
const DefaultLength = 4096

// DefaultPace is the default time of an iteration that prefills beside decoding, which is faster than people read. Where
// decoding alone takes more than half of it, the iteration may take twice as long as decoding.
const DefaultPace = 50 * time.Millisecond

// DefaultAdapters is the default for the number of named adapters per model.
const DefaultAdapters = 32

// opened is a model that is loaded but has no sampler yet.
type opened struct {
	name     string
	language *sources.Language
	policy   *model.Policy
}

// openModels loads all models first, so that the memory left for their KV caches is known.
func openModels(ctx context.Context, o Options) ([]opened, error) {
	var all []opened
	for _, named := range o.Models {
		if err := CheckName(named.Name); err != nil {
			return nil, err
		}
		language, err := sources.OpenLanguage(ctx, &configs.Config{Model: named.Dir,
			Renderer: cmp.Or(o.Speech.Renderer, "auto"), ChatDate: o.Speech.ChatDate, ChatVars: o.Speech.ChatVars})
		if err == nil {
			err = provenance.CheckIntact(language.Dir)
		}
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", named.Name, err)
		}
		policy, err := model.OpenContext(ctx, o.Backend, language.Dir, false, o.Model)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", named.Name, err)
		}
		all = append(all, opened{named.Name, language, policy})
	}
	return all, nil
}

// fits refuses a sequence length for which no model has the positions. Models with fewer positions are limited to theirs.
func fits(maxLength int, models []opened) error {
	longest := slices.MaxFunc(models, func(a, b opened) int { return cmp.Compare(a.policy.MaxPositions, b.policy.MaxPositions) })
	if most := longest.policy.MaxPositions; maxLength > most {
		return badinput.Errorf("--max-context: found %d, and model %s has %d positions; type --max-context %d, or fewer",
			maxLength, longest.name, most, most)
	}
	return nil
}

// sampling completes the options of a model's sampler, which gets an equal share of the free memory with the left models.
func (m opened) sampling(o sampler.Options, left int) sampler.Options {
	o.Pace = cmp.Or(o.Pace, DefaultPace)
	// Empty slots cost nothing. Two thirds are spare: for adapters that are being replaced, and for the unnamed adapters of
	// training clients.
	o.Adapters = 3 * cmp.Or(o.Adapters, DefaultAdapters)
	o.MaxLength = min(cmp.Or(o.MaxLength, DefaultLength), m.policy.MaxPositions)
	if room, known := m.policy.Free(); known && o.CacheBytes == 0 && o.Free == 0 {
		o.Free = room.Bytes / int64(left)
	}
	return o
}
