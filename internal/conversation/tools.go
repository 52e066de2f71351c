package conversation

import (
	"context"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/reward/tools"
)

// kit are the tools of a conversation, which count what was wrong.
type kit struct{ *tools.Kit }

// Wrong counts the calls whose arguments could not be used.
func (k kit) Wrong() int { return k.Stats().Wrong }

// workshop is the environment of env=tools. The language tells the model of the tools from then on.
func workshop(cfg *configs.Config, l *sources.Language, j *judging.Judging) (episode.Environment, error) {
	o := options(cfg, j)
	if o.Judge == nil {
		return nil, badinput.Errorf("env=tools runs programs in a sandbox, and the grader is the program's own; type env=%s or none", Own)
	}
	l.Tools = func(p *data.Problem) (list []chat.Tool, err error) {
		k, err := tools.Open(context.Background(), p, o)
		if err != nil {
			return nil, err
		}
		defer k.Close()
		for _, t := range k.Tools() {
			list = append(list, t.Schema())
		}
		return list, nil
	}
	open := func(ctx context.Context, p *data.Problem) (episode.Kit, error) {
		k, err := tools.Open(ctx, p, o)
		return kit{k}, err
	}
	return episode.Tools(open, j.Grader), nil
}
