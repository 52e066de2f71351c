package tinker

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/learn"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
)

// renamed is a request in which the weights have another name.
func renamed(name string) wire.ForwardBackward {
	d := weightedDatum(tokens1, 3, 1)
	d.Inputs = maps.Clone(d.Inputs)
	d.Inputs[name] = d.Inputs["weights"]
	delete(d.Inputs, "weights")
	return crossEntropy(weightedDatum(tokens2, 2, 1), d)
}

// Unknown names of data and settings fail by the future, use up the sequence number, and change nothing.
func TestNamesThatNobodyReads(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	for name, want := range map[string]string{
		"weight":             `user: data 1: loss_fn_inputs: found "weight", which is not known here; did you mean weights?`,
		"zz":                 `found "zz", which is not known here; there are: target_tokens, weights, logprobs, advantages, mask`,
		"clip_low_threshold": "send it in loss_fn_config",
	} {
		f, err := m.ForwardBackward(t.Context(), renamed(name))
		require.NoError(t, err)
		_, err = f.Wait(t.Context())
		require.ErrorContains(t, err, want)
	}
	own := renamed("rewards") // of a client's own loss
	own.ForwardOnly = true
	awaitGradient(t, m, own)

	for want, q := range map[string]struct {
		call   string
		fields map[string]any
	}{
		`adam_params: found "learning_rat", which is not known here; did you mean learning_rate?`: {"optim_step",
			map[string]any{"adam_params": map[string]any{"learning_rat": 1}}},
		`adam_params: found "zz", which is not known here; there are: learning_rate, beta1`: {"optim_step",
			map[string]any{"adam_params": map[string]any{"zz": 1}}},
		`adam_params.type: found "dimuon", expected adamw`: {"optim_step",
			map[string]any{"adam_params": map[string]any{"type": "dimuon", "learning_rate": 1}}},
		`found "adam_param", which is not known here; did you mean adam_params?`: {"optim_step",
			map[string]any{"adam_param": map[string]any{"learning_rate": 1}}},
		`found "optimiser", which is not known here; did you mean optimizer?`: {"load_weights", map[string]any{"path": "x", "optimiser": true}},
		`found "overwrit", which is not known here; did you mean overwrite?`:  {"save_weights", map[string]any{"path": "x", "overwrit": true}},
	} {
		f, err := m.Do(t.Context(), q.call, q.fields)
		require.NoError(t, err)
		_, err = f.Wait(t.Context())
		require.ErrorContains(t, err, "user: "+want)
	}
	done := await[map[string]any](t)(m.Do(t.Context(), "optim_step", map[string]any{"type": "optim_step", "something_of_another_version": 1,
		"adam_params": map[string]any{"learning_rate": 0, "type": "adamw"}}))
	require.Equal(t, 0.0, done["metrics"].(map[string]any)["grad_norm"])
	f, err := m.ForwardBackward(t.Context(), wire.ForwardBackward{Loss: "cross_entropy", Config: map[string]float64{"zz": 1},
		Data: crossEntropy(weightedDatum(tokens1, 3, 1)).Data})
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, `loss_fn_config: cross_entropy has no setting "zz", and no other; leave it out`)
}

// Calls that are answered at once refuse them at once.
func TestNamesThatAreRefusedAtOnce(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	v, err := n.Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	prompt := func(chunk map[string]any) map[string]any { return map[string]any{"chunks": []any{chunk}} }
	text := map[string]any{"type": "encoded_text", "tokens": tokens1}
	sample := func(fields map[string]any) map[string]any {
		all := map[string]any{"sampling_session_id": v.ID, "seq_id": 77, "prompt": prompt(text), "sampling_params": nil, "type": "sample"}
		maps.Copy(all, fields)
		return all
	}
	model := func(fields map[string]any) map[string]any {
		all := map[string]any{"session_id": n.ID, "model_seq_id": 3, "base_model": "tiny", "type": "create_model"}
		maps.Copy(all, fields)
		return all
	}
	for want, q := range map[string]struct {
		call string
		in   any
	}{
		"lora_config: found \\\"rnk\\\", which is not known here; did you mean rank?": {"create_model",
			model(map[string]any{"lora_config": map[string]any{"rnk": 2}})},
		"lora_config: found \\\"alpha\\\", which is not known here; there are: rank, seed": {"create_model",
			model(map[string]any{"lora_config": map[string]any{"alpha": 2}})},
		"found \\\"lora_confg\\\", which is not known here; did you mean lora_config?": {"create_model", model(map[string]any{"lora_confg": 1})},
		"sampling_params: found \\\"max_token\\\", which is not known here; did you mean max_tokens?": {"asample",
			sample(map[string]any{"sampling_params": map[string]any{"max_token": 4}})},
		"prompt.chunks 0: found \\\"token\\\", which": {"asample",
			sample(map[string]any{"prompt": prompt(map[string]any{"type": "encoded_text", "token": tokens1})})},
		"found \\\"model_pth\\\", which is not known here; did you mean model_path?": {"create_sampling_session",
			map[string]any{"session_id": n.ID, "base_model": "tiny", "model_pth": "tinker://x/weights/y"}},
		"prompt.chunks.tokens: found a string, expected a whole number": {"asample",
			sample(map[string]any{"prompt": prompt(map[string]any{"type": "encoded_text", "tokens": []string{"a"}})})},
		"prompt.chunks 0.tokens: found null in it": {"asample",
			sample(map[string]any{"prompt": prompt(map[string]any{"type": "encoded_text", "tokens": []any{1, nil}})})},
		"model_path: found": {"create_sampling_session", map[string]any{"session_id": n.ID, "sampling_session_seq_id": 9, "model_path": "x"}},
	} {
		err := s.Call(t.Context(), "POST", q.call, q.in, nil)
		var refused *client.RejectedError
		require.ErrorAs(t, err, &refused, want)
		require.Equal(t, http.StatusBadRequest, refused.Code, want)
		require.Contains(t, refused.Text, want)
	}
	s.get(t, "POST", "asample", sample(map[string]any{"record_stability_info": true, "model_path": nil, "of_another_version": 1}))
	s.get(t, "POST", "create_model", model(map[string]any{"user_metadata": map[string]any{"anything": 1}, "lora_config": nil}))
	err = s.Call(t.Context(), "POST", "create_model", model(map[string]any{"lora_config": map[string]any{"rank": 3}}), nil)
	require.ErrorContains(t, err, "model_seq_id: that of "+n.ID+":train:3 was used for another create_model; send a higher one")
}

// Requests that a server accepted before names were checked are repeated as they were; refused ones stay refused after a restart.
func TestNamesInAJournal(t *testing.T) {
	first := serve(t, t.TempDir())
	n := first.connect(t)
	m, plain := train(t, n, 1), train(t, n, 1)
	q := renamed("weight")
	q.ModelID, q.SeqID = m.ID, 1
	run := first.server.runs[m.ID]
	_, err := run.accept(1, forwardBackward, sumOf(forwardBackward, q.Append(nil)), q.Append(nil))
	require.NoError(t, err)
	m.Seq = 1
	_, err = m.Wait(t.Context(), m.ID+"#1")
	require.NoError(t, err)
	f, err := m.ForwardBackward(t.Context(), renamed("weigths"))
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, "did you mean weights?")
	awaitGradient(t, plain, crossEntropy(weightedDatum(tokens2, 2, 1), wire.Datum{Tokens: q.Data[1].Tokens,
		Inputs: map[string]wire.Tensor{"target_tokens": q.Data[1].Inputs["target_tokens"]}}))

	folder := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(folder, os.DirFS(first.store)))
	again := *m
	again.Session = &client.Session{Client: serve(t, folder).Client, ID: n.ID}
	want := stepped(t, plain, 1e-2)["metrics"]
	require.Equal(t, want, stepped(t, m, 1e-2)["metrics"])
	require.Equal(t, want, stepped(t, &again, 1e-2)["metrics"])
}

// Names are compared only if there are few; a request with many is parsed as fast as ever.
func TestNamesOfAnotherForm(t *testing.T) {
	require.NoError(t, wire.CheckFields([]byte(`{"adam_params":3}`), new(wire.OptimStep)))
	require.NoError(t, wire.CheckFields([]byte(`{"prompt":{"chunks":[1,null]},"sampling_params":null}`), new(wire.Sample)))
	require.NoError(t, wire.CheckFields([]byte(`{"Adam_Params":{"BETA1":0.5}}`), new(wire.OptimStep)))
	many := map[string]any{"adam_param": 1}
	for i := range 100 {
		many[store.NewID()] = i
	}
	text, err := json.Marshal(many)
	require.NoError(t, err)
	require.NoError(t, wire.CheckFields(text, new(wire.OptimStep)))
	require.NoError(t, learn.CheckInputs(crossEntropy(weightedDatum(tokens1, 3, 1))))

	for sent, want := range map[string]string{
		`{"adam_params":{"beta1":0.5,"beta1":0.9}}`: "adam_params.beta1: comes twice", `{"model_id":"\ud800"}`: "model_id: found \\ud800",
	} {
		require.ErrorContains(t, wire.Read([]byte(sent), new(wire.OptimStep)), want)
	}
}
