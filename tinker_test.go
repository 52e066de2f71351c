package grpo

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
	"github.com/seed-7879b91d/grpo/model"
)

// A Tinker client that sends the completions of a step, with the log-probabilities that they were drawn with and their advantages, gets
// the same adapter as the trainer, byte for byte.
func TestATinkerClientTrainsAsTheTrainer(t *testing.T) {
	for _, share := range []string{"share_prefixes=true", "share_prefixes=false"} {
		dir := t.TempDir()
		tr, _ := setup{dir: dir, words: []string{share, "order=serial", "reduction=sum", "lora_alpha=32", "max_rows=40", "max_steps=1",
			"save_every=1", "eval_every=-1", "weight_decay=0.1", "grad_clip_norm=0.5", "max_tokens=7"}}.open(t)
		err := tr.Run(t.Context())
		require.NoError(t, err)
		kept, err := rollouts.Read(dir, 1, 1)
		require.NoError(t, err)
		taught := datums(recordedGroups(kept.Groups[1]))
		require.NotEmpty(t, taught)

		adapter := filepath.Join("adapter", "adapter_model.safetensors")
		want, err := os.ReadFile(filepath.Join(checkpoint(dir, 1), adapter))
		require.NoError(t, err)
		require.True(t, string(want) == string(trainedByClient(t, tr, taught)), share)
	}
}

// trainedByClient makes one step over the wire, from the trainer's initial state, and returns the adapter file.
func trainedByClient(t *testing.T, tr *Trainer, taught []model.Datum) []byte {
	t.Helper()
	b := backend(t, 1)
	p, err := model.Open(b, goldenModel(t), false, tr.policy.Options)
	require.NoError(t, err)
	store := t.TempDir()
	s, err := tinker.New(tinker.Options{Store: store, Bases: []*tinker.Base{{Name: "golden", Policy: p, Backend: b, Lock: new(sync.Mutex)}}})
	require.NoError(t, err)
	web := httptest.NewServer(s)
	defer func() {
		web.Close()
		require.NoError(t, s.Close())
	}()
	n, err := (&client.Client{URL: web.URL}).Connect(t.Context())
	require.NoError(t, err)
	m, err := n.Train(t.Context(), "golden", tr.cfg.LoRARank, int64(tr.cfg.Seed))
	require.NoError(t, err)
	r := wire.ForwardBackward{Loss: "importance_sampling"}
	for _, d := range taught {
		r.Data = append(r.Data, wireDatum(d))
	}
	_, err = m.ForwardBackward(t.Context(), r)
	require.NoError(t, err)
	c := tr.cfg
	_, err = m.Do(t.Context(), "optim_step", map[string]any{"adam_params": map[string]any{"learning_rate": tr.learner.Rate(1),
		"beta1": c.AdamBeta1, "beta2": c.AdamBeta2, "eps": c.AdamEps, "weight_decay": c.WeightDecay, "grad_clip_norm": c.GradClipNorm}})
	require.NoError(t, err)
	_, err = m.Save(t.Context(), "after")
	require.NoError(t, err)
	paths, err := filepath.Glob(filepath.Join(store, "runs", "*", "weights", "after", "adapter_model.safetensors"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	text, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	return text
}

// wireDatum converts a datum to the wire format.
func wireDatum(d model.Datum) wire.Datum {
	return wire.Datum{Tokens: d.Tokens, Inputs: map[string]wire.Tensor{"target_tokens": wire.Ints1(d.Targets),
		"logprobs": wire.Floats1(d.OldLogProbs), "advantages": wire.Floats1(d.Advantages)}}
}
