package tinker

import (
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/choir"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Bases are the models of a host, as bases to train adapters over and to sample from.
func Bases(h *serving.Host) []*Base {
	var all []*Base
	for _, p := range h.Policies() {
		if p.Adapter != nil {
			continue
		}
		words := p.Language.Tokenizer
		all = append(all, &Base{
			Name: p.Name, Source: p.Language.Base, Dir: p.Language.Dir, Context: p.Live.Plan().MaxLength, Stops: p.Language.Stops,
			Text:   func() sampler.TextStream { return words.NewStream(false) },
			Policy: p.Model, Backend: h.Backend(), Turn: h.Turn(), Voice: choir.New(p.Live),
		})
	}
	return all
}
