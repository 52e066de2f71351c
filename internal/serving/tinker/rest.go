package tinker

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// cursor says which part of a list an answer has.
type cursor struct {
	Offset int `json:"offset"`
	Limit  int `json:"limit"`
	Total  int `json:"total_count"`
}

// pageOf returns the part of a list that a call asks for.
func pageOf[T any](r *http.Request, all []T) ([]T, cursor, error) {
	c := cursor{Limit: 20, Total: len(all)}
	for key, to := range map[string]*int{"limit": &c.Limit, "offset": &c.Offset} {
		if text := r.URL.Query().Get(key); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return nil, c, badinput.Errorf("%s: found %.40q, expected 0 or more", key, text)
			}
			*to = n
		}
	}
	from := min(c.Offset, len(all))
	return all[from : from+min(c.Limit, len(all)-from)], c, nil
}

// checkpointJSON is a checkpoint in the form of the protocol.
func checkpointJSON(r *run, c store.Checkpoint) map[string]any {
	kind := "training"
	if c.Kind == store.Sampler {
		kind = "sampler"
	}
	return map[string]any{
		"checkpoint_id": c.Kind + "/" + c.Name, "checkpoint_type": kind, "time": c.Time, "expires_at": c.Expires,
		"tinker_path": store.Path(r.ID, c.Kind, c.Name), "size_bytes": c.Size, "public": c.Public,
	}
}

func (s *Server) runJSON(r *run) (map[string]any, error) {
	all, err := r.Checkpoints()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	last, broken := cmp.Or(r.last, r.Created), r.broken
	r.mu.Unlock()
	out := map[string]any{
		"training_run_id": r.ID, "base_model": r.Base, "model_owner": "local", "is_lora": true, "lora_rank": r.Rank,
		"corrupted": broken != nil, "last_request_time": last.UTC().Format(time.RFC3339Nano),
		"last_checkpoint": nil, "last_sampler_checkpoint": nil, "user_metadata": r.Metadata,
	}
	for _, c := range all {
		key := "last_checkpoint"
		if c.Kind == store.Sampler {
			key = "last_sampler_checkpoint"
		}
		out[key] = checkpointJSON(r, c)
	}
	return out, nil
}

// allRuns lists the models of a key, the newest first.
func (s *Server) allRuns(who string) []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := make([]*run, 0, len(s.runs))
	for _, r := range s.runs {
		if s.sees(who, r.Session) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *run) int {
		if by := b.Created.Compare(a.Created); by != 0 {
			return by
		}
		return strings.Compare(a.ID, b.ID)
	})
	return runs
}

func (s *Server) listRuns(r *http.Request) (any, error) {
	page, c, err := pageOf(r, s.allRuns(s.who(r)))
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, m := range page {
		v, err := s.runJSON(m)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return map[string]any{"training_runs": out, "cursor": c}, nil
}

func (s *Server) getRun(r *http.Request) (any, error) {
	m, err := s.findRun(s.who(r), r.PathValue("run"))
	if err != nil {
		return nil, err
	}
	return s.runJSON(m)
}

func (s *Server) runCheckpoints(r *http.Request) (any, error) {
	m, err := s.findRun(s.who(r), r.PathValue("run"))
	if err != nil {
		return nil, err
	}
	all, err := m.Checkpoints()
	out := []any{}
	for _, c := range all {
		out = append(out, checkpointJSON(m, c))
	}
	return map[string]any{"checkpoints": out}, err
}

func (s *Server) listCheckpoints(r *http.Request) (any, error) {
	all := []any{}
	for _, m := range s.allRuns(s.who(r)) {
		of, err := m.Checkpoints()
		if err != nil {
			return nil, err
		}
		for _, c := range slices.Backward(of) {
			all = append(all, checkpointJSON(m, c))
		}
	}
	page, c, err := pageOf(r, all)
	return map[string]any{"checkpoints": page, "cursor": c}, err
}

// about is the checkpoint that a call is about.
func (s *Server) about(r *http.Request) (*run, store.Checkpoint, error) {
	m, err := s.findRun(s.who(r), r.PathValue("run"))
	if err != nil {
		return nil, store.Checkpoint{}, err
	}
	c, err := m.Find(r.PathValue("kind"), r.PathValue("name"))
	if badinput.Is(err) {
		err = notFound(err)
	}
	return m, c, err
}

func (s *Server) deleteCheckpoint(r *http.Request) (any, error) {
	m, c, err := s.about(r)
	if err == nil {
		err = m.Delete(c)
	}
	return nil, err
}

// lifetime is for how many seconds a checkpoint is kept from now on; null is forever. The field is required.
type lifetime struct {
	told    bool
	seconds *int64
}

func (l *lifetime) UnmarshalJSON(text []byte) error {
	l.told = true
	return json.Unmarshal(text, &l.seconds)
}

func (s *Server) setTTL(r *http.Request) (any, error) {
	m, c, err := s.about(r)
	if err != nil {
		return nil, err
	}
	var q struct {
		TTL lifetime `json:"ttl_seconds"`
	}
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	if !q.TTL.told {
		return nil, badinput.Errorf("ttl_seconds: found none, expected seconds from now, or null, which takes the expiry away")
	}
	c, err = m.Change(c, func(c *store.Checkpoint) error { return c.SetTTL(q.TTL.seconds) })
	return checkpointJSON(m, c), err
}

func (s *Server) publish(public bool) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		m, c, err := s.about(r)
		if err == nil {
			_, err = m.Change(c, func(c *store.Checkpoint) error { c.Public = public; return nil })
		}
		return nil, err
	}
}

// weightsInfo tells a client what model to create in order to load a checkpoint.
func (s *Server) weightsInfo(r *http.Request) (any, error) {
	var q struct {
		Path string `json:"tinker_path"`
	}
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	_, m, err := s.checkpoint(s.who(r), "tinker_path", q.Path)
	if err != nil {
		return nil, notFound(err)
	}
	return map[string]any{"base_model": m.Base, "is_lora": true, "lora_rank": m.Rank,
		"train_unembed": false, "train_mlp": m.MLP, "train_attn": m.Attn}, nil
}
