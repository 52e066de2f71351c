package fusion

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server answers as a Sandbox Fusion server without isolation does, and fails as it is told to.
type server struct {
	*httptest.Server
	python string

	requests, under, most atomic.Int64

	mu     sync.Mutex
	faults []fault // for the requests to come, one each; nil is none
}

type fault func(w http.ResponseWriter)

// newServer starts one, or skips the test where there is no Python.
func newServer(t *testing.T, faults ...fault) *server {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("there is no python3 to run programs with")
	}
	s := &server{python: strings.TrimSpace(string(out)), faults: faults}
	s.Server = httptest.NewServer(http.HandlerFunc(s.handle))
	t.Cleanup(s.Close)
	return s
}

func (s *server) client(t *testing.T, concurrency int) *Client {
	t.Helper()
	c, err := New(Options{URL: s.URL, Concurrency: concurrency, Backoff: time.Millisecond})
	require.NoError(t, err)
	return c
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	s.most.Store(max(s.most.Load(), s.under.Add(1)))
	defer s.under.Add(-1)
	s.mu.Lock()
	var f fault
	if len(s.faults) > 0 {
		f, s.faults = s.faults[0], s.faults[1:]
	}
	s.mu.Unlock()
	if f != nil {
		f(w)
		return
	}
	if r.URL.Path != "/run_code" || r.Method != http.MethodPost {
		http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
		return
	}
	var req struct {
		Code       string             `json:"code"`
		Language   string             `json:"language"`
		RunTimeout float64            `json:"run_timeout"`
		Stdin      *string            `json:"stdin"`
		Files      map[string]*string `json:"files"`
		FetchFiles []string           `json:"fetch_files"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Code == "" || req.Language != "python" {
		http.Error(w, `{"detail":[{"type":"missing"}]}`, http.StatusUnprocessableEntity)
		return
	}
	dir, err := os.MkdirTemp("", "fusion")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer os.RemoveAll(dir)
	for name, content := range req.Files {
		if content != nil {
			raw, err := base64.StdEncoding.DecodeString(*content)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), raw, 0o644)
			}
			if err != nil {
				sandboxError(err.Error())(w)
				return
			}
		}
	}
	main := filepath.Join(dir, "main.py")
	if err := os.WriteFile(main, []byte(req.Code), 0o644); err != nil {
		sandboxError(err.Error())(w)
		return
	}
	result := s.execute(r.Context(), dir, main, req.RunTimeout)
	files := map[string]string{}
	for _, name := range req.FetchFiles {
		if raw, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			files[name] = base64.StdEncoding.EncodeToString(raw)
		}
	}
	status := "Success"
	if result["status"] != "Finished" || result["return_code"] != 0 {
		status = "Failed"
	}
	answer(w, map[string]any{"status": status, "message": "", "compile_result": nil, "run_result": result, "executor_pod_name": nil, "files": files})
}

// execute runs the code; output that older servers cannot take is a time limit, as it is there.
func (s *server) execute(ctx context.Context, dir, main string, timeout float64) map[string]any {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(timeout*float64(time.Second)))
	defer cancel()
	cmd := exec.CommandContext(ctx, s.python, main)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	start := time.Now()
	_ = cmd.Run() // how it ended is in ProcessState
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	result := map[string]any{"execution_time": time.Since(start).Seconds(), "stdout": stdout.String(), "stderr": stderr.String()}
	if ctx.Err() != nil || stdout.Len()+stderr.Len() > 120_000 {
		result["status"], result["return_code"] = "TimeLimitExceeded", nil
		return result
	}
	code := cmd.ProcessState.ExitCode()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		code = -int(ws.Signal())
	}
	result["status"], result["return_code"] = "Finished", code
	return result
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that left is no failure
}

func sandboxError(message string) fault {
	return func(w http.ResponseWriter) {
		answer(w, map[string]any{"status": "SandboxError", "message": message, "files": map[string]string{}})
	}
}

func status(code int) fault {
	return func(w http.ResponseWriter) { http.Error(w, `{"detail":"Internal Server Error"}`, code) }
}

// broken ends the connection in the middle of an answer.
func broken(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"status\":"))
		conn.Close()
	}
}

func noJSON(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }

// timedOut is a server that ended the wrapper.
func timedOut(w http.ResponseWriter) {
	answer(w, map[string]any{"status": "Failed", "run_result": map[string]any{"status": "TimeLimitExceeded"}, "files": map[string]string{}})
}

// killed is a wrapper that somebody else killed.
func killed(w http.ResponseWriter) {
	answer(w, map[string]any{"status": "Failed", "run_result": map[string]any{"status": "Finished", "return_code": -9}, "files": map[string]string{}})
}

// diskFull is a wrapper that could not write its frame.
func diskFull(w http.ResponseWriter) {
	answer(w, map[string]any{"status": "Failed", "files": map[string]string{},
		"run_result": map[string]any{"status": "Finished", "return_code": 1, "stderr": "OSError: [Errno 28] No space left on device"}})
}
