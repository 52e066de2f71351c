package tinker

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// countSucceeding runs two functions concurrently, and counts those that succeeded.
func countSucceeding(a, b func() error) (well int) {
	var errs [2]error
	var done sync.WaitGroup
	done.Go(func() { errs[0] = a() })
	done.Go(func() { errs[1] = b() })
	done.Wait()
	for _, err := range errs {
		if err == nil {
			well++
		}
	}
	return well
}

// Of two concurrent requests for one sampling session, one succeeds, and the other is refused.
func TestTwoSamplingSessionsOfANumber(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	path, err := train(t, n, 1).SaveSampler(t.Context(), "a")
	require.NoError(t, err)
	for k := range 8 {
		open := func(key, value string) func() error {
			return func() error {
				return s.Call(t.Context(), "POST", "create_sampling_session",
					map[string]any{"session_id": n.ID, "sampling_session_seq_id": 100 + k, key: value}, nil)
			}
		}
		require.Equal(t, 1, countSucceeding(open("base_model", "tiny"), open("model_path", path)))
	}
}

// Publishing a checkpoint and setting its time to live concurrently do both.
func TestACheckpointIsChangedTwiceAtOnce(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	_, err := m.Save(t.Context(), "a")
	require.NoError(t, err)
	at := "training_runs/" + m.ID + "/checkpoints/weights/a/"
	for range 8 {
		s.get(t, "DELETE", at+"publish", nil)
		s.get(t, "PUT", at+"ttl", map[string]any{"ttl_seconds": nil})
		require.Equal(t, 2, countSucceeding(func() error { return s.Call(t.Context(), "POST", at+"publish", nil, nil) },
			func() error { return s.Call(t.Context(), "PUT", at+"ttl", map[string]any{"ttl_seconds": 9999}, nil) }))
		c, err := s.server.runs[m.ID].Find(store.Weights, "a")
		require.NoError(t, err)
		require.True(t, c.Public)
		require.NotNil(t, c.Expires)
	}
}

// A model whose creation failed halfway can only be created by the same call: another one with its number is refused.
func TestAModelThatWasHalfMade(t *testing.T) {
	s := serve(t, t.TempDir())
	s.Patience = 1
	n := s.connect(t)
	create := func(rank int) error {
		return s.Call(t.Context(), "POST", "create_model", map[string]any{"session_id": n.ID, "model_seq_id": 0, "base_model": "tiny",
			"lora_config": map[string]any{"rank": rank, "seed": 1}}, nil)
	}
	journal := filepath.Join(s.store, "runs", n.ID+"_train_0", "journal")
	require.NoError(t, os.MkdirAll(journal, 0o755)) // so that the journal cannot be created
	require.Error(t, create(8))
	require.NoError(t, os.Remove(journal))
	var refused *client.RejectedError
	require.ErrorAs(t, create(4), &refused)
	require.Contains(t, refused.Text, "was used for another create_model; send a higher one")
	require.NoError(t, create(8))
}

// A top-k larger than the vocabulary means all tokens.
func TestTopKBeyond32Bits(t *testing.T) {
	s := serve(t, t.TempDir())
	v, err := s.connect(t).Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	draw := func(k int64) []int32 {
		ask := drawExactly(1, 20, 5)
		ask.Params["top_k"] = k
		got, err := v.Sample(t.Context(), tokens1, ask)
		require.NoError(t, err)
		return got.Sequences[0].Tokens
	}
	require.Equal(t, draw(-1), draw(1<<32+1))
}

// saveAgain replaces a checkpoint by the content of another one.
func saveAgain(r *run, kind, name, as string) error {
	from, err := r.Find(kind, name)
	if err != nil {
		return err
	}
	return r.Save(store.Checkpoint{Kind: kind, Name: as, Seq: 99}, true, func(dir string) error {
		return os.CopyFS(dir, os.DirFS(from.Dir))
	})
}

// A checkpoint that is saved again while it is loaded gives its old content, and no mixture.
func TestALoadWhileItIsSavedAgain(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	m, other, same := train(t, n, 1), train(t, n, 2), train(t, n, 2)
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	for _, name := range []string{"one", "two"} {
		awaitGradient(t, m, q)
		stepped(t, m, 1e-2)
		_, err := m.Save(t.Context(), name)
		require.NoError(t, err)
	}
	require.NoError(t, same.Load(t.Context(), store.Path(m.ID, store.Weights, "one"), true))
	turn := s.server.bases["tiny"].Lock
	turn.Lock()
	loaded, saved := make(chan error, 1), make(chan error, 1)
	go func() { loaded <- other.Load(t.Context(), store.Path(m.ID, store.Weights, "one"), true) }()
	time.Sleep(200 * time.Millisecond) // it has read a part, and waits
	go func() { saved <- saveAgain(s.server.runs[m.ID], store.Weights, "two", "one") }()
	time.Sleep(50 * time.Millisecond)
	turn.Unlock()
	require.NoError(t, <-loaded)
	require.NoError(t, <-saved)
	after := func(m *client.Training) any {
		awaitGradient(t, m, q)
		stepped(t, m, 1e-2)
		return awaitGradient(t, m, q)
	}
	require.Equal(t, after(same), after(other))
}

// A sample that waits for a checkpoint fails if that is saved again meanwhile.
func TestASampleOfWhatIsSavedAgain(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	m := train(t, n, 1)
	var path string
	for _, name := range []string{"two", "one"} {
		var err error
		path, err = m.SaveSampler(t.Context(), name)
		require.NoError(t, err)
		awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
		stepped(t, m, 1e-2)
	}
	v, err := n.Sampling(t.Context(), "", path)
	require.NoError(t, err)
	known, err := s.server.samplingSession(v.ID)
	require.NoError(t, err)
	w, err := s.server.adapter(known)
	require.NoError(t, err)
	require.NoError(t, saveAgain(s.server.runs[m.ID], store.Sampler, "two", "one"))
	_, err = w.Load()
	require.ErrorContains(t, err, "was saved again since this sampling session was made")
}
