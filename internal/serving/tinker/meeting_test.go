package tinker

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// both does two things at once, and counts those that went well.
func both(a, b func() error) (well int) {
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

// Of two sampling sessions of one number that are made at once one is, and the other is refused.
func TestTwoSamplingSessionsOfANumber(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	path, err := train(t, n, 1).SaveSampler(t.Context(), "a")
	require.NoError(t, err)
	for k := range 8 {
		voice := func(key, value string) func() error {
			return func() error {
				return s.Call(t.Context(), "POST", "create_sampling_session",
					map[string]any{"session_id": n.ID, "sampling_session_seq_id": 100 + k, key: value}, nil)
			}
		}
		require.Equal(t, 1, both(voice("base_model", "tiny"), voice("model_path", path)))
	}
}

// A checkpoint that is published while another gives it a time to live has both.
func TestACheckpointIsChangedTwiceAtOnce(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	_, err := m.Save(t.Context(), "a")
	require.NoError(t, err)
	at := "training_runs/" + m.ID + "/checkpoints/weights/a/"
	for range 8 {
		s.get(t, "DELETE", at+"publish", nil)
		s.get(t, "PUT", at+"ttl", map[string]any{})
		require.Equal(t, 2, both(func() error { return s.Call(t.Context(), "POST", at+"publish", nil, nil) },
			func() error { return s.Call(t.Context(), "PUT", at+"ttl", map[string]any{"ttl_seconds": 9999}, nil) }))
		c, err := s.server.runs[m.ID].Find(store.Weights, "a")
		require.NoError(t, err)
		require.True(t, c.Public)
		require.NotNil(t, c.Expires)
	}
}

// A model whose making failed halfway is made by the same call alone: another one of its number is refused.
func TestAModelThatWasHalfMade(t *testing.T) {
	s := serve(t, t.TempDir())
	s.Patience = 1
	n := s.connect(t)
	create := func(rank int) error {
		return s.Call(t.Context(), "POST", "create_model", map[string]any{"session_id": n.ID, "model_seq_id": 0, "base_model": "tiny",
			"lora_config": map[string]any{"rank": rank, "seed": 1}}, nil)
	}
	journal := filepath.Join(s.store, "runs", n.ID+"_train_0", "journal")
	require.NoError(t, os.MkdirAll(journal, 0o755)) // in its place nothing can be written
	require.Error(t, create(8))
	require.NoError(t, os.Remove(journal))
	var refused *client.Refused
	require.ErrorAs(t, create(4), &refused)
	require.Contains(t, refused.Text, "was used for another create_model; send a higher one")
	require.NoError(t, create(8))
}

// As many likely tokens as no model has are all of them.
func TestTopKBeyond32Bits(t *testing.T) {
	s := serve(t, t.TempDir())
	v, err := s.connect(t).Voice(t.Context(), "tiny", "")
	require.NoError(t, err)
	draw := func(k int64) []int32 {
		ask := free(1, 20, 5)
		ask.Params["top_k"] = k
		got, err := v.Sample(t.Context(), text1, ask)
		require.NoError(t, err)
		return got.Sequences[0].Tokens
	}
	require.Equal(t, draw(-1), draw(1<<32+1))
}
