package gate

import (
	"errors"
	"net/http"
	"runtime/debug"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// errFault is what a client is told of a fault of ours.
var errFault = errors.New("the handler panicked")

// answer has the next handler answer. Where that panics, the log says so with the place, as net/http would say it to nobody; the
// client gets 500, or where an answer had begun, a connection that breaks off: what was sent must not look whole.
func (g *Gate) answer(w *response, r *http.Request, id string) {
	defer func() {
		why := recover()
		if why == nil {
			return
		}
		if why == http.ErrAbortHandler { // who panics so has said what was to be said
			panic(why)
		}
		g.Log.Error(errFault.Error(), "id", id, "why", why, "stack", string(debug.Stack()))
		if w.status != 0 {
			panic(http.ErrAbortHandler)
		}
		refusal.Write(w, errFault)
	}()
	g.next.ServeHTTP(w, r)
}
