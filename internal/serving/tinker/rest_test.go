package tinker

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
)

// get makes a call that must succeed.
func (s *site) get(t *testing.T, method, path string, in any) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, s.Call(t.Context(), method, path, in, &out))
	return out
}

// refused makes a call that must be refused with a status.
func (s *site) refused(t *testing.T, code int, method, path string, in any) error {
	t.Helper()
	err := s.Call(t.Context(), method, path, in, nil)
	var refused *client.RejectedError
	require.ErrorAs(t, err, &refused, "%s %s", method, path)
	require.Equal(t, code, refused.Code, "%s %s: %v", method, path, err)
	require.Contains(t, refused.Text, `"error":`)
	return err
}

func TestRunsAndCheckpointsAreListed(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	m := train(t, n, 1)
	path, err := m.Save(t.Context(), "one")
	require.NoError(t, err)
	_, err = m.SaveSampler(t.Context(), "two")
	require.NoError(t, err)

	run := "training_runs/" + m.ID
	about := s.get(t, "GET", run, nil)
	require.Equal(t, m.ID, about["training_run_id"])
	require.Equal(t, "weights/one", about["last_checkpoint"].(map[string]any)["checkpoint_id"])
	require.Equal(t, "sampler", about["last_sampler_checkpoint"].(map[string]any)["checkpoint_type"])
	list := s.get(t, "GET", "training_runs?limit=5", nil)
	require.Len(t, list["training_runs"], 1)
	require.Equal(t, map[string]any{"limit": 5.0, "offset": 0.0, "total_count": 1.0}, list["cursor"])
	require.Len(t, s.get(t, "GET", run+"/checkpoints", nil)["checkpoints"], 2)
	require.Len(t, s.get(t, "GET", "checkpoints?offset=1", nil)["checkpoints"], 1)
	require.Equal(t, []any{m.ID}, s.get(t, "GET", "sessions/"+n.ID, nil)["training_run_ids"])
	require.Equal(t, []any{n.ID}, s.get(t, "GET", "sessions", nil)["sessions"])
	info := s.get(t, "POST", "weights_info", map[string]string{"tinker_path": path})
	require.Equal(t, map[string]any{"base_model": "tiny", "is_lora": true, "lora_rank": 4.0, "train_unembed": false, "train_mlp": true,
		"train_attn": true}, info)
	require.EqualValues(t, 4, s.get(t, "POST", "get_info", map[string]string{"model_id": m.ID})["lora_rank"])

	one := run + "/checkpoints/weights/one"
	require.NotNil(t, s.get(t, "PUT", one+"/ttl", map[string]any{"ttl_seconds": 3600})["expires_at"])
	require.Nil(t, s.get(t, "PUT", one+"/ttl", map[string]any{"ttl_seconds": nil})["expires_at"])
	until := s.get(t, "PUT", one+"/ttl", map[string]any{"ttl_seconds": 3600.0})["expires_at"]
	for want, q := range map[string]any{"ttl_seconds: found none, expected seconds": map[string]any{}, "ttl_seconds: found none": nil,
		"did you mean ttl_seconds?": map[string]any{"ttl_second": 5}, "ttl_seconds: found a string": map[string]any{"ttl_seconds": "5"}} {
		require.ErrorContains(t, s.refused(t, http.StatusBadRequest, "PUT", one+"/ttl", q), want)
	}
	require.Equal(t, until, s.get(t, "GET", run, nil)["last_checkpoint"].(map[string]any)["expires_at"], "a mistake changes nothing")
	s.get(t, "POST", one+"/publish", nil)
	require.Equal(t, true, s.get(t, "GET", run, nil)["last_checkpoint"].(map[string]any)["public"])
	s.get(t, "DELETE", one, nil)
	s.refused(t, http.StatusNotFound, "DELETE", one, nil)
	require.ErrorContains(t, m.Load(t.Context(), path, true), "user: there is no checkpoint")
	for _, bad := range []string{"training_runs/none", run + "/checkpoints/weights/none/archive", run + "/checkpoints/moments/3/archive",
		run + "/checkpoints/..%2f..%2fx/archive/archive", "sessions/none", "samplers/none", "nothing"} {
		s.refused(t, http.StatusNotFound, "GET", bad, nil)
	}
	s.refused(t, http.StatusBadRequest, "GET", "training_runs?limit=-1", nil)
	s.refused(t, http.StatusBadRequest, "PUT", run+"/checkpoints/sampler_weights/two/ttl", map[string]any{"ttl_seconds": -5})
}

// An archive can be downloaded without a key by its signed address, and not by a changed one.
func TestAnArchive(t *testing.T) {
	store := t.TempDir()
	s := serve(t, store)
	m := train(t, s.connect(t), 1)
	_, err := m.SaveSampler(t.Context(), "one")
	require.NoError(t, err)
	s.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	of := s.URL + "/api/v1/training_runs/" + m.ID + "/checkpoints/sampler_weights/one/archive"
	r, err := http.NewRequestWithContext(t.Context(), "GET", of, nil)
	require.NoError(t, err)
	answer, err := s.HTTP.Do(r)
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, http.StatusFound, answer.StatusCode)
	r.Header.Set("X-Forwarded-Proto", "https")
	behind, err := s.HTTP.Do(r)
	require.NoError(t, err)
	behind.Body.Close()
	require.True(t, strings.HasPrefix(behind.Header.Get("Location"), strings.Replace(s.URL, "http", "https", 1)))
	_, err = time.Parse(http.TimeFormat, answer.Header.Get("Expires"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(answer.Header.Get("Location"), s.URL+"/api/v1/archives/"), "a client hands it to whoever fetches it")
	at, err := answer.Location()
	require.NoError(t, err)
	require.True(t, Public(strings.TrimPrefix(at.Path, "/somewhere")))
	require.True(t, strings.HasPrefix(at.Path, "/somewhere/api/v1/"))

	for _, changed := range []bool{false, true} {
		if changed {
			at.Path = at.Path[:len(at.Path)-2]
		}
		fetched, err := http.Get(at.String())
		require.NoError(t, err)
		text, err := io.ReadAll(fetched.Body)
		require.NoError(t, err)
		fetched.Body.Close()
		if changed {
			require.Equal(t, http.StatusNotFound, fetched.StatusCode)
			continue
		}
		require.EqualValues(t, len(text), fetched.ContentLength, "so that a client can show how far it is")
		found := map[string][]byte{}
		for files := tar.NewReader(bytes.NewReader(text)); ; {
			head, err := files.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			found[head.Name], err = io.ReadAll(files)
			require.NoError(t, err)
		}
		require.Equal(t, []byte{}, found["checkpoint_complete"], "without it the SDK does not publish what it fetched")
		require.Regexp(t, `(?s)"base_model_name_or_path": "tiny".*"lora_alpha": 32`, string(found["adapter_config.json"]))
		paths, err := filepath.Glob(filepath.Join(store, "runs", "*", "sampler_weights", "one", "adapter_model.safetensors"))
		require.NoError(t, err)
		want, err := os.ReadFile(paths[0])
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, found["adapter_model.safetensors"]))
	}
}

// The calls of a client when it connects, and those that it repeats.
func TestConnecting(t *testing.T) {
	s := serve(t, t.TempDir())
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/api/v1/client/config", strings.NewReader(`{"sdk_version":"0.25.0"}`))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	answer.Body.Close()
	require.True(t, answer.Close)
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	n := s.connect(t)
	require.Empty(t, s.get(t, "POST", "session_heartbeat", map[string]string{"session_id": n.ID}))
	s.refused(t, http.StatusNotFound, "POST", "session_heartbeat", map[string]string{"session_id": "none"})
	require.Equal(t, "accepted", s.get(t, "POST", "telemetry", map[string]any{"session_id": "sessionless-1", "events": []int{}})["status"])
	models := s.get(t, "GET", "get_server_capabilities", nil)["supported_models"]
	require.Equal(t, []any{map[string]any{"model_name": "tiny", "max_context_length": 256.0}}, models)
	for _, config := range []map[string]any{{"rank": 0}, {"rank": 1 << 40}, {"rank": 4, "train_mlp": false, "train_attn": false}} {
		q := map[string]any{"session_id": n.ID, "base_model": "tiny", "lora_config": config}
		s.refused(t, http.StatusBadRequest, "POST", "create_model", q)
	}
	s.refused(t, http.StatusBadRequest, "POST", "create_model", map[string]any{"session_id": n.ID, "base_model": "large"})
	s.refused(t, http.StatusNotFound, "POST", "create_model", map[string]any{"session_id": "../../etc", "base_model": "tiny"})
	s.refused(t, http.StatusNotFound, "POST", "retrieve_future", map[string]string{"request_id": n.ID + ":train:0#1"})
	s.refused(t, http.StatusBadRequest, "POST", "forward_backward", []byte{0x0a, 200})
	s.refused(t, http.StatusRequestEntityTooLarge, "POST", "forward_backward", make([]byte, s.server.MaxBody+1))
}

// A compressed body that exceeds the limit is not decompressed to its end.
func TestAPackedBody(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	post := func(body []byte) *http.Response {
		var packed bytes.Buffer
		enc, err := zstd.NewWriter(&packed, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		require.NoError(t, err)
		_, err = enc.Write(body)
		require.NoError(t, err)
		require.NoError(t, enc.Close())
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/api/v1/forward_backward", &packed)
		require.NoError(t, err)
		r.Header.Set("Content-Encoding", "zstd")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		answer.Body.Close()
		return answer
	}
	r := crossEntropy(weightedDatum(tokens1, 3, 1))
	r.ModelID, r.SeqID = m.ID, 1
	require.Equal(t, http.StatusOK, post(r.Append(nil)).StatusCode)
	require.Equal(t, http.StatusRequestEntityTooLarge, post(make([]byte, s.server.MaxBody+1)).StatusCode)
	_, err := s.Wait(t.Context(), m.ID+"#1")
	require.NoError(t, err)
}

// A store is used by one server at a time, and the next one knows all that it has.
func TestAStoreIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	var path, id string
	t.Run("first", func(t *testing.T) {
		s := serve(t, dir)
		n := s.connect(t)
		id = n.ID
		var err error
		path, err = train(t, n, 1).Save(t.Context(), "one")
		require.NoError(t, err)
		_, err = New(Options{Store: dir})
		require.ErrorContains(t, err, "another server uses it")
	})
	s := serve(t, dir)
	s.get(t, "POST", "session_heartbeat", map[string]string{"session_id": id})
	v := &client.Session{Client: s.Client, ID: id}
	named, err := v.Sampling(t.Context(), "", path)
	require.NoError(t, err)
	_, err = named.Sample(t.Context(), tokens1, drawExactly(1, 2, 1))
	require.NoError(t, err)
}
