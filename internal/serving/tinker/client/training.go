package client

import (
	"context"
	"encoding/json"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
)

// Training is a model in training.
type Training struct {
	*Session
	ID string
	// Chunk is the most datums in one call; 0: 1,024.
	Chunk int
	Seq   int64 // number of the last request
}

// Train makes a model over a base.
func (s *Session) Train(ctx context.Context, base string, rank int, seed int64) (*Training, error) {
	var p promise
	err := s.Call(ctx, "POST", "create_model", map[string]any{"session_id": s.ID, "model_seq_id": s.models, "base_model": base,
		"lora_config": map[string]any{"rank": rank, "seed": seed}}, &p)
	if err != nil {
		return nil, err
	}
	s.models++
	text, err := s.Wait(ctx, p.Request)
	if err != nil {
		return nil, err
	}
	t := &Training{Session: s}
	return t, json.Unmarshal(text, &struct {
		ID *string `json:"model_id"`
	}{&t.ID})
}

type promise struct {
	Request string `json:"request_id"`
}

// Future is the result of one or several calls.
type Future[T any] struct {
	client   *Client
	requests []string
	read     func(parts [][]byte) (T, error)
}

// Wait polls for the result.
func (f *Future[T]) Wait(ctx context.Context) (v T, err error) {
	var parts [][]byte
	for _, id := range f.requests {
		text, err := f.client.Wait(ctx, id)
		if err != nil {
			return v, err
		}
		parts = append(parts, text)
	}
	return f.read(parts)
}

// ForwardBackward sends data in chunks, the first of them last, as the SDK does.
func (t *Training) ForwardBackward(ctx context.Context, r wire.ForwardBackward) (*Future[wire.Output], error) {
	size := t.Chunk
	if size == 0 {
		size = 1024
	}
	var chunks [][]byte
	for from := 0; from < len(r.Data) || from == 0; from += size {
		t.Seq++
		part := r
		part.ModelID, part.SeqID, part.Data = t.ID, t.Seq, r.Data[from:min(from+size, len(r.Data))]
		chunks = append(chunks, part.Append(nil))
	}
	f := &Future[wire.Output]{client: t.Client, requests: make([]string, len(chunks)), read: join}
	for k := range chunks {
		at := (k + 1) % len(chunks)
		var p promise
		if err := t.Call(ctx, "POST", "forward_backward", chunks[at], &p); err != nil {
			return nil, err
		}
		f.requests[at] = p.Request
	}
	return f, nil
}

// join concatenates the outputs of chunks, and adds up their sums.
func join(parts [][]byte) (all wire.Output, err error) {
	all.Metrics = map[string]float64{}
	for _, text := range parts {
		o, err := wire.ReadOutput(text)
		if err != nil {
			return all, err
		}
		all.LogProbs = append(all.LogProbs, o.LogProbs...)
		for name, v := range o.Metrics {
			all.Metrics[name] += v
		}
	}
	return all, nil
}

// Do sends a numbered request of a kind with these fields.
func (t *Training) Do(ctx context.Context, kind string, fields map[string]any) (*Future[map[string]any], error) {
	t.Seq++
	return t.Resend(ctx, kind, t.Seq, fields)
}

// Resend sends it with a number that was already used.
func (t *Training) Resend(ctx context.Context, kind string, seq int64, fields map[string]any) (*Future[map[string]any], error) {
	all := map[string]any{"model_id": t.ID, "seq_id": seq}
	for k, v := range fields {
		all[k] = v
	}
	var p promise
	if err := t.Call(ctx, "POST", kind, all, &p); err != nil {
		return nil, err
	}
	return &Future[map[string]any]{client: t.Client, requests: []string{p.Request}, read: func(parts [][]byte) (v map[string]any, err error) {
		return v, json.Unmarshal(parts[0], &v)
	}}, nil
}

// OptimStep updates the model.
func (t *Training) OptimStep(ctx context.Context, rate float64) (*Future[map[string]any], error) {
	return t.Do(ctx, "optim_step", map[string]any{"adam_params": map[string]any{"learning_rate": rate, "beta1": 0.9, "beta2": 0.95,
		"eps": 1e-12, "weight_decay": 0.0, "grad_clip_norm": 0.0}})
}

// Save makes a checkpoint; Load loads one.
func (t *Training) Save(ctx context.Context, name string) (path string, err error) {
	return t.path(t.Do(ctx, "save_weights", map[string]any{"path": name, "overwrite": false}))(ctx)
}

// SaveSampler makes a checkpoint to sample from.
func (t *Training) SaveSampler(ctx context.Context, name string) (path string, err error) {
	return t.path(t.Do(ctx, "save_weights_for_sampler", map[string]any{"path": name}))(ctx)
}

func (t *Training) path(f *Future[map[string]any], err error) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if err != nil {
			return "", err
		}
		v, err := f.Wait(ctx)
		path, _ := v["path"].(string)
		return path, err
	}
}

// Load loads a checkpoint, with the optimizer's state if asked.
func (t *Training) Load(ctx context.Context, path string, optimizer bool) error {
	f, err := t.Do(ctx, "load_weights", map[string]any{"path": path, "optimizer": optimizer})
	if err == nil {
		_, err = f.Wait(ctx)
	}
	return err
}

// Sampling saves the model for a sampling session, and creates that.
func (t *Training) Sampling(ctx context.Context) (*Sampling, error) {
	f, err := t.Do(ctx, "save_weights_for_sampler", map[string]any{"sampling_session_seq_id": t.samplings})
	if err != nil {
		return nil, err
	}
	t.samplings++
	v, err := f.Wait(ctx)
	id, _ := v["sampling_session_id"].(string)
	return &Sampling{Client: t.Client, ID: id}, err
}
