package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/openai"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// vowels is a grader that needs no sandbox: the reward is the share of vowels in a text.
func vowels(_ context.Context, c reward.Completion) (reward.Score, error) {
	n := 0
	for _, r := range c.Text {
		if strings.ContainsRune("aeiou", r) {
			n++
		}
	}
	return reward.Score{Reward: float64(n) / float64(1+len(c.Text)), Verdict: reward.WA}, nil
}

var vowelsGrader = []grpo.Option{grpo.WithGrader(reward.GraderFunc(vowels))}

// base is the configuration of a server.
func base(t testing.TB, words ...string) *configs.Config {
	cfg, err := configs.Load(configs.Source{Preset: "tiny", Overrides: append([]string{"prompts_per_step=2", "completions_per_prompt=4",
		"max_tokens=12", "max_sequences=16", "eval_every=-1", "test_data=", "max_rows=128"}, words...)})
	require.NoError(t, err)
	return cfg
}

// problems are four problems; whether they are solved does not matter.
func problems() (all []data.Problem) {
	for i := range 4 {
		text := fmt.Sprintf("Define compute(x), which returns x plus %d.", i)
		all = append(all, data.Problem{ID: fmt.Sprint("p", i), Source: "problems", Statement: text, Kind: data.Stdin}.
			WithTests(data.Test{Stdout: "1\n"}))
	}
	return all
}

// server is a session server over the embedded model; closing it keeps the host.
type server struct {
	t     *testing.T
	host  *serving.Host
	store string
	*Server
	web *httptest.Server
}

func newServer(t *testing.T) *server {
	b := backendtest.CPU(t, cpu.Options{Threads: 2})
	host, err := serving.Open(t.Context(), serving.Options{Backend: b, Models: []serving.NamedDir{{Name: "tiny", Dir: "tiny"}},
		Sampling: sampler.Options{MaxLength: 128, MaxSequences: 4, CacheBytes: 4 << 20}})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- host.Run(context.Background()) }()
	s := &server{t: t, host: host, store: t.TempDir()}
	s.start(Options{})
	t.Cleanup(func() {
		s.stop()
		require.NoError(t, host.Close())
		require.NoError(t, <-ended)
		require.NoError(t, b.Close())
	})
	return s
}

func (s *server) start(o Options) {
	o.Store, o.Config, o.Host, o.Trainer = s.store, base(s.t), s.host, vowelsGrader
	o.Models = []serving.NamedDir{{Name: "tiny", Dir: "tiny"}}
	var err error
	s.Server, err = New(o)
	require.NoError(s.t, err)
	mux := http.NewServeMux()
	mux.Handle("/", openai.New(openai.NewHost(s.host, serving.PromptOptions{}), openai.Options{}))
	s.Register(mux)
	s.web = httptest.NewServer(mux)
}

func (s *server) stop() {
	s.web.Close()
	require.NoError(s.t, s.Close())
}

// call returns the status and the body of a response.
func (s *server) call(method, path, body string) string {
	r, err := http.NewRequest(method, s.web.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	res, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return fmt.Sprintf("%d %s", res.StatusCode, strings.TrimSpace(string(text)))
}

// begin creates a session with an idempotency key.
func (s *server) begin(key, ask string) string {
	r := httptest.NewRequest("POST", "/v1/sessions", strings.NewReader(ask))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	s.answered(s.create)(w, r)
	return fmt.Sprint(w.Code, " ", w.Body)
}

// says is a model's answer.
func (s *server) says(model string) string {
	text := s.call("POST", "/v1/completions", `{"model":"`+model+`","prompt":"def","seed":3,"max_tokens":40,"logprobs":1}`)
	require.Equal(s.t, "200 ", text[:4], text)
	var v struct{ Choices json.RawMessage }
	require.NoError(s.t, json.Unmarshal([]byte(text[4:]), &v))
	return string(v.Choices)
}

// local makes the same steps with a trainer in this process.
func local(t *testing.T, words ...string) (adapter string, metrics []grpo.Metrics, groups []grpo.Group) {
	dir := t.TempDir()
	var rows strings.Builder
	for _, p := range problems() {
		tests, err := p.Tests(t.Context())
		require.NoError(t, err)
		row, err := json.Marshal(data.Record{Problem: p, Tests: tests})
		require.NoError(t, err)
		rows.Write(append(row, '\n'))
	}
	file := filepath.Join(dir, "problems.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(rows.String()), 0o600))
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	words = append(words, "data="+file, "data_split=all", "run_dir="+filepath.Join(dir, "run"), "order=serial") // the order of newServer
	tr, err := grpo.Open(t.Context(), base(t, words...), b, nil, vowelsGrader...)
	require.NoError(t, err)
	defer tr.Close()
	for _, subset := range [][]data.Problem{nil, problems()[1:3]} {
		m, err := tr.Step(t.Context(), subset, grpo.StepOptions{Iterations: len(subset)})
		require.NoError(t, err)
		metrics = append(metrics, m)
	}
	groups, err = tr.Sample(t.Context(), problems()[:1], 2, 0.5)
	require.NoError(t, err)
	saved, err := tr.Save(t.Context())
	require.NoError(t, err)
	return readWeights(t, filepath.Join(saved, "adapter")), metrics, groups
}

func readWeights(t *testing.T, dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "adapter_model.safetensors"))
	require.NoError(t, err)
	return string(text)
}

// same compares the metrics of two steps.
func same(t *testing.T, want, got grpo.Metrics) {
	t.Helper()
	a, err := json.Marshal(want)
	require.NoError(t, err)
	b, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, string(a), string(b))
}

// A run over the wire ends with the adapter of a local run, to the bit, while others are answered, and over a restart of the server.
func TestARunFromElsewhere(t *testing.T) {
	adapter, metrics, groups := local(t, "learning_rate=0.01")
	s := newServer(t)
	s.PollTimeout = time.Millisecond // so that polls are repeated
	alone := s.says("tiny")
	o := grpo.RemoteOptions{URL: s.web.URL, Settings: map[string]any{"learning_rate": 0.01}, Problems: problems()}
	r, err := grpo.OpenRemote(t.Context(), o)
	require.NoError(t, err)
	answers := make(chan string, 1)
	go func() { answers <- s.says("tiny") }()
	m, err := r.Step(t.Context(), nil, 0)
	require.NoError(t, err)
	same(t, metrics[0], m)
	require.Equal(t, alone, <-answers)

	s.stop()
	s.start(Options{})
	r, err = grpo.OpenRemote(t.Context(), grpo.RemoteOptions{URL: s.web.URL, ID: r.ID})
	require.NoError(t, err)
	require.Equal(t, 1, r.StepsDone())
	m, err = r.Step(t.Context(), problems()[1:3], 2)
	require.NoError(t, err)
	same(t, metrics[1], m)
	got, err := r.Sample(t.Context(), problems()[:1], 2, 0.5)
	require.NoError(t, err)
	require.Equal(t, groups[0].Tokens, got[0].Prompt)
	for i, c := range groups[0].Rollouts {
		require.Equal(t, c.Tokens, got[0].Completions[i].Tokens)
		require.Equal(t, c.LogProbs, got[0].Completions[i].LogProbs)
		require.Equal(t, c.Score.Reward, got[0].Completions[i].Score.Reward)
	}
	saved, err := r.Save(t.Context(), "mine")
	require.NoError(t, err)
	require.NotEqual(t, alone, s.says("mine"))
	dir := filepath.Join(t.TempDir(), "adapter")
	require.NoError(t, r.Download(t.Context(), saved, dir))
	require.True(t, adapter == readWeights(t, dir))

	taught := s.says("mine")
	_, err = r.Finish(t.Context())
	require.NoError(t, err)
	_, err = r.Step(t.Context(), nil, 0)
	require.ErrorContains(t, err, "the session is finished; begin another one")
	require.Equal(t, taught, s.says("mine"))
	require.NoError(t, r.Delete(t.Context()))
	require.Contains(t, s.call("GET", "/v1/models/mine", ""), "404 ")
	left, err := os.ReadDir(s.Store)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A step that was done but not answered before the server was killed is answered, and not done again. One with another body is refused.
func TestAStepCountsOnce(t *testing.T) {
	s := newServer(t)
	r, err := grpo.OpenRemote(t.Context(), grpo.RemoteOptions{URL: s.web.URL, Problems: problems()})
	require.NoError(t, err)
	at := "/v1/sessions/" + r.ID
	first := s.call("POST", at+"/train_step", `{"step":1}`)
	second := s.call("POST", at+"/train_step", `{"step":2,"ids":["p2","p0"]}`)
	require.Contains(t, first, `200 {"step":1,`)
	require.Contains(t, second, `200 {"step":2,`)
	require.Equal(t, first, s.call("POST", at+"/train_step", `{"step":1}`))
	s.stop()

	file := filepath.Join(s.Store, r.ID, recordFile)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var kept record
	require.NoError(t, json.Unmarshal(text, &kept))
	kept.Steps = kept.Steps[:1]
	text, err = json.Marshal(kept)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	s.start(Options{IdleTimeout: time.Millisecond}) // it leaves memory between two requests
	require.Contains(t, s.call("POST", at+"/train_step", `{"step":2,"ids":["p1"]}`),
		`409 {"error":{"message":"step 2 was requested with other content before; the next is 3"`)
	require.Equal(t, second, s.call("POST", at+"/train_step", `{"step":2,"ids":["p2","p0"]}`))
	require.Contains(t, s.call("GET", at, ""), `"steps":2`)
	for ask, want := range map[string]string{
		`{"step":2}`:                             `409 {"error":{"message":"step 2 was requested with other content before; the next is 3"`,
		`{"step":4}`:                             `409 {"error":{"message":"step: found 4, and the session has 2; expected 3"`,
		`{}`:                                     `400 {"error":{"message":"step: missing, expected 3, the number of the session's next step"`,
		`{"step":4.0}`:                           `409 {"error":{"message":"step: found 4, and the session has 2; expected 3"`,
		`{"step":1.5}`:                           `400 {"error":{"message":"step: found 1.5, expected a whole number"`,
		`{"step":"3"}`:                           `400 {"error":{"message":"step: found a string, expected a whole number"`,
		`{"step":0}`:                             `400 {"error":{"message":"step: found 0, expected 3, the next of the session"`,
		`{"step":3,"problems":[]}`:               `problems: found an empty list, expected problems, or the field left out`,
		`{"step":3,"ids":[]}`:                    `ids: found an empty list`,
		`{"step":3,"ids":["zz"]}`:                `400 {"error":{"message":"ids: 0: found \"zz\"`,
		`{"step":3,"iterations":-1}`:             "400 ",
		`{"step":3,"problems":[{"prompt":"a"}]}`: "400 ",
		`{"step":3,"problems":[{}],"ids":["p0"]}`: "400 ",
		`{"step":3,"subset":[]}`:                  "400 ",
		`{"step":3,"problems":[{"prompt":"` + strings.Repeat("a b ", 2000) + `","tests":[{"stdin":"","stdout":"1"}]}]}`: "400 ",
		`{"step":3,"problems":[{"prompt":"a","tests":[{"stdin":"","stdout":"1","time_limit_ms":3600000}]}]}`:            "400 ",
	} {
		require.Contains(t, s.call("POST", at+"/train_step", ask), want, ask)
	}
	require.Contains(t, s.call("GET", at, ""), `"steps":2`)
	require.Contains(t, s.call("POST", at+"/train_step", `{"step":3.0,"iterations":1.0}`), `200 {"step":3,`,
		"whole numbers may be written as 3.0")
	require.Contains(t, s.call("POST", at+"/sample", `{"ids":["p0"],"n":1.0}`), `200 {"step":3,`)
}

// Settings of the server are refused from clients.
func TestWhatAClientMayNotSay(t *testing.T) {
	s := newServer(t)
	for _, key := range []string{"reward_file", "sandbox", "python", "run_dir", "model", "adapter", "data", "init_from", "blocklist",
		"prompt_template", "sandbox_url", "threads", "device", "train", "reward_timeout", "chat_vars", "extends", "Seed"} {
		got := s.call("POST", "/v1/sessions", `{"settings":{"`+key+`":"/etc/passwd"}}`)
		require.Contains(t, got, `400 {"error":{"message":"settings: clients cannot set \"`+key+`\"`)
	}
	for ask, want := range map[string]string{
		`{"settings":{"lora_rank":0}}`:                    "lora_rank",
		`{"settings":{"seed":"1\nsandbox: unsafe"}}`:      "seed",
		`{"settings":{"lora_rank":{"a":1}}}`:              "expected a number, a text, a list",
		`{"settings":{"lora_targets":["q_proj","../x"]}}`: "lora_targets",
		`{"model":"../tiny"}`:                             `found \"../tiny\", expected one of tiny`,
		`{"settings":{"reward":"custom"}}`:                "reward_file",
		`{"settings":{"max_tokens":100000}}`:              "max_tokens",
		`{"problems":[{"prompt":"a"},{"prompt":"b"}]}`:    "problems: 1: ",
		`{"problems":[[{"prompt":"a"}]]}`:                 "problems: 1: found a list, expected an object",
		`{"problems":[]}`:                                 "problems: found an empty list",
		`{"settings":{"learning_rate":1e400}}`:            "learning_rate: found 1e400, which is out of range",
		`{"settings":{"learning_rate":-1}}`:               "send learning_rate=0.0015",
		`{"settings":{"num_iterations":65}}`:              "num_iterations: found 65, and a step has at most 64",
		`{"settings":{"refill":true,"max_refills":100}}`:  "max_refills: found 100, and a step has at most 64; send a max_refills of 64",
		`{"settings":{"completions_per_prompt":16385}}`:   "completions_per_prompt: found 16385, and a step has at most 16384 completions",
		`{"settings":{"clip_low":0.2}}`:                   "or send loss=ppo",
		`{"settings":{"prompts_per_step":129,"completions_per_prompt":128}}`: "prompts_per_step: found 129 with completions_per_prompt 128, " +
			"and a step has at most 16384 completions; send a prompts_per_step of 128 or less",
	} {
		got := s.call("POST", "/v1/sessions", ask)
		require.Contains(t, got, "400 ", ask)
		require.Contains(t, got, want, ask)
	}
	left, err := os.ReadDir(s.Store)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left of what was refused")
	require.Contains(t, s.call("POST", "/v1/sessions/../train_step", `{"step":1}`), "404 ")
	require.Contains(t, s.call("GET", "/v1/sessions/zz", ""), "404 ")

	s.MaxSessions = 1
	r, err := grpo.OpenRemote(t.Context(), grpo.RemoteOptions{URL: s.web.URL})
	require.NoError(t, err)
	require.Contains(t, s.call("POST", "/v1/sessions", `{}`), "429 ")
	at := "/v1/sessions/" + r.ID
	s.Owner = func(*http.Request) string { return "eve" }
	require.Equal(t, strings.ReplaceAll(s.call("GET", "/v1/sessions/zz", ""), "zz", r.ID), s.call("GET", at, ""), "as if it did not exist")
	require.Contains(t, s.call("DELETE", at, ""), "404 ")
	s.Owner = func(*http.Request) string { return "" }
	for _, path := range []string{"1", "x", "-1", "01", "%2e%2e"} {
		require.Contains(t, s.call("GET", at+"/saved/"+path, ""), "404 ")
	}
	require.Contains(t, s.call("POST", at+"/save", `{"serve_as":"../x"}`), `between its slashes; send another serve_as"`)
	require.Regexp(t, `^400 {"error":{"message":"serve_as: the name \\"tiny\\" is taken; send another serve_as"`+
		`.*"param":"serve_as"`, s.call("POST", at+"/save", `{"serve_as":"tiny"}`))
	for ask, want := range map[string]string{`"n":0`: "n: found 0, expected 1 to 128", `"n":1000`: "", `"temperature":1e-50`: "or 0.000001"} {
		require.Regexp(t, "^400 .*"+want, s.call("POST", at+"/sample", `{"ids":["x"],`+ask+`}`))
	}
	require.Contains(t, s.call("POST", at+"/sample", `{"n":2}`), "400 ")
	_, err = r.Finish(t.Context())
	require.NoError(t, err)
	require.Contains(t, s.call("POST", "/v1/sessions", `{}`), "200 ")
}
