package tinker

import (
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/multilora"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Bases are the models of a host, as bases to train adapters over and to sample from.
func Bases(h *serving.Host) []*Base {
	var all []*Base
	for _, p := range h.Policies() {
		if p.Adapter != nil {
			continue
		}
		words, source := p.Language.Tokenizer, p.Language.Base
		if source == p.Language.Dir {
			source = p.Name // a client knows no directory of this machine
		}
		all = append(all, &Base{
			Name: p.Name, Source: source, Dir: p.Language.Dir, Context: p.Live.Plan().MaxLength, Stops: p.Language.Stops,
			Text:   func() sampler.TextStream { return words.NewStream(false) },
			Policy: p.Model, Backend: h.Backend(), Lock: h.BackendLock(), Sampler: multilora.New(p.Live),
		})
	}
	return all
}
