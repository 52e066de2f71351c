package tinker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
	"github.com/seed-7879b91d/grpo/sampler"
)

// samplingSession is a sampling session. What it samples from never changes.
type samplingSession struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Base    string `json:"base"`
	Path    string `json:"path,omitempty"` // of a checkpoint
	Run     string `json:"run,omitempty"`  // or the model whose unnamed weights
	Seq     int64  `json:"seq,omitempty"`  // were saved by this request; 0 for a checkpoint of unknown number
}

// momentID is the ID of the sampling session over unnamed weights that a request saved.
func momentID(model string, seq int64) string { return fmt.Sprintf("%s:sample:%d", model, seq) }

// samplingSession loads a sampling session from the store. That of unnamed weights follows from its ID.
func (s *Server) samplingSession(id string) (*samplingSession, error) {
	model, number, _ := strings.Cut(id, ":sample:")
	s.mu.Lock()
	r := s.runs[model]
	s.mu.Unlock()
	if seq, err := strconv.ParseInt(number, 10, 64); r != nil && err == nil && momentID(model, seq) == id {
		return &samplingSession{ID: id, Session: r.Session, Base: r.Base, Run: model, Seq: seq}, nil
	}
	var v samplingSession
	if err := s.store.Get("samplers", id, &v); err != nil || v.ID != id {
		return nil, cmp.Or(err, fs.ErrNotExist)
	}
	return &v, nil
}

// findSamplingSession returns a sampling session if it belongs to who.
func (s *Server) findSamplingSession(who, id string) (*samplingSession, error) {
	v, err := s.samplingSession(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.sees(who, v.Session) {
		return v, nil
	}
	return nil, notFound(badinput.Errorf("sampling_session_id: there is no %.140q; make one with create_sampling_session", id))
}

// createSamplingSession creates a session over a base, or over a checkpoint of an adapter.
func (s *Server) createSamplingSession(r *http.Request) (any, error) {
	var q struct {
		Session string  `json:"session_id"`
		Seq     int64   `json:"sampling_session_seq_id"`
		Path    *string `json:"model_path"`
		Base    *string `json:"base_model"`
	}
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	if _, err := s.findSession(s.who(r), q.Session); err != nil {
		return nil, err
	}
	v := &samplingSession{ID: fmt.Sprintf("%s:sample:%d", q.Session, q.Seq), Session: q.Session}
	switch {
	case q.Seq < 0:
		return nil, badinput.Errorf("sampling_session_seq_id: found %d, expected 0 or more", q.Seq)
	case q.Path != nil:
		c, run, err := s.checkpoint(s.who(r), "model_path", *q.Path)
		if err != nil {
			return nil, err
		}
		v.Path, v.Base, v.Seq = *q.Path, run.Base, c.Seq
		if q.Base != nil && *q.Base != run.Base {
			return nil, badinput.Errorf("base_model: found %.100q, but %s is of %q", *q.Base, v.Path, run.Base)
		}
	case q.Base != nil:
		v.Base = *q.Base
	default:
		return nil, badinput.Errorf("model_path: found none, and no base_model; expected one of them")
	}
	if _, err := s.base(v.Base); err != nil {
		return nil, err
	}
	if err := s.room(); err != nil {
		return nil, err
	}
	s.samplingMu.Lock()
	defer s.samplingMu.Unlock()
	if old, err := s.findSamplingSession(s.who(r), v.ID); err == nil && *old != *v {
		return nil, badinput.Errorf("sampling_session_seq_id: %d was used for another sampling session; send a higher one", q.Seq)
	}
	return map[string]string{"sampling_session_id": v.ID}, s.store.Put("samplers", v.ID, v)
}

func (s *Server) sampler(r *http.Request) (any, error) {
	v, err := s.findSamplingSession(s.who(r), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if _, err := s.adapter(v); v.Run != "" && badinput.Is(err) {
		return nil, notFound(badinput.Errorf("there is no %.140q: it was deleted, or had no name, and only the latest unnamed weights are "+
			"kept", v.ID))
	}
	out := map[string]any{"sampler_id": v.ID, "base_model": v.Base}
	if v.Path != "" {
		out["model_path"] = v.Path
	}
	return out, nil
}

// asample samples completions. A wrong request is accepted and fails later, as a client may retry one that is refused.
func (s *Server) asample(r *http.Request) (any, error) {
	body, done, err := s.bodyOf(r, s.mostAsked)
	if err != nil {
		return nil, err
	}
	defer done()
	defer s.account(s.who(r)).unpack(len(body))()
	var q wire.Sample
	if err := wire.Read(body, &q); err != nil {
		return nil, err
	}
	v, err := s.findSamplingSession(s.who(r), q.Session)
	if err != nil {
		return nil, err
	}
	if body, err = wire.Canonical(body); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	id := fmt.Sprintf("%s#%d", v.ID, q.Seq)
	samples := &s.account(s.owner(v.Session)).samples
	f, isNew, err := samples.begin(id, hex.EncodeToString(sum[:]))
	if err != nil || !isNew {
		return futureAnswer(id, ""), err
	}
	s.work.Go(func() {
		out, err := s.sample(s.ctx, v, &q)
		switch {
		case s.ctx.Err() != nil:
			samples.settle(f, result{status: lost}) // the client sends it again
		case err != nil:
			why := s.failed(err)
			if why.status == server {
				s.Log.Error("a request failed", "sampler", v.ID, "number", q.Seq, "why", err.Error())
			}
			samples.settle(f, why)
		default:
			samples.settle(f, result{status: statusOK, kind: isProtobuf, body: out.Append(nil)})
		}
	})
	return futureAnswer(id, ""), nil
}

func (s *Server) sample(ctx context.Context, v *samplingSession, q *wire.Sample) (out wire.Sampled, err error) {
	base, err := s.base(v.Base)
	if err != nil {
		return out, err
	}
	request, err := base.request(v, q)
	if err != nil {
		return out, err
	}
	w, err := s.adapter(v)
	if err != nil {
		return out, err
	}
	request.From = s.owner(v.Session)
	rollouts, err := base.Sampler.Sample(ctx, w, request)
	if err != nil {
		return out, err
	}
	for _, x := range rollouts {
		if x.Err != nil {
			return out, x.Err
		}
		if slices.ContainsFunc(x.LogProbs, func(p float32) bool { return p != p }) {
			return out, badinput.Errorf("the training of %s has diverged: its log-probabilities are not finite; sample from an earlier "+
				"checkpoint, and train on from there with a lower learning_rate", cmp.Or(v.Path, v.ID))
		}
		out.Sequences = append(out.Sequences, wire.Sequence{Length: x.Finish == sampler.Length, Tokens: x.Tokens, LogProbs: x.LogProbs})
	}
	if first := rollouts[0]; q.PromptLogProbs {
		out.Prompt = first.Prompt
	}
	if q.PromptTop > 0 {
		out.Top = topTokens(rollouts[0].PromptTop, q.PromptTop, len(request.Prompt))
	}
	out.Cached = rollouts[0].Cached
	return out, nil
}

// topTokens arranges the most likely tokens in rows of k.
func topTokens(rows [][]sampler.Likely, k, length int) *wire.Top {
	t := &wire.Top{K: k, Tokens: make([]int32, length*k), LogProbs: make([]float32, length*k)}
	for i := range t.LogProbs {
		t.LogProbs[i] = wire.Empty
	}
	for i, row := range rows[:min(len(rows), length)] {
		for j, l := range row[:min(len(row), k)] {
			t.Tokens[i*k+j], t.LogProbs[i*k+j] = l.Token, l.LogProb
		}
	}
	return t
}

// most is the number of samples in a request at most, and maxTop that of likely tokens per position.
const (
	most   = 1024
	maxTop = 128
)

// request is the request to the sampler.
func (b *Base) request(v *samplingSession, q *wire.Sample) (r sampler.Request, err error) {
	r = sampler.Request{N: 1, ScorePrompt: q.PromptLogProbs, PromptTop: q.PromptTop}
	for _, c := range q.Prompt.Chunks {
		if c.Type != "encoded_text" {
			return r, badinput.Errorf("prompt: found a chunk of type %.40q, expected encoded_text: this model reads only text", c.Type)
		}
		r.Prompt = append(r.Prompt, c.Tokens...)
	}
	if q.N != nil {
		r.N = *q.N
	}
	r.Params.TopP = 1
	p := q.Params
	if r.Params.Temperature, err = body.Temperature(p.Temperature); err != nil {
		return r, badinput.Errorf("%w", err)
	}
	if p.TopP != nil {
		r.Params.TopP = *p.TopP
	}
	if p.TopK != nil {
		r.Params.TopK = max(*p.TopK, 0) // −1 means no limit, as 0 does
	}
	room, scores := b.Context-len(r.Prompt), q.PromptLogProbs || q.PromptTop > 0
	r.Params.MaxTokens = room
	if p.MaxTokens != nil && !(*p.MaxTokens == 1 && room == 0 && scores) { // the SDK asks for one token when it only scores a prompt
		r.Params.MaxTokens = *p.MaxTokens
	}
	r.Key.Seed = seedOf(v.ID, q.Seq)
	if p.Seed != nil {
		r.Key.Seed = uint64(*p.Seed)
	}
	switch {
	case len(r.Prompt) == 0:
		return r, badinput.Errorf("prompt: found no tokens, expected one or more")
	case r.Params.MaxTokens > room || room < 0 || room == 0 && !scores:
		return r, badinput.Errorf("prompt: %d tokens and max_tokens %d are more than the %d of a sequence here",
			len(r.Prompt), r.Params.MaxTokens, b.Context)
	case p.TopK != nil && *p.TopK < -1:
		return r, badinput.Errorf("top_k: found %d, expected 1 or more, or -1 for all", *p.TopK)
	case p.TopP != nil && !(*p.TopP > 0 && *p.TopP <= 1): // to the sampler, 0 means no limit
		return r, badinput.Errorf("top_p: found %v, expected above 0 to 1; for the most likely token alone send temperature 0", *p.TopP)
	case r.N < 1 || r.N > most:
		return r, badinput.Errorf("num_samples: found %d, expected 1 to %d", r.N, most)
	case q.PromptTop < 0 || q.PromptTop > maxTop:
		return r, badinput.Errorf("topk_prompt_logprobs: found %d, expected 0 to %d", q.PromptTop, maxTop)
	}
	return r, b.stops(&r.Params, p.Stop)
}

// stops reads what stops a completion: by default the model's stop tokens; else a string, strings, or tokens.
func (b *Base) stops(p *sampler.Params, stop json.RawMessage) error {
	var one string
	var texts []string
	var tokens []int32 // fails for strings, with a zero for each
	var each []json.RawMessage
	switch {
	case len(stop) == 0 || string(stop) == "null":
		p.StopTokens = b.Stops
	case json.Unmarshal(stop, &one) == nil:
		texts = []string{one}
	case json.Unmarshal(stop, &each) == nil && slices.ContainsFunc(each, func(part json.RawMessage) bool { return string(part) == "null" }):
		return badinput.Errorf("stop: found null in it, expected texts or tokens alone")
	case json.Unmarshal(stop, &tokens) == nil:
		p.StopTokens = tokens
	case json.Unmarshal(stop, &texts) == nil:
	default:
		return badinput.Errorf("stop: expected a text, a list of texts or a list of tokens")
	}
	if slices.Contains(texts, "") {
		return badinput.Errorf(`stop: found "", expected texts with something in them, null for the model's own or [] for none`)
	}
	if len(texts) > 64 || len(p.StopTokens) > 1024 {
		return badinput.Errorf("stop: found %d, expected at most 64 texts or 1024 tokens", max(len(texts), len(p.StopTokens)))
	}
	if len(texts) > 0 && b.Text != nil {
		p.Watch = sampler.StopStrings(texts, b.Text)
	}
	return nil
}

// seedOf is the seed of a request without one: the same when it is sent again.
func seedOf(session string, seq int64) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(session), uint64(seq)))
	return binary.LittleEndian.Uint64(sum[:8]) & math.MaxInt64
}
