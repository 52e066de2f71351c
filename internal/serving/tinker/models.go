package tinker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/learn"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
	"github.com/seed-7879b91d/grpo/optim"
)

const forwardBackward = "forward_backward"

// kind is a numbered call with a JSON body.
type kind struct {
	kind string
	do   func(*run, *entry) (any, error)
	body func() any
}

var (
	optimStep      = kind{"optim_step", (*run).optimStep, func() any { return new(wire.OptimStep) }}
	saveWeights    = kind{"save_weights", (*run).saveWeights, func() any { return new(wire.Save) }}
	loadWeights    = kind{"load_weights", (*run).loadWeights, func() any { return new(wire.Load) }}
	saveForSampler = kind{"save_weights_for_sampler", (*run).saveForSampler, func() any { return new(wire.Save) }}
)

// createModel creates a model's folder before it answers. The model's ID follows from session and number, so that
// repeating the call gives the same model.
func (s *Server) createModel(r *http.Request) (any, error) {
	yes := true
	var q wire.CreateModel
	q.LoRA.Rank, q.LoRA.MLP, q.LoRA.Attn = 32, &yes, &yes
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	if _, err := s.findSession(s.who(r), q.Session); err != nil {
		return nil, err
	}
	a := store.ModelInfo{ID: fmt.Sprintf("%s:train:%d", q.Session, q.Seq), Session: q.Session, Base: q.Base, Rank: q.LoRA.Rank,
		Attn: on(q.LoRA.Attn), MLP: on(q.LoRA.MLP), Metadata: map[string]string{}, Created: time.Now().UTC()}
	if q.LoRA.Seed != nil {
		a.Seed = uint64(*q.LoRA.Seed)
	}
	for k, v := range q.Metadata {
		a.Metadata[k] = fmt.Sprint(v)
	}
	if q.Seq < 0 {
		return nil, badinput.Errorf("model_seq_id: found %d, expected 0 or more", q.Seq)
	}
	if err := errors.Join(s.checkModel(a), s.room()); err != nil {
		return nil, err
	}
	created, err := s.makeRun(a)
	if err != nil {
		return nil, err
	}
	return futureAnswer(created, a.ID), nil
}

func on(b *bool) bool { return b == nil || *b }

// checkModel refuses a model that could not be trained.
func (s *Server) checkModel(a store.ModelInfo) error {
	b, err := s.base(a.Base)
	if err != nil {
		return err
	}
	if most := b.Policy.Hidden; a.Rank < 1 || a.Rank > most {
		return badinput.Errorf("lora_config: found rank %d, expected 1 to %d", a.Rank, most)
	}
	if !a.Attn && !a.MLP {
		return badinput.Errorf("lora_config: found neither train_attn nor train_mlp; the unembedding alone is not trained here")
	}
	return nil
}

// makeRun creates a model, or finds the one that the same request created, and returns the request's ID.
func (s *Server) makeRun(a store.ModelInfo) (id string, err error) {
	content, err := contentOfModel(a)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	r := s.runs[a.ID]
	if r != nil {
		if before, err := contentOfModel(r.ModelInfo); err == nil && !bytes.Equal(before, content) {
			s.mu.Unlock()
			return "", badinput.Errorf("model_seq_id: that of %s was used for another create_model; send a higher one", a.ID)
		}
	} else {
		kept, err := s.store.Create(a)
		if err != nil {
			s.mu.Unlock()
			return "", err
		}
		r = &run{s: s, Run: kept, account: s.accountLocked(s.ownerOf(a.Session))}
		s.runs[a.ID] = r
	}
	s.mu.Unlock()
	return r.accept(0, created, sumOf(created, content), content)
}

// contentOfModel is the canonical content of a create_model.
func contentOfModel(a store.ModelInfo) ([]byte, error) {
	a.Created = time.Time{}
	return json.Marshal(a)
}

// findRun returns a model if it belongs to who.
func (s *Server) findRun(who, id string) (*run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil && s.sees(who, r.Session) {
		return r, nil
	}
	return nil, notFound(badinput.Errorf("model_id: there is no model %.140q; make one with create_model", id))
}

// modelOf returns the model of a call.
func (s *Server) modelOf(r *http.Request) (*run, error) {
	var q wire.Named
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	return s.findRun(s.who(r), q.Model)
}

func (s *Server) getInfo(r *http.Request) (any, error) {
	m, err := s.modelOf(r)
	if err != nil {
		return nil, err
	}
	b, err := s.base(m.Base)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"type": "get_info", "model_id": m.ID, "is_lora": true, "lora_rank": m.Rank, "model_name": m.Base,
		"model_data": map[string]any{"arch": b.Policy.Architecture, "model_name": m.Base, "tokenizer_id": b.Tokenizer},
	}, nil
}

// unloadModel ends the training of a model. Requests accepted before are executed; its checkpoints stay.
func (s *Server) unloadModel(r *http.Request) (any, error) {
	m, err := s.modelOf(r)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(); err != nil {
		return nil, err
	}
	defer m.start()
	if !m.unloaded {
		if err := m.record(true, store.Record{Kind: unload, Seq: unloadSeq}); err != nil {
			return nil, err
		}
		m.unloaded = true
	}
	return futureAnswer(m.ID+"#"+unload, m.ID), nil
}

// forwardBackward accepts data to train on. If the data is wrong, the future says so, provided that model and number can be read.
func (s *Server) forwardBackward(r *http.Request) (any, error) {
	body, done, err := s.bodyOf(r, s.MaxBody)
	if err != nil {
		return nil, err
	}
	defer done() // from then on it counts as held by the model
	q, err := wire.ReadSeq(body)
	if err != nil {
		return nil, badinput.Errorf("body: %w; expected protobuf, found Content-Type %.60q", err, r.Header.Get("Content-Type"))
	}
	m, err := s.findRun(s.who(r), q.ModelID)
	if err != nil {
		return nil, err
	}
	m.account.unpacking.Lock() // a few sparse bytes may expand to a hundred megabytes
	defer m.account.unpacking.Unlock()
	kind, sum := forwardBackward, ""
	if whole, err := wire.ReadForwardBackward(body); err != nil {
		sum = sumOf(kind, body)
	} else {
		sum = sumOf(kind, whole.Append(nil))
		if err := learn.CheckInputs(whole); err != nil {
			kind, body = wrong, []byte(err.Error())
		}
	}
	id, err := m.accept(q.SeqID, kind, sum, body)
	if err != nil {
		return nil, err
	}
	return futureAnswer(id, m.ID), nil
}

// numbered accepts requests of a kind.
func (s *Server) numbered(k kind) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		body, done, err := s.bodyOf(r, small)
		if err != nil {
			return nil, err
		}
		defer done()
		body, odd := wire.NullNonFinite(body)
		var q wire.Named
		if err := wire.Parse(body, &q); err != nil {
			return nil, err
		}
		m, err := s.findRun(s.who(r), q.Model)
		if err != nil {
			return nil, err
		}
		if body, err = wire.Canonical(body); err != nil {
			return nil, err
		}
		kind, sum := k.kind, sumOf(k.kind, body)
		if err := cmp.Or(odd, wire.CheckFields(body, k.body())); err != nil {
			kind, body = wrong, []byte(err.Error())
		}
		id, err := m.accept(q.Seq, kind, sum, body)
		if err != nil {
			return nil, err
		}
		return futureAnswer(id, m.ID), nil
	}
}

func (r *run) optimStep(e *entry) (any, error) {
	d := optim.Defaults()
	var q wire.OptimStep
	if err := wire.Parse(e.body, &q); err != nil {
		return nil, err
	}
	rate := 1e-4
	for _, x := range []struct{ to, from *float64 }{{&rate, q.Adam.Rate}, {&d.Beta1, q.Adam.Beta1}, {&d.Beta2, q.Adam.Beta2},
		{&d.Eps, q.Adam.Eps}, {&d.WeightDecay, q.Adam.Decay}, {&d.ClipNorm, q.Adam.Clip}} {
		if x.from != nil {
			*x.to = *x.from
		}
	}
	metrics, err := r.bench.Step(r.model, d, rate)
	return map[string]any{"metrics": metrics}, err
}

func (r *run) saveWeights(e *entry) (any, error) {
	var q wire.Save
	if err := wire.Parse(e.body, &q); err != nil {
		return nil, err
	}
	if q.Path == nil {
		return nil, badinput.Errorf("path: found none, expected the name of the checkpoint")
	}
	return r.saveNamed(e, q, store.Weights)
}

func (r *run) saveNamed(e *entry, q wire.Save, kind string) (any, error) {
	c := store.Checkpoint{Kind: kind, Name: *q.Path, Seq: e.seq, Time: time.Now().UTC()}
	if err := c.SetTTL(q.TTL); err != nil {
		return nil, err
	}
	err := r.Save(c, q.Overwrite, func(dir string) error { return r.saveTo(dir, kind == store.Weights) })
	return map[string]string{"path": store.Path(r.ID, kind, c.Name)}, err
}

// saveForSampler saves the adapter: under a name, or for one sampling session.
func (r *run) saveForSampler(e *entry) (any, error) {
	var q wire.Save
	if err := wire.Parse(e.body, &q); err != nil {
		return nil, err
	}
	if q.Path != nil {
		return r.saveNamed(e, q, store.Sampler)
	}
	if _, err := r.SaveUnnamed(e.seq, r.s.MaxUnnamed, func(dir string) error { return r.saveTo(dir, false) }); err != nil {
		return nil, err
	}
	return map[string]any{"sampling_session_id": momentID(r.ID, e.seq), "path": nil}, nil
}

// loadWeights loads a checkpoint, and makes a snapshot at once, as the checkpoint may be deleted before a replay.
func (r *run) loadWeights(e *entry) (any, error) {
	var q wire.Load
	if err := wire.Parse(e.body, &q); err != nil {
		return nil, err
	}
	c, from, err := r.s.checkpoint(r.s.owner(r.Session), "path", q.Path)
	if err != nil {
		return nil, err
	}
	if q.Optimizer && c.Kind != store.Weights {
		return nil, badinput.Errorf("path: %s has no optimizer's state; load it without, or a checkpoint under %s", q.Path, store.Weights)
	}
	if err := from.WithCheckpoint(c.Kind, c.Name, func(c store.Checkpoint) error {
		if err := r.s.checkBase(r.Base, c.Dir, q.Path); err != nil {
			return err
		}
		return r.bench.Load(r.model, c.Dir, q.Optimizer)
	}); err != nil {
		return nil, err
	}
	return struct{}{}, r.snapshot(e.seq)
}
