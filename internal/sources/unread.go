package sources

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// OpenRun is OpenAll for a run with this model. It also warns about parts of the model that the run will not save.
func OpenRun(ctx context.Context, cfg *configs.Config, l *Language, warn func(string)) (*Problems, error) {
	l.TellUnread(cfg, warn)
	return OpenAll(ctx, cfg, warn)
}

// TellUnread warns about tensors that full training would lose: those that are not used by the computation and not copied, such as
// another head. Errors are reported when the model is loaded.
func (l *Language) TellUnread(cfg *configs.Config, warn func(string)) {
	if cfg.Train != "full" {
		return
	}
	set, err := tensorfile.OpenModel(l.Dir)
	if err != nil {
		return
	}
	defer set.Close()
	var lost []string
	read := l.Shape.Tensors()
	for _, name := range set.Names() {
		weight, _, _ := strings.Cut(name, ".weight.") // in four bits, a weight has several tensors
		again := strings.HasSuffix(name, ".rotary_emb.inv_freq") || l.Shape.TiedHead && name == "lm_head.weight"
		if !read[name] && !read[weight+".weight"] && !again {
			lost = append(lost, name)
		}
	}
	if len(lost) == 0 {
		return
	}
	const most = 3
	named := strings.Join(lost[:min(len(lost), most)], ", ")
	if len(lost) > most {
		named += fmt.Sprintf(" and %d more", len(lost)-most)
	}
	warn(fmt.Sprintf("train=full: %s of the model %s not read, and will not be in what is saved: %s", plural.Of(len(lost), "tensor"),
		plural.Pick(len(lost), "is", "are"), named))
}
