package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
)

// Sampling is a sampling session.
type Sampling struct {
	*Client
	ID  string
	Seq int64 // number of the next request
}

// Sampling creates a sampling session over a checkpoint, or if path is empty over a base.
func (s *Session) Sampling(ctx context.Context, base, path string) (*Sampling, error) {
	q := map[string]any{"session_id": s.ID, "sampling_session_seq_id": s.samplings}
	if path != "" {
		q["model_path"] = path
	} else {
		q["base_model"] = base
	}
	s.samplings++
	var answer struct {
		ID string `json:"sampling_session_id"`
	}
	err := s.Call(ctx, "POST", "create_sampling_session", q, &answer)
	return &Sampling{Client: s.Client, ID: answer.ID}, err
}

// SampleParams are sampling parameters.
type SampleParams struct {
	N              int
	Params         map[string]any
	PromptLogProbs bool
	PromptTop      int
}

// Sample samples completions of a prompt. If the server lost the request, it is sent again.
func (v *Sampling) Sample(ctx context.Context, prompt []int32, a SampleParams) (wire.Sampled, error) {
	if a.Params == nil {
		a.Params = map[string]any{}
	}
	q := map[string]any{"sampling_session_id": v.ID, "seq_id": v.Seq, "num_samples": max(a.N, 1), "sampling_params": a.Params,
		"prompt":          map[string]any{"chunks": []any{map[string]any{"type": "encoded_text", "tokens": prompt}}},
		"prompt_logprobs": a.PromptLogProbs, "topk_prompt_logprobs": a.PromptTop}
	v.Seq++
	for {
		var p promise
		if err := v.Call(ctx, "POST", "asample", q, &p); err != nil {
			return wire.Sampled{}, err
		}
		text, err := v.Wait(ctx, p.Request)
		var gone *RejectedError
		if errors.As(err, &gone) && gone.Code == http.StatusGone {
			continue
		}
		if err != nil {
			return wire.Sampled{}, err
		}
		return wire.ReadSampled(text)
	}
}
