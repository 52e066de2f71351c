// Package fusiontest has a fake Sandbox Fusion server without isolation, which can be told to fail. It runs
// programs as the user who runs the tests.
package fusiontest

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
)

// Server listens on a port of this machine.
type Server struct {
	*httptest.Server
	python string

	// Requests counts the requests, and Most is the greatest number of them at once.
	Requests, Most atomic.Int64
	under          atomic.Int64

	mu     sync.Mutex
	faults []Fault // of the next requests, one each; nil is none
}

// Fault answers a request in place of the server.
type Fault func(w http.ResponseWriter)

// findPython asks the python3 on PATH, which can be a wrapper script, for its sys.executable.
var findPython = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-S", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

// NewServer starts a server whose first requests have these faults. It skips the test if there is no Python.
func NewServer(t testing.TB, faults ...Fault) *Server {
	t.Helper()
	python, err := findPython()
	if err != nil {
		t.Skip("there is no python3 to run programs with")
	}
	s := &Server{python: python, faults: faults}
	s.Server = httptest.NewServer(http.HandlerFunc(s.handle))
	t.Cleanup(s.Close)
	return s
}

// request is the body of a request.
type request struct {
	Code       string             `json:"code"`
	Language   string             `json:"language"`
	RunTimeout float64            `json:"run_timeout"`
	Stdin      *string            `json:"stdin"`
	Files      map[string]*string `json:"files"`
	FetchFiles []string           `json:"fetch_files"`
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	fault := s.begin()
	defer s.under.Add(-1)
	if fault != nil {
		fault(w)
		return
	}
	if r.URL.Path != "/run_code" || r.Method != http.MethodPost {
		http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
		return
	}
	var req request
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
	if err := req.unpack(dir); err != nil {
		SandboxError(err.Error())(w)
		return
	}
	result := s.execute(r.Context(), dir, filepath.Join(dir, mainFile), req.RunTimeout)
	status := "Success"
	if result["status"] != "Finished" || result["return_code"] != 0 {
		status = "Failed"
	}
	Answer(w, map[string]any{"status": status, "message": "", "compile_result": nil, "run_result": result,
		"executor_pod_name": nil, "files": req.fetch(dir)})
}

// begin counts a request and returns its fault, if it has one.
func (s *Server) begin() Fault {
	s.Requests.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Most.Store(max(s.Most.Load(), s.under.Add(1)))
	if len(s.faults) == 0 {
		return nil
	}
	f := s.faults[0]
	s.faults = s.faults[1:]
	return f
}

const mainFile = "main.py"

// unpack writes the files of a request and its program.
func (r *request) unpack(dir string) error {
	for name, content := range r.Files {
		if content == nil {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(*content)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, mainFile), []byte(r.Code), 0o644)
}

// fetch returns the requested files that exist.
func (r *request) fetch(dir string) map[string]string {
	files := map[string]string{}
	for _, name := range r.FetchFiles {
		if raw, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			files[name] = base64.StdEncoding.EncodeToString(raw)
		}
	}
	return files
}

// execute runs the code, which is the wrapper's and starts without looking for packages that it does not need; output that
// older servers cannot take is a time limit, as it is there.
func (s *Server) execute(ctx context.Context, dir, main string, timeout float64) map[string]any {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(timeout*float64(time.Second)))
	defer cancel()
	cmd := exec.CommandContext(ctx, s.python, "-S", main)
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

// Answer writes a JSON response.
func Answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}

// SandboxError is the answer to a request that the server could not run.
func SandboxError(message string) Fault {
	return func(w http.ResponseWriter) {
		Answer(w, map[string]any{"status": "SandboxError", "message": message, "files": map[string]string{}})
	}
}

// Status answers with an HTTP status code.
func Status(code int) Fault {
	return func(w http.ResponseWriter) { http.Error(w, `{"detail":"Internal Server Error"}`, code) }
}

// Broken closes the connection in the middle of an answer.
func Broken(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"status\":"))
		conn.Close()
	}
}

// NoJSON is the answer of some other server.
func NoJSON(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }

// TimedOut is the answer after the server has ended the wrapper.
func TimedOut(w http.ResponseWriter) {
	Answer(w, map[string]any{"status": "Failed", "run_result": map[string]any{"status": "TimeLimitExceeded"}, "files": map[string]string{}})
}

// Killed is the answer after something else has killed the wrapper.
func Killed(w http.ResponseWriter) {
	Answer(w, map[string]any{"status": "Failed", "run_result": map[string]any{"status": "Finished", "return_code": -9},
		"files": map[string]string{}})
}

// DiskFull is the answer after the wrapper could not write its frame.
func DiskFull(w http.ResponseWriter) {
	Answer(w, map[string]any{"status": "Failed", "files": map[string]string{},
		"run_result": map[string]any{"status": "Finished", "return_code": 1, "stderr": "OSError: [Errno 28] No space left on device"}})
}
