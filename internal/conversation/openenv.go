package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"text/template"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/openenv"
	"github.com/seed-7879b91d/grpo/internal/openfile"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/reward/tools"
)

// openEnvironment is the environment of env=openenv:URL. Each conversation is a session of the server, and each turn an action in it.
type openEnvironment struct {
	server *openenv.Server
	reward func(rewards []float64) float64

	mu     sync.Mutex
	begins map[string]string // the first observation of a session, by problem ID
}

// connectOpenEnv connects to the server of env=openenv:URL. From then on the first observation of a session ends the prompt of its problem.
func (r *Sampler) connectOpenEnv(ctx context.Context, cfg *configs.Config, l *sources.Language) error {
	o := openenv.Options{URL: cfg.EnvServer(), Action: cfg.OpenEnvAction, Timeout: time.Duration(cfg.TurnSeconds * float64(time.Second))}
	if cfg.OpenEnvTemplate != "" {
		text, err := openfile.Read(cfg.OpenEnvTemplate)
		if err != nil {
			return sources.MissingText(cfg, "openenv_template", badinput.Errorf("openenv_template: %w", err))
		}
		if o.Template, err = template.New("openenv_template").Parse(string(text)); err != nil {
			return badinput.Errorf("openenv_template: %w", err)
		}
	}
	server, err := openenv.Open(ctx, o)
	if err != nil {
		return err
	}
	w := &openEnvironment{server: server, reward: sum, begins: map[string]string{}}
	switch cfg.OpenEnvReward {
	case "last":
		w.reward = episode.LastReward
	case "best":
		w.reward = episode.BestReward
	}
	l.Begin, r.Notes = w.begin, append(r.Notes, server.Notes...)
	r.env, r.where = w, "at "+server.Describe()
	return nil
}

// sum adds up rewards.
func sum(rewards []float64) (all float64) {
	for _, r := range rewards {
		all += r
	}
	return all
}

// begin returns the first observation of a session about a problem. It asks the server only once.
func (w *openEnvironment) begin(ctx context.Context, p *data.Problem) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text, known := w.begins[p.ID]; known {
		return text, nil
	}
	e, text, err := w.reset(ctx, p)
	if err != nil {
		return "", err
	}
	e.session.Close()
	w.begins[p.ID] = text
	return text, nil
}

// parameters are those of reset for a problem: a seed from its ID, unless metadata.reset of its row says otherwise.
func parameters(p *data.Problem) (map[string]any, error) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(p.ID))
	all := map[string]any{"seed": hash.Sum32() >> 1}
	if len(p.Metadata) > 0 {
		var row struct {
			Reset map[string]json.RawMessage `json:"reset"`
		}
		if err := json.Unmarshal(p.Metadata, &row); err != nil {
			return nil, badinput.Errorf("metadata: %w, such as {\"reset\": {\"seed\": 7}}", jsonl.Explain(err))
		}
		for name, value := range row.Reset {
			all[name] = value
		}
	}
	return all, nil
}

// reset starts a session about a problem.
func (w *openEnvironment) reset(ctx context.Context, p *data.Problem) (*openEnvEpisode, string, error) {
	said, err := parameters(p)
	if err != nil {
		return nil, "", err
	}
	session, r, err := w.server.Begin(ctx, said)
	if err != nil {
		return nil, "", err
	}
	text, err := w.text(r)
	if err == nil && r.Done {
		err = badinput.Errorf("env=openenv: the episode is done right after its reset; check metadata.reset of its row")
	}
	if err != nil {
		session.Close()
		return nil, "", err
	}
	return &openEnvEpisode{openEnvironment: w, session: session}, text, nil
}

// text is an observation as the model reads it.
func (w *openEnvironment) text(r openenv.Result) (string, error) {
	text, err := w.server.Text(r)
	return tools.Fit(text, 4*tools.DefaultText), err
}

// Open starts the session of a conversation. It must begin with the observation that the prompt has.
func (w *openEnvironment) Open(ctx context.Context, p *data.Problem) (episode.Episode, error) {
	want, err := w.begin(ctx, p)
	if err != nil {
		return nil, err
	}
	e, text, err := w.reset(ctx, p)
	switch {
	case badinput.Is(err):
		return nil, fmt.Errorf("problem %s: %w", p.ID, err)
	case err != nil:
		return nil, err
	}
	if text != want {
		_ = e.Close()
		return nil, badinput.Errorf("env=openenv: problem %s: the server begins with %.80q, then with %.80q for the same seed, but all "+
			"conversations of a problem must begin alike; make it use the seed, or leave out what changes with openenv_template", p.ID, want, text)
	}
	return e, nil
}

// openEnvEpisode is a conversation: a session, and its rewards so far.
type openEnvEpisode struct {
	*openEnvironment
	session *openenv.Session
	rewards []float64
	wrong   int
}

// Turn takes the action that the model named.
func (e *openEnvEpisode) Turn(ctx context.Context, said episode.Said) (episode.Answer, error) {
	text, r, err := e.step(ctx, said)
	if err != nil {
		return episode.Answer{}, err
	}
	reward := 0.0
	if r.Reward != nil {
		reward = float64(*r.Reward)
	}
	e.rewards = append(e.rewards, reward)
	return episode.Answer{Messages: []chat.Message{{Role: "user", Content: cmp.Or(text, "(nothing)")}}, Reward: e.reward(e.rewards),
		Over: r.Done, Wrong: e.wrong}, nil
}

// step takes an action. If it is refused, text is the reason.
func (e *openEnvEpisode) step(ctx context.Context, said episode.Said) (text string, r openenv.Result, err error) {
	action, err := e.server.Act(said.Text)
	if err == nil {
		r, err = e.session.Step(ctx, action)
	}
	var refused *openenv.RejectedError
	if errors.As(err, &refused) {
		e.wrong++
		return "error: " + tools.Fit(refused.Why, tools.DefaultText), r, nil
	}
	if err == nil {
		text, err = e.text(r)
	}
	return text, r, err
}

func (e *openEnvEpisode) Close() error {
	e.session.Close()
	return nil
}
