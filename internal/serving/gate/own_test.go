package gate

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A protocol with its own bounds takes no turns, may have longer bodies, and has paths without a key; its clients send the key after a
// prefix.
func TestAProtocolWithBoundsOfItsOwn(t *testing.T) {
	k, shown := keysOf(t, "ada")
	hold, held := make(chan struct{}), make(chan struct{})
	g := gateOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/slow" {
			close(held)
			<-hold
		}
		w.Header().Set("Known", KeyName(r.Context()))
		echoBody(w, r)
	}), Options{Keys: k, MaxBody: 4, MaxConcurrent: 1, MaxQueued: 1, PathLimits: func(path string) (int64, bool, bool) {
		return 8, path == "/own/public", strings.HasPrefix(path, "/own/")
	}})
	mine := []string{"X-Api-Key", "tml-" + shown[0]}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		send(g, "POST", "/v1/slow", "", mine...)
	}()
	<-held
	for _, c := range []struct {
		path, body string
		headers    []string
		code       int
	}{
		{"/own/x", "12345678", mine, 200},
		{"/own/x", "123456789", mine, 413},
		{"/own/x", "", nil, 401},
		{"/own/x", "", []string{"X-Api-Key", "tml-wrong"}, 401},
		{"/own/public", "", nil, 200},
		{"/v1/own/public", "", nil, 401},
		{"/v1/x", "12345", mine, 413},
	} {
		require.Equal(t, c.code, send(g, "POST", c.path, c.body, c.headers...).Code, c)
	}
	require.Equal(t, "ada", send(g, "GET", "/own/public", "", mine...).Header().Get("Known"), "a key that is shown is known")
	require.Empty(t, send(g, "GET", "/own/public", "", "X-Api-Key", "tml-wrong").Header().Get("Known"))
	close(hold)
	<-ended
}
