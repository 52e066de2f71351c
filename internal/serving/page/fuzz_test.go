package page

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/prompt"
)

// Any request of the page gets its own parts and the run's prompts, and the report only with a ticket.
func FuzzPage(f *testing.F) {
	b, err := prompt.Parse("a test", `{{define "system"}}Be brief.{{end}}Solve: {{.Statement}}`)
	require.NoError(f, err)
	file := filepath.Join(f.TempDir(), "report.html")
	require.NoError(f, os.WriteFile(file, []byte("what was learned"), 0o600))
	p := New(Options{Keys: true, Report: file, PromptTemplate: b})
	for _, path := range []string{"/", "/page/page.js", "/page/../report", "/report", "/page/%2e%2e", "/page//"} {
		f.Add("GET", path, "ticket=1.2", "", "")
	}
	f.Add("POST", "/page/wording", "", "application/json", `{"statement":"{{.}} <b>"}`)
	f.Add("GET", "/report", "", "multipart/form-data; boundary=a",
		"--a\r\nContent-Disposition: form-data; name=\"ticket\"\r\n\r\nx\r\n--a--\r\n")
	f.Fuzz(func(t *testing.T, method, path, query, kind, body string) {
		r := httptest.NewRequest("GET", "/", strings.NewReader(body))
		r.Method, r.URL.Path, r.URL.RawQuery = method, path, query
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		require.Less(t, w.Code, 500, w.Body)
		require.NotContains(t, w.Body.String(), "what was learned")
		if w.Code == http.StatusOK && path != "/page/about" {
			require.True(t, Public(path) || path == "/page/wording", "%q wants a key", path)
		}
	})
}
