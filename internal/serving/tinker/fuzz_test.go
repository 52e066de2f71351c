package tinker

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// calls are the calls of the protocol, one of which a fuzzer picks.
var calls = []string{"POST client/config", "POST client/dynamic_config", "POST auth/token", "POST create_session", "POST session_heartbeat",
	"POST telemetry", "GET healthz", "GET get_server_capabilities", "POST create_model", "POST get_info", "POST unload_model",
	"POST forward_backward", "POST optim_step", "POST save_weights", "POST load_weights", "POST save_weights_for_sampler",
	"POST create_sampling_session", "POST asample", "POST retrieve_future", "GET samplers/ID", "POST weights_info", "GET sessions",
	"GET sessions/ID", "GET training_runs", "GET training_runs/ID", "GET checkpoints", "GET training_runs/ID/checkpoints",
	"DELETE training_runs/ID/checkpoints/weights/ID", "PUT training_runs/ID/checkpoints/weights/ID/ttl",
	"POST training_runs/ID/checkpoints/ID/a/publish", "GET training_runs/ID/checkpoints/weights/ID/archive", "GET archives/ID"}

// Any body to any call is answered with a status that says whose fault it is, and files are written only in the store.
func FuzzCalls(f *testing.F) {
	all, err := bases()
	require.NoError(f, err)
	above := f.TempDir()
	s, err := New(Options{Store: filepath.Join(above, "store"), Bases: all, MaxBody: 1 << 16, PollTimeout: time.Millisecond,
		GapTimeout: time.Millisecond, MaxStoreBytes: 64 << 20})
	require.NoError(f, err)
	f.Cleanup(func() { s.Close() })
	send := func(call, id, body, packing string) *httptest.ResponseRecorder {
		method, path, _ := strings.Cut(call, " ")
		r := httptest.NewRequest(method, prefix, strings.NewReader(body))
		r.URL.Path = prefix + strings.ReplaceAll(path, "ID", id)
		r.Header.Set("Content-Encoding", packing)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	s.sessions["s"] = &session{ID: "s"}
	w := send("POST create_model", "", `{"session_id":"s","base_model":"tiny","lora_config":{"rank":2}}`, "")
	require.Equal(f, 200, w.Code, w.Body)
	w = send("POST create_sampling_session", "", `{"session_id":"s","base_model":"tiny"}`, "")
	require.Equal(f, 200, w.Code, w.Body)
	lessons := crossEntropy(weightedDatum(tokens1, 3, 1))
	lessons.ModelID, lessons.SeqID = "s:train:0", 1
	for i, body := range map[uint8]string{
		3: `{"tags":["a"],"user_metadata":{"a":[1]},"session_id":"s"}`, 8: `{"session_id":"s","model_seq_id":1,"base_model":"tiny"}`,
		11: string(lessons.Append(nil)), 12: `{"model_id":"s:train:0","seq_id":2,"adam_params":{"learning_rate":1}}`,
		13: `{"model_id":"s:train:0","seq_id":3,"path":"a","ttl_seconds":9}`,
		14: `{"model_id":"s:train:0","seq_id":4,"path":"tinker://s:train:0/weights/a"}`,
		15: `{"model_id":"s:train:0","seq_id":5}`, 16: `{"session_id":"s","model_path":"tinker://s:train:0/weights/a"}`,
		17: `{"sampling_session_id":"s:sample:0","prompt":{"chunks":[{"type":"encoded_text","tokens":[5]}]},"sampling_params":{"max_tokens":1}}`,
		18: `{"request_id":"s:train:0#1"}`, 20: `{"tinker_path":"tinker://s:train:0/weights/a"}`, 28: `{"ttl_seconds":1}`,
	} {
		f.Add(i, "s:train:0", body, "")
	}
	f.Add(uint8(24), "../../x", "\x28\xb5\x2f\xfd", "zstd")
	f.Fuzz(func(t *testing.T, call uint8, id, body, packing string) {
		w := send(calls[int(call)%len(calls)], id, body, packing)
		require.NotEqual(t, http.StatusInternalServerError, w.Code, w.Body)
		require.Less(t, w.Code, 500, w.Body)
		if w.Code >= 400 {
			require.Less(t, w.Body.Len(), 4000)
		}
		require.NoError(t, filepath.WalkDir(above, func(path string, d fs.DirEntry, err error) error {
			if path != above && filepath.Dir(path) == above {
				require.Equal(t, "store", d.Name())
				return fs.SkipDir
			}
			return nil
		}))
	})
}
