package tinker

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// session is a connected client.
type session struct {
	ID       string         `json:"session_id"`
	Tags     []string       `json:"tags"`
	Metadata map[string]any `json:"user_metadata"`
	Created  time.Time      `json:"created"`
	Owner    string         `json:"owner,omitempty"` // the name of a key
}

// short is the part of a session that stays in memory; the store has all of it.
func (n *session) short() *session { return &session{ID: n.ID, Created: n.Created, Owner: n.Owner} }

// closing is an answer after which the connection is closed.
type closing struct{ v any }

// config tells a client its settings. The client drops the connection of this call without closing it; when it was closed
// later, other calls were hit. So the server closes it.
func (s *Server) config(*http.Request) (any, error) {
	return closing{map[string]any{
		"use_pyqwest_transport": false, "pjwt_auth_enabled": false, "proto_compress_fwdbwd": false,
		"parallel_fwdbwd_chunks": true, "create_model_via_load_weights": false,
	}}, nil
}

func (s *Server) dynamicConfig(*http.Request) (any, error) {
	return map[string]any{"refresh_interval_sec": 300}, nil
}

func (s *Server) token(*http.Request) (any, error) {
	return nil, badinput.Errorf("auth/token: this server takes keys directly; set pjwt_auth_enabled to false")
}

func (s *Server) createSession(r *http.Request) (any, error) {
	var n session
	if err := s.read(r, &n); err != nil {
		return nil, err
	}
	if err := s.room(); err != nil {
		return nil, err
	}
	id := "s-" + store.NewID()
	n.ID, n.Created, n.Owner = id, time.Now().UTC(), s.who(r)
	if err := s.store.Put("sessions", id, n); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = n.short()
	return map[string]string{"session_id": id}, nil
}

// findSession returns a session if it belongs to who.
func (s *Server) findSession(who, id string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.sessions[id]; n != nil && s.sees(who, id) {
		return n, nil
	}
	return nil, notFound(badinput.Errorf("session_id: there is no session %.100q; make one with create_session", id))
}

func (s *Server) heartbeat(r *http.Request) (any, error) {
	var q session
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	_, err := s.findSession(s.who(r), q.ID)
	return nil, err
}

// telemetry discards its data. Without this call, a client shows its user errors late.
func (s *Server) telemetry(r *http.Request) (any, error) {
	_, err := io.Copy(io.Discard, http.MaxBytesReader(nil, r.Body, s.MaxBody))
	return map[string]string{"status": "accepted"}, unread(err)
}

func (s *Server) healthz(*http.Request) (any, error) { return map[string]string{"status": "ok"}, nil }

func (s *Server) capabilities(*http.Request) (any, error) {
	models := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.bases)) {
		models = append(models, map[string]any{"model_name": name, "max_context_length": s.bases[name].Context})
	}
	return map[string]any{"supported_models": models}, nil
}

func (s *Server) base(name string) (*Base, error) {
	if b := s.bases[name]; b != nil {
		return b, nil
	}
	return nil, badinput.Errorf("base_model: there is no %.100q; expected one of %q", name, slices.Sorted(maps.Keys(s.bases)))
}

func (s *Server) listSessions(r *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	who := s.who(r)
	all := slices.SortedFunc(maps.Values(s.sessions), func(a, b *session) int { return b.Created.Compare(a.Created) })
	all = slices.DeleteFunc(all, func(n *session) bool { return !s.sees(who, n.ID) })
	page, cursor, err := pageOf(r, all)
	ids := []string{}
	for _, n := range page {
		ids = append(ids, n.ID)
	}
	return map[string]any{"sessions": ids, "cursor": cursor}, err
}

func (s *Server) getSession(r *http.Request) (any, error) {
	var n session
	short, err := s.findSession(s.who(r), r.PathValue("id"))
	if err == nil {
		err = s.store.Get("sessions", short.ID, &n)
	}
	if err != nil {
		return nil, err
	}
	runs := []string{}
	samplers, err := s.store.Names("samplers", n.ID+":")
	for _, m := range s.allRuns(s.who(r)) {
		if m.Session != n.ID {
			continue
		}
		runs = append(runs, m.ID)
		seqs, failed := m.Unnamed()
		err = errors.Join(err, failed)
		for _, seq := range seqs {
			samplers = append(samplers, momentID(m.ID, seq))
		}
	}
	slices.Sort(runs)
	slices.Sort(samplers)
	return map[string]any{"session_id": n.ID, "training_run_ids": runs, "sampler_ids": append([]string{}, slices.Compact(samplers)...),
		"user_metadata": n.Metadata}, err
}
