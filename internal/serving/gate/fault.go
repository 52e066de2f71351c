package gate

import (
	"errors"
	"net/http"
	"runtime/debug"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// errFault is the client's answer to a bug of ours.
var errFault = errors.New("the handler panicked")

// answer calls the next handler. If it panics, the panic is logged with its place; the client gets 500, or if the answer had
// begun, an aborted connection, so that what was sent does not look complete.
func (g *Gate) answer(w *response, r *http.Request, id string) {
	defer func() {
		why := recover()
		if why == nil {
			return
		}
		if why == http.ErrAbortHandler { // the handler aborts on purpose, and has logged why
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
