package tinker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
)

// requireInfinite requires that a model refuses a step that would make its weights infinite.
func requireInfinite(t *testing.T, m *client.Training, rate float64) {
	t.Helper()
	f, err := m.OptimStep(t.Context(), rate)
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, fmt.Sprintf("user: learning_rate: found %v, which would make a number of base_model", rate))
	require.ErrorContains(t, err, ", so weights and moments are as they were before the step; lower it")
}

// A step that would make an adapter infinite is the user's error. The model stays unchanged, gradient included, so that the step can be
// repeated; also after a restart.
func TestAStepBeyondAllNumbers(t *testing.T) {
	store := t.TempDir()
	var m, other *client.Training
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	t.Run("before", func(t *testing.T) {
		s := serve(t, store)
		n := s.connect(t)
		m, other = train(t, n, 1), train(t, n, 1)
		for _, x := range []*client.Training{m, other} {
			awaitGradient(t, x, q)
			stepped(t, x, 1e-3)
			awaitGradient(t, x, q)
		}
		requireInfinite(t, m, 1e39)
		require.Equal(t, stepped(t, other, 1e-3)["metrics"], stepped(t, m, 1e-3)["metrics"])
		awaitGradient(t, m, q)
		awaitGradient(t, other, q)
		requireInfinite(t, m, 1e300)
	})
	t.Run("after", func(t *testing.T) {
		s := serve(t, store)
		m.Session.Client = s.Client
		require.Equal(t, stepped(t, other, 1e-3)["metrics"], stepped(t, m, 1e-3)["metrics"])
		require.Equal(t, awaitGradient(t, other, q).LogProbs, awaitGradient(t, m, q).LogProbs)
	})
}

// Finite weights so large that results are not are reported where they are used.
func TestWeightsThatAreFarOff(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	awaitGradient(t, m, q)
	good, err := m.Save(t.Context(), "good")
	require.NoError(t, err)
	stepped(t, m, 1e30)
	f, err := m.ForwardBackward(t.Context(), q)
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, "user: data 0: its log-probabilities are not finite")
	require.ErrorContains(t, err, "load_weights of an earlier checkpoint")
	v, err := m.Sampling(t.Context())
	require.NoError(t, err)
	_, err = v.Sample(t.Context(), tokens1, client.SampleParams{Params: map[string]any{"max_tokens": 4}})
	require.ErrorContains(t, err, "user: the training of "+v.ID+" has diverged")
	require.NoError(t, m.Load(t.Context(), good, true))
	awaitGradient(t, m, q)
}

// Errors about a checkpoint use the name that clients know.
func TestErrorsNameCheckpointsAndNoPaths(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
	stepped(t, m, 1e-3)
	for _, kind := range []string{"weights", "sampler_weights"} {
		save := m.Save
		if kind == "sampler_weights" {
			save = m.SaveSampler
		}
		path, err := save(t.Context(), "one")
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(s.store, "runs", "*", kind, "one", "adapter_model.safetensors"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		whole, err := os.ReadFile(files[0])
		require.NoError(t, err)
		damaged := append([]byte{}, whole...)
		for i := range 4 { // of the last number
			damaged[len(damaged)-1-i] = 0xff
		}
		for _, text := range [][]byte{damaged, whole[:len(whole)/2], nil} {
			require.NoError(t, os.WriteFile(files[0], text, 0o600))
			err = m.Load(t.Context(), path, false)
			require.ErrorContains(t, err, "user: "+path)
			require.NotContains(t, err.Error(), s.store)
			require.NotContains(t, err.Error(), "train_0", "a folder's name")
		}
		require.NoError(t, os.Remove(filepath.Join(filepath.Dir(files[0]), "adapter_config.json")))
		err = m.Load(t.Context(), path, false)
		require.ErrorContains(t, err, path)
		require.NotContains(t, err.Error(), s.store)
		about := filepath.Join(filepath.Dir(files[0]), "checkpoint.json")
		require.NoError(t, os.WriteFile(about, []byte("{"), 0o600))
		err = s.Call(t.Context(), "POST", "weights_info", map[string]string{"tinker_path": path}, nil)
		require.ErrorContains(t, err, path)
		require.False(t, strings.Contains(err.Error(), s.store), "%v", err)
	}
}

// Clip bounds that exclude every ratio are refused by name.
func TestBoundsThatCross(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	for _, loss := range []string{"ppo", "cispo"} {
		q := crossEntropy(weightedDatum(tokens1, 3, 1))
		q.Loss, q.Config = loss, map[string]float64{"clip_low_threshold": 1.3, "clip_high_threshold": 1.2}
		f, err := m.ForwardBackward(t.Context(), q)
		require.NoError(t, err)
		_, err = f.Wait(t.Context())
		require.ErrorContains(t, err, "user: loss_fn_config: found clip_low_threshold 1.3, which is above clip_high_threshold 1.2")
		require.ErrorContains(t, err, "send such as clip_low_threshold 0.8 and clip_high_threshold 1.2")
	}
}

// A wrong method is answered with 405 and the allowed one.
func TestOtherMethods(t *testing.T) {
	s := serve(t, t.TempDir())
	for call, methods := range map[string]string{"GET optim_step": "POST", "POST healthz": "GET, HEAD",
		"PATCH training_runs/x/checkpoints/weights/y/publish": "POST, DELETE"} {
		method, path, _ := strings.Cut(call, " ")
		answer := s.ask(t, method, path)
		require.Equal(t, 405, answer.StatusCode, call)
		require.Equal(t, methods, answer.Header.Get("Allow"))
	}
	require.Equal(t, 404, s.ask(t, "GET", "nothing").StatusCode)
}

// ask makes a call of which only the headers matter.
func (s *site) ask(t *testing.T, method, path string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+prefix+path, strings.NewReader("{}"))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer
}

// Integers may be written as 1.0.
func TestWholeNumbersInOtherWords(t *testing.T) {
	s := serve(t, t.TempDir())
	v, err := s.connect(t).Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	want, err := v.Sample(t.Context(), tokens1, client.SampleParams{
		Params: map[string]any{"max_tokens": 3, "seed": 5, "top_k": 7, "stop": []int{}}})
	require.NoError(t, err)
	got, err := v.Sample(t.Context(), tokens1, client.SampleParams{Params: map[string]any{
		"max_tokens": json.Number("3.0"), "seed": json.Number("5e0"),
		"top_k": json.Number("7.00"), "temperature": json.Number("1.0"), "stop": []int{}}})
	require.NoError(t, err)
	require.Equal(t, want.Sequences, got.Sequences)
	for _, wrong := range []string{"1.5", "1e300", "-1e-3"} {
		_, err = v.Sample(t.Context(), tokens1, client.SampleParams{Params: map[string]any{"max_tokens": json.Number(wrong)}})
		require.ErrorContains(t, err, "sampling_params.max_tokens: found "+wrong+", expected a whole number")
	}
}
