package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// fakeSandbox is a sandbox server that does not run programs: it answers at once, by a hash of the program, sometimes with what the
// embedded problems expect. Tests of interruptions need runs, but no Python.
type fakeSandbox struct {
	*httptest.Server
	asked atomic.Pointer[func()] // called at a request, before the answer; nil: nothing
}

func newFakeSandbox(t *testing.T) *fakeSandbox {
	o := &fakeSandbox{}
	o.Server = httptest.NewServer(http.HandlerFunc(o.answer))
	t.Cleanup(o.Close)
	return o
}

// whenAsked sets the function that is called at every request.
func (o *fakeSandbox) whenAsked(f func()) { o.asked.Store(&f) }

// expectedOutputs are the expected outputs of the embedded problems, by input.
var expectedOutputs = sync.OnceValue(func() map[string][]string {
	train, heldOut, _ := tiny.Problems()
	by := map[string][]string{}
	for _, p := range append(train, heldOut...) {
		tests, _ := p.Tests(context.Background())
		for _, t := range tests {
			by[t.Stdin] = append(by[t.Stdin], t.Stdout)
		}
	}
	return by
})

// guess is a correct output of some problem with this input, in two of three cases.
func guess(program, input []byte) string {
	h := sha256.Sum256(append(program, input...))
	if known := expectedOutputs()[string(input)]; len(known) > 0 && h[0]%3 > 0 {
		return known[int(h[1])%len(known)]
	}
	return "NO\n"
}

func (o *fakeSandbox) answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Files      map[string][]byte `json:"files"`
		FetchFiles []string          `json:"fetch_files"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.FetchFiles) != 1 {
		http.Error(w, "not understood", http.StatusBadRequest)
		return
	}
	stdout := "42\n" // the answer to the probe program
	if program := req.Files["request"]; !bytes.Contains(program, []byte("6 * 7")) {
		if asked := o.asked.Load(); asked != nil {
			(*asked)()
		}
		stdout = guess(program, req.Files["input"])
	}
	name := req.FetchFiles[0]
	frame := fmt.Appendf(nil, "%s\n{\"sizes\":[%d,0,0]}\n%s", strings.TrimPrefix(name, "frame-"), len(stdout), stdout)
	json.NewEncoder(w).Encode(map[string]any{"status": "Success", "files": map[string][]byte{name: frame},
		"run_result": map[string]any{"status": "Finished", "return_code": 0}})
}

// words are the arguments of a run of four steps, judged by this server.
func (o *fakeSandbox) words(others ...string) []string {
	words := withSettings(small, "max_steps=4", "max_tokens=40", "eval_problems=2", "eval_every=2", "save_every=2", "keep_last=0",
		"sandbox=fusion", "sandbox_slots=4", "sandbox_url="+o.URL, "deterministic=false")
	return withSettings(words, others...)
}

// finish runs to the end in this process, in a new or a given folder.
func (o *fakeSandbox) finish(t *testing.T, folder string, others ...string) (files map[string]string, says string) {
	t.Helper()
	_, says, code := shell(t, "", o.words(append(others, "run_dir="+filepath.Join(folder, "run"))...)...)
	require.Zero(t, code, says)
	return runFiles(t, folder), says
}

// requireSameEnd compares the steps and the results of two runs, whichever checkpoints they saved on the way.
func requireSameEnd(t *testing.T, want, got map[string]string) {
	t.Helper()
	last := ""
	for name := range want {
		if strings.HasSuffix(name, "/state.json") {
			last = max(last, filepath.Dir(name))
		}
	}
	end := func(files map[string]string) map[string]string {
		kept := map[string]string{}
		for name, text := range files {
			if name == "metrics.jsonl" || name == "rollouts.jsonl" || strings.HasPrefix(name, last+"/") {
				kept[name] = text
			}
		}
		return kept
	}
	require.Contains(t, end(want), last+"/adapter/adapter_model.safetensors")
	requireSameRun(t, end(want), end(got))
}
