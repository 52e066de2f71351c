package display

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// An error is a page for a browser, with a way back where one leads somewhere, and plain text for programs.
func TestRefuse(t *testing.T) {
	asked := func(accept string, code int) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/run/x", nil)
		r.Header.Set("Accept", accept)
		HTTPError(w, r, code, "there is no run <x> here")
		return w
	}
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	w := asked(browser, 404)
	require.Equal(t, 404, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Contains(t, w.Body.String(), "<h1>There is no run &lt;x&gt; here</h1>")
	require.Contains(t, w.Body.String(), `<a href="/">grpo runs</a>`)
	require.NotContains(t, asked(browser, 403).Body.String(), "href")
	w = asked("*/*", 404)
	require.Equal(t, "there is no run <x> here\n", w.Body.String())
	require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
}
