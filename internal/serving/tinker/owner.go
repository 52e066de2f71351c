package tinker

import (
	"net/http"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// A session, and the models, sampling sessions and results below it, belong to the key that opened it, and are invisible to others.
// What was created without a key belongs to everyone. A published checkpoint can be loaded by all.

// who sends a request: the name of a key.
func (s *Server) who(r *http.Request) string {
	if s.Owner == nil {
		return ""
	}
	return s.Owner(r)
}

// ownerOf is the key that opened a session; "" if none was needed, or it is not known any more. mu is held.
func (s *Server) ownerOf(session string) string {
	if n := s.sessions[session]; n != nil {
		return n.Owner
	}
	return ""
}

// sees reports whether who may see what is below a session; mu is held.
func (s *Server) sees(who, session string) bool {
	owner := s.ownerOf(session)
	return s.Owner == nil || owner == "" || owner == who
}

// owner is ownerOf for callers that do not hold mu.
func (s *Server) owner(session string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownerOf(session)
}

// checkpoint returns the checkpoint that the path in a field names, if who may read it.
func (s *Server) checkpoint(who, field, path string) (c store.Checkpoint, r *run, err error) {
	id, kind, name, err := store.ParsePath(path)
	if err != nil {
		return c, nil, badinput.Errorf("%s: %w", field, err)
	}
	s.mu.Lock()
	r = s.runs[id]
	own := r != nil && s.sees(who, r.Session)
	s.mu.Unlock()
	if r != nil {
		c, err = r.Find(kind, name)
	}
	if !own && !c.Public {
		return store.Checkpoint{}, nil, badinput.Errorf("%s: there is no model of %.200q", field, path)
	}
	return c, r, err
}
