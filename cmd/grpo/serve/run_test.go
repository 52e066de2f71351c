package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/reward"
)

// vowels rewards the letter e, without a sandbox.
func vowels(_ context.Context, c reward.Completion) (reward.Score, error) {
	return reward.Score{Reward: float64(strings.Count(c.Text, "e")), Verdict: reward.WA}, nil
}

// train runs to the last step of the settings, and serves if they say so.
func train(t *testing.T, dir string, words ...string) {
	t.Helper()
	words = append([]string{"run_dir=" + dir, "prompts_per_step=2", "completions_per_prompt=4", "max_tokens=16", "eval_every=-1",
		"save_every=1", "learning_rate=0.01", "lora_rank=4", "max_sequences=8"}, words...)
	cfg, err := configs.Load(configs.Source{Preset: "tiny", Overrides: words})
	require.NoError(t, err)
	b, _, err := machine(nil)
	require.NoError(t, err)
	beside, err := Listen(cfg, false, io.Discard)
	require.NoError(t, err)
	defer beside.Close()
	tr, err := beside.Open(t.Context(), cfg, b, silentWatcher{}, grpo.WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	require.NoError(t, beside.During(t.Context(), func() error { return tr.Run(t.Context()) }))
	require.NoError(t, tr.Close())
	require.NoError(t, b.Close())
}

// silentWatcher is a watcher that prints nothing.
type silentWatcher struct{}

func (silentWatcher) Begun(string)                                      {}
func (silentWatcher) Phase(string, int)                                 {}
func (silentWatcher) Advance(int, int)                                  {}
func (silentWatcher) StepDone(grpo.Metrics, grpo.Timing, []grpo.Advice) {}
func (silentWatcher) Evaluated(grpo.Evaluation, []grpo.Advice)          {}
func (silentWatcher) Saved(string)                                      {}
func (silentWatcher) Warn(string)                                       {}

// fetched is the body of a response.
func fetched(t *testing.T, url string) string {
	res, err := http.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", text)
	return string(text)
}

// completionAnswer is what the page reads of an answer.
type completionAnswer struct {
	Prompt  []int32 `json:"prompt_token_ids"`
	Choices []struct {
		Tokens   []int32 `json:"token_ids"`
		LogProbs struct {
			Content []struct{ LogProb float32 } `json:"content"`
			Tokens  []*float32                  `json:"token_logprobs"`
		} `json:"logprobs"`
	}
}

func complete(t *testing.T, url, body string) (d completionAnswer) {
	text, err := post(t, url, body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	require.Len(t, d.Choices, 1)
	return d
}

const question = `{"model":%q,"seed":3,"max_tokens":12,"logprobs":true,"return_token_ids":true,
	"messages":[{"role":"user","content":"Define compute(x)."}]}`

// A run is served by its directory, and followed: later requests get the newer checkpoint. What the page computes, how far training moved
// a token, agrees with the log-probabilities of the draw, to the bit.
func TestServeARun(t *testing.T) {
	looks := checkpointPoll
	checkpointPoll = 10 * time.Millisecond
	t.Cleanup(func() { checkpointPoll = looks })
	dir := filepath.Join(t.TempDir(), "first")
	train(t, dir, "max_steps=1")
	url, said, _ := serve(t, "--run", dir, "--max-sequences", "2", "--max-context", "256")
	require.Contains(t, said.String(), "serving first, tiny on")
	require.Regexp(t, `(?m)^grpo: tiny: KV: [0-9.]+ MiB, 2 sequences of 256 tokens, 2 at once at full length$`, said.String())
	require.JSONEq(t, `{"run":{"name":"first","step":1,"base":"tiny","trained":"first","temperature":1,"follows":true,"goes_on":false},
		"wording":true,"report":"/report"}`, fetched(t, url+"/page/about"))
	require.Contains(t, fetched(t, url+"/report"), "grpo run")
	require.Contains(t, fetched(t, url+"/"), "/page/page.js")

	one := complete(t, url+"/v1/chat/completions", fmt.Sprintf(question, "first"))
	ids := one.Choices[0].Tokens
	require.NotEmpty(t, ids)
	whole, err := json.Marshal(append(one.Prompt, ids...))
	require.NoError(t, err)
	score := func(model string) []*float32 {
		d := complete(t, url+"/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":%s,"max_tokens":0,"echo":true,"logprobs":0}`, model, whole))
		return d.Choices[0].LogProbs.Tokens[len(one.Prompt):]
	}
	own, other := score("first"), score("tiny")
	moved := 0
	for i, at := range one.Choices[0].LogProbs.Content {
		require.Equal(t, at.LogProb, *own[i])
		if *own[i] != *other[i] {
			moved++
		}
	}
	require.Greater(t, moved, len(ids)/2)
	stream, err := post(t, url+"/v1/chat/completions", strings.Replace(fmt.Sprintf(question, "first"), "{", `{"stream":true,`, 1))
	require.NoError(t, err)
	var streamed []int32
	for line := range strings.SplitSeq(stream, "\n\n") {
		var d completionAnswer
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &d) == nil && len(d.Choices) > 0 {
			require.True(t, len(d.Prompt) == 0 || len(streamed) == 0)
			streamed = append(streamed, d.Choices[0].Tokens...)
		}
	}
	require.Equal(t, ids, streamed)

	train(t, dir, "max_steps=2")
	second := func() bool { return strings.Contains(fetched(t, url+"/page/about"), `"step":2`) }
	require.Eventually(t, second, 20*time.Second, 5*time.Millisecond)
	require.NotEqual(t, own, score("first"))
	require.Equal(t, other, score("tiny"))
	mistakesOfRun(t, dir)
}

func mistakesOfRun(t *testing.T, dir string) {
	for want, args := range map[string][]string{
		"--run: ":                          {"--run", filepath.Join(dir, "nothing")},
		"[model run] are set none":         {"--run", dir, "--model", "tiny"},
		"is taken":                         {"--run", "tiny=" + dir, "--listen", "127.0.0.1:0"},
		"--run: \"x=\": expected NAME=DIR": {"--run", "x="},
		"--run: found 2, expected one":     {"--run", dir, "--run", "other=" + dir},
	} {
		cmd := Command(machine)
		cmd.SetArgs(args)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), strings.Split(want, " are set")[0], args)
	}
}

// Requests during training change no byte of the run, and are answered by the policy of the last step.
func TestServingBesideTraining(t *testing.T) {
	alone, served := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "run")
	train(t, alone, "max_steps=2")

	cfg := configs.Defaults()
	cfg.Model, cfg.Serve = "tiny", "127.0.0.1:0"
	beside, err := Listen(&cfg, false, io.Discard) // an address that is free
	require.NoError(t, err)
	address := beside.listener.Addr().String()
	beside.Close()
	answers := 0
	asking, stop := context.WithCancel(t.Context())
	var client sync.WaitGroup
	client.Go(func() {
		for asking.Err() == nil {
			if _, err := post(t, "http://"+address+"/v1/chat/completions", fmt.Sprintf(question, "run")); err == nil {
				answers++
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	train(t, served, "max_steps=2", "serve="+address)
	stop()
	client.Wait()
	require.Positive(t, answers)
	for _, file := range []string{"metrics.jsonl", "rollouts.jsonl", "checkpoints/step_000002/adapter/adapter_model.safetensors",
		"checkpoints/step_000002/optimizer.safetensors"} {
		want, err := os.ReadFile(filepath.Join(alone, file))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(served, file))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), file)
	}
	manifest, err := os.ReadFile(filepath.Join(served, "manifest.json"))
	require.NoError(t, err)
	require.NotContains(t, string(manifest), address, "serving is not part of a run's settings")
}

// A full model keeps being served, and the log says that a newer one is there.
func TestAWholeModelIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "checkpoints", "step_000001")
	require.NoError(t, os.MkdirAll(at, 0o700))
	r := &servedRun{name: "run", dir: dir, every: time.Millisecond, saved: &grpo.Saved{Dir: at,
		Settings: &configs.Config{Train: "full", RunDir: dir}}}
	r.seen = r.list()
	require.False(t, r.follows())
	ctx, stop := context.WithCancel(t.Context())
	lines := make(chan string, 1)
	ended := r.follow(ctx, nil, slog.New(slog.NewTextHandler(lineChannel(lines), nil)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "checkpoints", "step_000002"), 0o700))
	require.Contains(t, <-lines, "start the server again to serve it")
	stop()
	<-ended
}

// A checkpoint that was saved while the model was loaded is served, also if it is the run's last.
func TestACheckpointThatCameMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "first")
	train(t, dir, "max_steps=1")
	f := &flags{runs: []string{dir}}
	require.NoError(t, f.openRun())
	f.recorded.every = time.Millisecond
	train(t, dir, "max_steps=2")
	var o serving.Options
	f.recorded.serve(&o)
	o.Adapters[0].Dir = filepath.Join(dir, "checkpoints", "step_000001", "adapter")
	var err error
	o.Backend, o.Model, err = machine(nil)
	require.NoError(t, err)
	host, err := serving.Open(t.Context(), o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := f.recorded.follow(ctx, host, slog.New(slog.DiscardHandler))
	about := f.recorded.page(false)
	require.Eventually(t, func() bool { return about.Run().Step == 2 }, 10*time.Second, time.Millisecond)
	stop()
	<-ended
	require.NoError(t, errors.Join(host.Close(), o.Backend.Close()))
}

// lineChannel is a writer that sends lines to a channel.
type lineChannel chan<- string

func (s lineChannel) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

func TestMistakesOfServe(t *testing.T) {
	taken, err := Listen(&configs.Config{Model: "tiny", Serve: "127.0.0.1:0"}, false, io.Discard)
	require.NoError(t, err)
	defer taken.Close()
	for want, cfg := range map[string]configs.Config{
		"serve: found \"8000\", expected an address":         {Serve: "8000"},
		"serve=0.0.0.0:0: other machines can reach it":       {Serve: "0.0.0.0:0"},
		"serve_keys: open /nowhere":                          {Serve: "127.0.0.1:0", ServeKeys: "/nowhere"},
		"type another address, such as serve=127.0.0.1:8001": {Serve: taken.listener.Addr().String()},
	} {
		cfg.Model = "tiny"
		_, err := Listen(&cfg, false, io.Discard)
		require.ErrorContains(t, err, want)
		require.True(t, badinput.Is(err), "%v", err)
	}
	for _, dry := range []bool{false, true} {
		cfg := configs.Config{Model: "tiny"}
		if dry {
			cfg.Serve = "127.0.0.1:0"
		}
		none, err := Listen(&cfg, dry, io.Discard)
		require.NoError(t, err)
		require.Nil(t, none)
		none.Close()
		require.NoError(t, none.During(t.Context(), func() error { return nil }))
	}
}
