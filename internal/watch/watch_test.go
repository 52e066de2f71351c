package watch

import (
	"bufio"
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// newRun writes the files of a run of a number of steps.
func newRun(t *testing.T, dir string, steps int) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	write(t, dir, "config.json", `{"model":"tiny","data":"tiny","max_steps":9}`)
	write(t, dir, "manifest.json", `{"backend":"cpu","problems":10}`)
	for i := range steps {
		step(t, dir, i+1)
	}
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

func step(t *testing.T, dir string, n int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "metrics.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.WriteString(strings.ReplaceAll(`{"step":N,"mean_reward":0.N,"completions":8}`, "N", string(rune('0'+n))) + "\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestRunsAreFound(t *testing.T) {
	root := t.TempDir()
	newRun(t, filepath.Join(root, "one"), 1)
	newRun(t, filepath.Join(root, "sweep", "lr-1"), 1)
	newRun(t, filepath.Join(root, "one", "checkpoints", "inner"), 1) // a part of a run is no run
	newRun(t, filepath.Join(root, ".hidden"), 1)
	newRun(t, filepath.Join(root, "a", "b", "c", "d"), 1) // too deep
	require.NoError(t, os.Mkdir(filepath.Join(root, "empty"), 0o755))
	s, err := New(Options{Paths: []string{root, filepath.Join(root, "one")}})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "one~2", "sweep/lr-1"}, s.Runs())

	linked := filepath.Join(t.TempDir(), "runs")
	require.NoError(t, os.Symlink(root, linked))
	s, err = New(Options{Paths: []string{linked}})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "sweep/lr-1"}, s.Runs())

	far := filepath.Join(t.TempDir(), "far")
	newRun(t, far, 1)
	require.NoError(t, os.Symlink(far, filepath.Join(root, "sweep", "on-a-larger-disk")))
	require.NoError(t, os.Symlink("one", filepath.Join(root, "latest")))
	require.NoError(t, os.Symlink(root, filepath.Join(root, "itself")))
	for _, folder := range []string{root, linked} {
		s, err = New(Options{Paths: []string{folder}})
		require.NoError(t, err)
		require.Equal(t, []string{"one", "sweep/lr-1", "sweep/on-a-larger-disk"}, s.Runs(), "a link counts if its run is elsewhere")
	}

	_, err = New(Options{Paths: []string{filepath.Join(root, "none")}})
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "none: found no run; expected the directory of a run, or a folder with runs")
}

// While one folder is missing, runs in others appear and disappear, and its own return with it.
func TestAFolderThatGoesAwayTakesNoOtherWithIt(t *testing.T) {
	root := t.TempDir()
	newRun(t, filepath.Join(root, "a", "one"), 1)
	newRun(t, filepath.Join(root, "b", "two"), 1)
	s, err := New(Options{Paths: []string{filepath.Join(root, "a"), filepath.Join(root, "b")}})
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(root, "a"), filepath.Join(root, "c")))
	newRun(t, filepath.Join(root, "b", "three"), 1)
	require.Error(t, s.look(true))
	require.Equal(t, []string{"three", "two"}, s.Runs())
	require.NoError(t, os.Rename(filepath.Join(root, "c"), filepath.Join(root, "a")))
	require.NoError(t, s.look(true))
	require.Equal(t, []string{"one", "three", "two"}, s.Runs())
}

// An unreadable run says so in the list, and does not affect others.
func TestARunThatCannotBeReadTakesNoOtherWithIt(t *testing.T) {
	root := t.TempDir()
	newRun(t, filepath.Join(root, "one"), 2)
	closed := newRun(t, filepath.Join(root, "two"), 0)
	require.NoError(t, os.Mkdir(filepath.Join(closed, "metrics.jsonl"), 0o755)) // like an unreadable file
	s, err := New(Options{Paths: []string{root}})
	require.NoError(t, err)
	code, page := get(t, s, "/")
	require.Equal(t, http.StatusOK, code, page)
	require.Contains(t, page, "Not running · 2 of 9 steps")
	require.Contains(t, page, "<small>Cannot be read</small>")
	require.Contains(t, page, "metrics.jsonl: is a directory")
	require.NoError(t, os.Remove(filepath.Join(closed, "metrics.jsonl")))
	require.NoError(t, s.look(true))
	_, page = get(t, s, "/")
	require.NotContains(t, page, "Cannot be read")
}

// A run that replaces another one of its name, which was removed, is drawn again.
func TestAnotherRunOfTheSameName(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "x")
	newRun(t, dir, 3)
	s, err := New(Options{Paths: []string{root}})
	require.NoError(t, err)
	_, page := get(t, s, "/run/x")
	require.Contains(t, page, "3 of 9 steps")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, s.look(true))
	newRun(t, dir, 5)
	require.NoError(t, s.look(true))
	_, page = get(t, s, "/run/x")
	require.Contains(t, page, "5 of 9 steps")
}

func TestPages(t *testing.T) {
	root := t.TempDir()
	dir := newRun(t, filepath.Join(root, "a", "first run"), 3)
	s, err := New(Options{Paths: []string{root}})
	require.NoError(t, err)
	code, page := get(t, s, "/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, `<a href="/run/a/first%20run"><bdi>a/first run</bdi></a>`)
	require.Contains(t, page, "Not running · 3 of 9 steps")
	code, page = get(t, s, "/run/a/first%20run")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, `data-run="a/first run"`)
	require.Contains(t, page, "grpo run_dir="+html.EscapeString(display.ShellQuote(dir)))
	require.Contains(t, page, "new EventSource")
	require.NotContains(t, page, "data-every", "the page does not load itself again")
	for _, path := range []string{"/run/none", "/run/../../etc", "/run/", "/nothing"} {
		code, _ = get(t, s, path)
		require.NotEqual(t, http.StatusOK, code, path)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/nothing", nil)
	r.Header.Set("Accept", "text/html")
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "<h1>There is no page at /nothing</h1>")

	// A training process is not disturbed: looking takes no lock.
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	require.NoError(t, s.look(false))
	_, page = get(t, s, "/run/a/first%20run")
	require.Contains(t, page, "<b>Running</b>")
	require.NotContains(t, page, "grpo run_dir=")
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
	require.NoError(t, s.look(false))
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
}

// A browser gets the steps of its run, in numbers and then as a changed page, nothing of other runs, and the beginning of a run.
func TestEvents(t *testing.T) {
	root := t.TempDir()
	first, second := newRun(t, filepath.Join(root, "first"), 1), newRun(t, filepath.Join(root, "second"), 1)
	s, err := New(Options{Paths: []string{root}})
	require.NoError(t, err)
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	follow := func(of string) func() string {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events?of="+of, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		t.Cleanup(func() { answer.Body.Close() })
		lines := bufio.NewScanner(answer.Body)
		return func() string {
			for lines.Scan() {
				if lines.Text() != "" {
					return lines.Text()
				}
			}
			return "the end"
		}
	}
	one, all := follow("first"), follow("")
	require.Equal(t, ": here", one())
	require.Equal(t, ": here", all())
	require.Equal(t, "event: steps", one())
	require.Contains(t, one(), `data: [{"step":1,`)

	step(t, second, 2)
	require.NoError(t, s.look(false))
	require.Equal(t, "data: changed", all())
	step(t, first, 2)
	require.NoError(t, s.look(false))
	require.Equal(t, "event: steps", one())
	require.Contains(t, one(), `data: [{"step":2,`)
	require.Equal(t, "data: changed", one())
	require.Equal(t, "data: changed", all())
	_, page := get(t, s, "/run/first")
	require.Contains(t, page, "2 of 9")

	newRun(t, filepath.Join(root, "third"), 0)
	require.NoError(t, s.look(true))
	require.Equal(t, "data: changed", all())
	require.NoError(t, os.RemoveAll(second))
	require.NoError(t, s.look(true))
	require.Equal(t, "data: changed", all())
	require.Equal(t, []string{"first", "third"}, s.Runs())
}

// A page is drawn once for each change, however many look at it.
func TestPagesAreKept(t *testing.T) {
	root := t.TempDir()
	dir := newRun(t, filepath.Join(root, "run"), 1)
	asked := 0
	write(t, dir, "rollouts.jsonl", `{"step":1,"group":0,"problem":"p","text":"x","score":{"reward":1}}`+"\n")
	s, err := New(Options{Paths: []string{dir}, Statement: func(in, problem string) string {
		asked++
		return "what " + problem + " asks in " + filepath.Base(in)
	}})
	require.NoError(t, err)
	for range 3 {
		_, page := get(t, s, "/run/run")
		require.Contains(t, page, "what p asks in run")
	}
	require.Equal(t, 1, asked)
	step(t, dir, 2)
	require.NoError(t, s.look(false))
	get(t, s, "/run/run")
	require.Equal(t, 2, asked)
}

func TestWhoMayLook(t *testing.T) {
	dir := newRun(t, filepath.Join(t.TempDir(), "run"), 1)
	s, err := New(Options{Paths: []string{dir}, Authorize: Ticket("secret"), Hosts: []string{"localhost"}})
	require.NoError(t, err)
	ask := func(address string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, address, nil)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	require.Equal(t, http.StatusMisdirectedRequest, ask("http://evil.example/?ticket=secret").Code)
	require.Equal(t, http.StatusForbidden, ask("http://localhost/").Code)
	require.Equal(t, http.StatusForbidden, ask("http://localhost/?ticket=guess").Code)
	require.Equal(t, http.StatusForbidden, ask("http://localhost/events?of=run").Code)
	let := ask("http://localhost:7770/run/run?ticket=secret")
	require.Equal(t, http.StatusSeeOther, let.Code)
	require.Equal(t, "/run/run", let.Header().Get("Location"), "the ticket does not stay in the address")
	for asked, leads := range map[string]string{
		"http://localhost/samples/50%25%20run%232?ticket=secret":        "/samples/50%25%20run%232",
		"http://localhost/samples/run?view=groups&ticket=secret&step=3": "/samples/run?step=3&view=groups",
		"http://localhost//evil.example/?ticket=secret":                 "/evil.example/",
	} {
		require.Equal(t, leads, ask(asked).Header().Get("Location"))
	}
	in := let.Result().Cookies()
	require.True(t, in[0].HttpOnly)
	require.Equal(t, http.StatusOK, ask("http://localhost/run/run", in...).Code)
}

// If the first of two runs with one name is removed, the second gets its name, and is shown under it.
func TestANameGoesToTheRunThatIsLeft(t *testing.T) {
	root := t.TempDir()
	first, second := newRun(t, filepath.Join(root, "x", "run"), 1), newRun(t, filepath.Join(root, "y", "run"), 3)
	s, err := New(Options{Paths: []string{first, second}})
	require.NoError(t, err)
	require.Equal(t, []string{"run", "run~2"}, s.Runs())
	_, page := get(t, s, "/run/run")
	require.Contains(t, page, "1 of 9 steps")
	_, told := s.newest("run", "before", 0)
	require.NoError(t, os.RemoveAll(first))
	require.Error(t, s.look(true), "a removed folder is an error")
	require.Equal(t, []string{"run"}, s.Runs())
	dir, _, ok := s.Where("run")
	require.True(t, ok)
	require.Equal(t, second, dir)
	_, page = get(t, s, "/run/run")
	require.Contains(t, page, "3 of 9 steps")
	event, _ := s.newest("run", "after", told)
	require.NotEmpty(t, event, "a browser is told of its steps, however many the first had")
}
