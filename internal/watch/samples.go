package watch

import (
	"crypto/subtle"
	"net/http"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/samples/browser"
)

// completions serves the pages about a run's completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	dir, state, ok := s.Where(name)
	if !ok {
		display.HTTPError(w, r, http.StatusNotFound, "there is no run with that name here")
		return
	}
	s.samples.Serve(w, r, browser.Run{Name: name, Dir: dir, GoesOn: state == report.Running})
}

// Close stops the indexing of completions.
func (s *Server) Close() { s.samples.Close() }

// Ticket returns a function that accepts just this ticket, for Options.Authorize.
func Ticket(ticket string) func(string) bool {
	return func(shown string) bool { return subtle.ConstantTimeCompare([]byte(shown), []byte(ticket)) == 1 }
}
