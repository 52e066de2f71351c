package watch

import (
	"crypto/subtle"
	"net/http"

	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/samples/browser"
)

// completions draws what is on record of a run.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	dir, state, ok := s.Where(name)
	if !ok {
		http.Error(w, "there is no run of that name here", http.StatusNotFound)
		return
	}
	s.samples.Serve(w, r, browser.Run{Name: name, Dir: dir, GoesOn: state == report.GoingOn})
}

// Close ends what goes on for pages.
func (s *Server) Close() { s.samples.Close() }

// Ticket makes of one ticket what lets in who shows it.
func Ticket(ticket string) func(string) bool {
	return func(shown string) bool { return subtle.ConstantTimeCompare([]byte(shown), []byte(ticket)) == 1 }
}
