package page

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/prompt"
)

func get(p *Page, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// The page and its parts need no key, load nothing from elsewhere, and refer only to each other.
func TestThePageIsWhole(t *testing.T) {
	p := New(Options{Keys: true})
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml"}
	names, err := fs.ReadDir(files, ".")
	require.NoError(t, err)
	require.Len(t, names, 5)
	address := regexp.MustCompile(`(?:src|href|from)[= ]"([^"#]+)"|url\(([^)]+)\)|@import`)
	inline := regexp.MustCompile(`(?i)<script>|<style|\son\w+=|\sstyle=|javascript:|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(`)
	for _, name := range names {
		path := own + name.Name()
		if name.Name() == "index.html" {
			path = "/"
		}
		require.True(t, Public(path), path)
		w := get(p, "GET", path, "")
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Equal(t, kinds[filepath.Ext(name.Name())], w.Header().Get("Content-Type"))
		require.Equal(t, policy, w.Header().Get("Content-Security-Policy"))
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, []string{"DENY", "no-cache"}, []string{w.Header().Get("X-Frame-Options"), w.Header().Get("Cache-Control")})
		for _, found := range address.FindAllStringSubmatch(w.Body.String(), -1) {
			to := found[1]
			require.True(t, strings.HasPrefix(to, own) || strings.HasPrefix(to, "./"), "%s refers to %q", path, found[0])
			require.Equal(t, http.StatusOK, get(p, "GET", own+filepath.Base(to), "").Code, to)
		}
		require.NotRegexp(t, inline, w.Body.String(), path)
	}
	require.JSONEq(t, `{"keys":true}`, get(p, "GET", own+"door.json", "").Body.String())
	require.Equal(t, http.StatusNotFound, get(p, "GET", own+"page.go", "").Code)
	require.Equal(t, http.StatusMethodNotAllowed, get(p, "POST", "/", "").Code)
	wrong := get(p, "PUT", "/page/page.js", "")
	require.Equal(t, "GET, HEAD", wrong.Header().Get("Allow"))
	require.Contains(t, wrong.Body.String(), `{"error":{"message":"the method PUT is not allowed for /page/page.js; send GET or HEAD"`)
	require.Contains(t, get(p, "GET", "/page/", "").Body.String(), `{"error":{"message":"/page/ is no part of the page"`)
	for _, path := range []string{own + "about", own + "wording", "/v1/models", "/metrics", "/pages.css"} {
		require.False(t, Public(path), path)
	}
}

// A browser asks again for a part that it knows by what is in it: by a time, it would keep the page of another server that had the
// address before.
func TestAPartIsKnownByItsContent(t *testing.T) {
	p := New(Options{})
	tag := get(p, "GET", own+"page.js", "").Header().Get("ETag")
	for _, c := range []struct {
		header, value string
		status        int
	}{
		{"If-None-Match", tag, http.StatusNotModified},
		{"If-None-Match", `"other"`, http.StatusOK},
		{"If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT", http.StatusOK},
	} {
		r, w := httptest.NewRequest("GET", own+"page.js", nil), httptest.NewRecorder()
		r.Header.Set(c.header, c.value)
		p.ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, c)
	}
}

// The report needs the ticket that comes with a key, while it is valid; a forged one is refused.
func TestTheReportWantsATicket(t *testing.T) {
	require.True(t, Public(report))
	file := filepath.Join(t.TempDir(), "report.html")
	p := New(Options{Keys: true, Report: file})
	link := func() string {
		found := regexp.MustCompile(`"report":"([^"]+)"`).FindStringSubmatch(get(p, "GET", own+"about", "").Body.String())
		require.NotEmpty(t, found)
		return found[1]
	}
	first := link()
	require.Equal(t, http.StatusNotFound, get(p, "GET", first, "").Code, "nothing is drawn yet")
	require.NoError(t, os.WriteFile(file, []byte("<p>a run"), 0o600))
	w := get(p, "GET", first, "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "<p>a run", w.Body.String())
	end, seal, _ := strings.Cut(strings.TrimPrefix(first, report+"?ticket="), ".")
	for _, ticket := range []string{"", end, end + ".", "9" + end + "." + seal, end + "." + strings.Repeat("0", len(seal)),
		"." + p.tickets.seal(""), "x." + p.tickets.seal("x")} {
		require.Equal(t, http.StatusUnauthorized, get(p, "GET", report+"?ticket="+ticket, "").Code, ticket)
	}
	r := httptest.NewRequest("GET", report, strings.NewReader("--a\r\nContent-Disposition: form-data; name=\"ticket\"\r\n\r\n"+end+"."+seal+
		"\r\n--a--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=a")
	w = httptest.NewRecorder()
	p.ServeHTTP(w, r)
	require.Equal(t, http.StatusUnauthorized, w.Code, "the body of a request without a key is not parsed")
	p.Authorized = func(context.Context) bool { return true }
	require.Equal(t, http.StatusOK, get(p, "GET", report, "").Code, "a key was shown")
	p.Authorized = nil
	p.tickets.now = func() time.Time { return time.Now().Add(lasting + time.Minute) }
	require.Equal(t, http.StatusUnauthorized, get(p, "GET", first, "").Code, "an old ticket is refused")
	require.Equal(t, http.StatusOK, get(p, "GET", link(), "").Code)
	require.Equal(t, http.StatusUnauthorized, get(New(p.Options), "GET", first, "").Code, "a ticket of another process is refused")

	open := New(Options{Report: file})
	require.Contains(t, get(open, "GET", own+"about", "").Body.String(), `"report":"/report"}`)
	require.Equal(t, http.StatusOK, get(open, "GET", report, "").Code)
	require.Equal(t, http.StatusNotFound, get(New(Options{}), "GET", report, "").Code)
}

// A problem is rendered with the run's prompt template.
func TestTheWordsOfTheRun(t *testing.T) {
	b, err := prompt.Parse("a test", `{{define "system"}}Be brief.{{end}}Solve: {{.Statement}}`)
	require.NoError(t, err)
	p := New(Options{PromptTemplate: b, Run: func() *Run { return &Run{Name: "x", Step: 3, Base: "tiny", Trained: "x"} }})
	require.Contains(t, get(p, "GET", own+"about", "").Body.String(), `"run":{"name":"x","step":3,"base":"tiny","trained":"x"`)
	w := get(p, "POST", own+"wording", `{"statement":"add <b>"}`)
	require.JSONEq(t, `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Solve: add <b>"}]}`, w.Body.String())
	require.Equal(t, http.StatusBadRequest, get(p, "POST", own+"wording", `[`).Code)
	require.Equal(t, http.StatusNotFound, get(New(Options{}), "POST", own+"wording", `{}`).Code)
}
