package reward

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/reward/referee"
)

// refereed scores completions by a judge model (LLM as a judge). Equal completions of a problem are asked about once.
type refereed struct {
	referee *referee.Referee
	seen    *singleFlight[[sha256.Size]byte, opinion]
	recent  failures
}

// opinion is a score, or a note that says why there is none.
type opinion struct {
	score float64
	note  string
}

func newRefereed(cfg referee.Config) (*refereed, error) {
	r, err := referee.New(cfg)
	return &refereed{referee: r, seen: newSingleFlight[[sha256.Size]byte, opinion](rememberedPrograms)}, err
}

func (r *refereed) score(ctx context.Context, p *data.Problem, completion string) (opinion, error) {
	q := referee.Question{Statement: p.Statement, Completion: completion, Kind: p.Kind.String(),
		Truth: func() (string, error) { return groundTruth(ctx, p) }}
	prompt, err := r.referee.Prompt(&q)
	if err != nil {
		return opinion{}, fmt.Errorf("judge_prompt: problem %s: %w", p.ID, err)
	}
	o, _, err := r.seen.do(ctx, sha256.Sum256([]byte(prompt)), func() (o opinion, keep bool, err error) {
		o.score, o.note, err = r.referee.Ask(ctx, prompt)
		return o, o.note == "", err
	})
	return o, err
}

// consult asks the judge model. A completion that it gives no score is excluded.
func (j *Judge) consult(ctx context.Context, c Completion, s *Score) error {
	o, err := j.referee.score(ctx, c.Problem, c.Text)
	if err != nil {
		return err
	}
	if s.Components.Judge = o.score; o.note != "" {
		s.Excluded, s.Note = ExcludedJudge, "judge: "+o.note
		j.referee.recent.add(o.note)
	}
	return j.opinions.note(o.note != "", o.note)
}

// try asks about a small completion, so that mistakes in the judge's settings are found before training.
func (r *refereed) try(ctx context.Context, p *data.Problem) error {
	o, err := r.score(ctx, p, smallCompletion)
	if err == nil && o.note != "" {
		err = badinput.Errorf("judge_url: the judge fails on a trial completion of problem %s: %s", p.ID, o.note)
	}
	return err
}

// warnings say for how many completions since the last call the model gave no score.
func (r *refereed) warnings() (w []string) {
	if n, first := r.recent.take(); n > 0 {
		w = []string{fmt.Sprintf("the judge gave no score to %s; the first time: %s", plural.Of(int(n), "completion"), first)}
	}
	return w
}
