package tinker

import (
	"net/http"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// Whoever opened a session has it to himself, with the models, sampling sessions and results below it; to others they are not there.
// What was made where nobody needed a key is everybody's, and a checkpoint that was published can be loaded by all.

// who asks: the name of a key.
func (s *Server) who(r *http.Request) string {
	if s.Owner == nil {
		return ""
	}
	return s.Owner(r)
}

// ownerOf is who opened a session; "" where nobody needed a key, or it is not known any more. mu is held.
func (s *Server) ownerOf(session string) string {
	if n := s.sessions[session]; n != nil {
		return n.Owner
	}
	return ""
}

// sees reports whether what is below a session is there for somebody; mu is held.
func (s *Server) sees(who, session string) bool {
	owner := s.ownerOf(session)
	return s.Owner == nil || owner == "" || owner == who
}

// owner is ownerOf where mu is not held.
func (s *Server) owner(session string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownerOf(session)
}

// checkpoint finds what the path in a field names, which somebody may read.
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
