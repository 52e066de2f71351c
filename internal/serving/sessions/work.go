package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/remote"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Limits of one request.
const (
	mostIterations  = 64 // updates of a step, and refill rounds
	mostSamples     = 128
	mostCompletions = 16384 // of a step
	mostSampled     = 2048  // completions whose tokens are in one answer
)

func (s *Server) state(w http.ResponseWriter, _ *http.Request, n *session) error {
	return body.Write(w, http.StatusOK, n.stateNow())
}

// trainStep takes the step of that number, or answers from the record if it is done.
func (s *Server) trainStep(w http.ResponseWriter, r *http.Request, n *session) error {
	var ask remote.StepRequest
	text, leave, err := s.take(r, &ask)
	if err != nil {
		return err
	}
	defer leave()
	if ask.Iterations < 0 || ask.Iterations > mostIterations {
		return refusal.Field("iterations", "found %d, expected 0 (as configured) to %d", ask.Iterations, mostIterations)
	}
	sum := sumOf(text)
	n.mu.Lock()
	known := n.record
	n.mu.Unlock()
	next := len(known.Steps) + 1
	switch step := (*int)(ask.Step); {
	case step == nil:
		return refusal.Field("step", "missing, expected %d, the number of the session's next step", next)
	case *step < 1:
		return refusal.Field("step", "found %d, expected %d, the next of the session", *step, next)
	case *step < next && known.Steps[*step-1] != sum:
		return stepConflict(*step, next)
	case *step < next:
		row, err := n.row(*step)
		if err == nil {
			err = body.Write(w, http.StatusOK, json.RawMessage(row))
		}
		return err
	case *step > next:
		return refusal.Errorf(http.StatusConflict, "step: found %d, and the session has %d; expected %d", *step, next-1, next)
	case known.Finished:
		return finished()
	}
	if err := s.room(); err != nil {
		return err
	}
	given, err := subset(r.Context(), ask.Problems, ask.IDs)
	leave()
	if err != nil {
		return err
	}
	return n.do(w, r, fmt.Sprintf("step %d", next), sum, func(ctx context.Context) ([]byte, error) {
		return n.step(ctx, next, int(ask.Iterations), sum, given)
	})
}

// stepConflict refuses a step that was done with other content.
func stepConflict(step, next int) error {
	return refusal.Errorf(http.StatusConflict, "step %d was requested with other content before; the next is %d", step, next)
}

// asked is the SHA-256 of the request for the step that was started last; "" if an older release started it.
func (n *session) asked() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.record.Asked
}

func finished() error {
	return refusal.Errorf(http.StatusConflict, "the session is finished; begin another one")
}

// subset returns a function that selects the problems of a request, given as rows or by ID. For neither it selects nil.
func subset(ctx context.Context, rows []json.RawMessage, ids []string) (func(*grpo.Trainer) ([]data.Problem, error), error) {
	if err := errors.Join(refuseEmpty("problems", rows), refuseEmpty("ids", ids)); err != nil {
		return nil, err
	}
	if len(rows) > 0 && len(ids) > 0 {
		return nil, refusal.Field("ids", "found beside problems, expected one of them")
	}
	problems, err := read(ctx, rows)
	return func(t *grpo.Trainer) ([]data.Problem, error) {
		for i, id := range ids {
			p, known := t.Pool().Problem(id)
			if !known {
				return nil, refusal.Field("ids", "%d: found %q, expected the id of a problem of the session", i, refusal.Truncate(id, 100))
			}
			problems = append(problems, p)
		}
		return problems, nil
	}, err
}

// refuseEmpty refuses an empty list, which could mean all or none.
func refuseEmpty[T any](field string, list []T) error {
	if list != nil && len(list) == 0 {
		return refusal.Field(field, "found an empty list, expected %s, or the field left out", field)
	}
	return nil
}

// step takes a step, and returns when its checkpoint is on disk.
func (n *session) step(ctx context.Context, number, iterations int, sum string,
	given func(*grpo.Trainer) ([]data.Problem, error)) (row []byte, err error) {
	t, err := n.open(ctx)
	if err != nil {
		return nil, err
	}
	if done := t.StepsDone(); done < number-1 {
		return nil, refusal.Errorf(http.StatusConflict, "step: found %d, and the session has %d; expected %d", number, done, done+1)
	}
	if t.StepsDone() < number { // false: it was done, but the server ended before it answered
		problems, err := given(t)
		if err != nil {
			return nil, err
		}
		if all := cmp.Or(len(problems), t.Settings().PromptsPerStep) * t.Settings().CompletionsPerPrompt; all > mostCompletions {
			return nil, refusal.Field("problems", "a step of %d completions, at most %d are allowed", all, mostCompletions)
		}
		if err := n.write(func(r *record) { r.Asked = sum }); err != nil {
			return nil, err
		}
		if _, err = t.Step(ctx, problems, grpo.StepOptions{Iterations: iterations}); err != nil {
			n.leave() // discard its state: the next attempt resumes from the last checkpoint
			return nil, err
		}
	} else if before := n.asked(); before != "" && before != sum {
		return nil, stepConflict(number, number+1)
	}
	if _, err := t.Save(ctx); err != nil {
		return nil, err
	}
	if row, err = n.row(number); err != nil {
		return nil, err
	}
	return row, n.write(func(r *record) { r.Steps = append(slices.Clone(r.Steps[:number-1]), sum) })
}

// row is the line of a step in the run's metrics.
func (n *session) row(step int) (row []byte, err error) {
	err = jsonl.EachComplete(filepath.Join(n.file(runFolder), "metrics.jsonl"), func(line []byte) error {
		var m struct {
			Step int    `json:"step"`
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		if m.Step == step && m.Kind == "" {
			row = slices.Clone(line)
		}
		return nil
	})
	if err == nil && row == nil {
		err = fmt.Errorf("session %s: step %d is not among its metrics", n.ID, step)
	}
	return row, err
}

// sample samples completions from the current policy.
func (s *Server) sample(w http.ResponseWriter, r *http.Request, n *session) error {
	var ask remote.SampleRequest
	text, leave, err := s.take(r, &ask)
	if err != nil {
		return err
	}
	defer leave()
	temperature, err := body.Temperature(ask.Temperature)
	if err != nil {
		return err
	}
	each := 1
	if ask.N != nil {
		each = int(*ask.N)
	}
	switch asked := len(ask.Problems) + len(ask.IDs); {
	case asked == 0:
		return refusal.Field("problems", "missing, expected rows of a task file, or ids of problems of the session")
	case each < 1 || each > mostSamples:
		return refusal.Field("n", "found %d, expected 1 to %d", each, mostSamples)
	case asked*each > mostSampled:
		return refusal.Field("n", "%d completions in all, at most %d are allowed", asked*each, mostSampled)
	case n.isFinished():
		return finished()
	}
	given, err := subset(r.Context(), ask.Problems, ask.IDs)
	leave()
	if err != nil {
		return err
	}
	sum := sumOf(text)
	key := fmt.Sprintf("sample %s after step %d", sum, n.stateNow().Steps)
	return n.do(w, r, key, sum, func(ctx context.Context) ([]byte, error) {
		t, err := n.open(ctx)
		if err != nil {
			return nil, err
		}
		problems, err := given(t)
		if err != nil {
			return nil, err
		}
		groups, err := t.Sample(ctx, problems, each, temperature)
		if err != nil {
			return nil, err
		}
		return json.Marshal(sampled(t.StepsDone(), groups))
	})
}

func sampled(step int, groups []grpo.Group) remote.Sampled {
	out := remote.Sampled{Step: step, Groups: []remote.Group{}}
	for _, g := range groups {
		said := remote.Group{Problem: g.Problem.ID, Prompt: g.Tokens}
		for _, c := range g.Rollouts {
			said.Completions = append(said.Completions, remote.Completion{Text: c.Text, Tokens: c.Tokens, LogProbs: c.LogProbs,
				Finish: string(c.Finish), Score: c.Score})
		}
		out.Groups = append(out.Groups, said)
	}
	return out
}

// takeNoMore waits, on shutdown, until no goroutine can queue a job any more, as rest could.
func (n *session) takeNoMore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.idle != nil {
		n.idle.Stop()
	}
}
