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

// Speech says how the models are spoken to, in the words of the settings of those names.
type Speech struct {
	Renderer string // "" is auto
	ChatDate string
	ChatVars string
}

// UsualLength is the longest sequence, in tokens, where nobody says.
const UsualLength = 4096

// UsualPace is how long tokens wait for one another in any case while a prompt is read, where nobody says. Nobody reads faster
// than that; where drawing takes long, they wait twice as long as without the prompt.
const UsualPace = 50 * time.Millisecond

// UsualAdapters are how many adapters of a model may have names where nobody says.
const UsualAdapters = 32

// opened is a model that has no sampler yet.
type opened struct {
	name     string
	language *sources.Language
	policy   *model.Policy
}

// openModels loads all models, so that what is free is known before the first takes it for its cache.
func openModels(ctx context.Context, o Options) ([]opened, error) {
	var all []opened
	for _, named := range o.Models {
		if err := CheckName(named.Name); err != nil {
			return nil, err
		}
		language, err := sources.OpenLanguage(ctx, &configs.Config{Model: named.Dir,
			Renderer: cmp.Or(o.Speech.Renderer, "auto"), ChatDate: o.Speech.ChatDate, ChatVars: o.Speech.ChatVars})
		if err == nil {
			err = provenance.CheckWhole(language.Dir)
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

// fits refuses sequences that are longer than any of the models has positions. Where there are several, those with fewer
// positions have shorter ones.
func fits(maxLength int, models []opened) error {
	longest := slices.MaxFunc(models, func(a, b opened) int { return cmp.Compare(a.policy.MaxPositions, b.policy.MaxPositions) })
	if most := longest.policy.MaxPositions; maxLength > most {
		return badinput.Errorf("--max-context: found %d, and model %s has %d positions; type --max-context %d, or fewer",
			maxLength, longest.name, most, most)
	}
	return nil
}

// sampling is the size of the model's sampler, where so many have not taken their share of the memory yet.
func (m opened) sampling(o sampler.Options, left int) sampler.Options {
	o.Pace = cmp.Or(o.Pace, UsualPace)
	// Places cost nothing while they are empty: there are as many again for those that take another's place, and for adapters
	// without names, which programs train.
	o.Adapters = 3 * cmp.Or(o.Adapters, UsualAdapters)
	o.MaxLength = min(cmp.Or(o.MaxLength, UsualLength), m.policy.MaxPositions)
	if room, known := m.policy.Free(); known && o.CacheBytes == 0 && o.Free == 0 {
		o.Free = room.Bytes / int64(left)
	}
	return o
}
