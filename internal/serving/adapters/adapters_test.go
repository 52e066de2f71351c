package adapters

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
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/openai"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/sampler"
)

// served is a server of the embedded model with room for two adapters, which it may load from a directory.
type served struct {
	t      *testing.T
	url    string
	dir    string
	loaded atomic.Int64
}

func serve(t *testing.T, dir string) *served {
	b := backendtest.CPU(t, cpu.Options{Threads: 2})
	host, err := serving.Open(t.Context(), serving.Options{Backend: b, Models: []serving.NamedDir{{Name: "tiny", Dir: "tiny"}},
		Sampling: sampler.Options{MaxLength: 128, MaxSequences: 4, CacheBytes: 4 << 20, Adapters: 2}})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- host.Run(context.Background()) }()
	s := &served{t: t, dir: dir}
	mux := http.NewServeMux()
	mux.Handle("/", openai.New(openai.NewHost(host, serving.PromptOptions{}), openai.Options{}))
	New(host, Options{Dir: dir, OnChange: func(n int) { s.loaded.Store(int64(n)) }}).Register(mux)
	web := httptest.NewServer(mux)
	s.url = web.URL
	t.Cleanup(func() {
		web.Close()
		require.NoError(t, host.Close())
		require.NoError(t, <-ended)
		require.NoError(t, b.Close())
	})
	if dir != "" {
		base, err := host.Find("tiny")
		require.NoError(t, err)
		layout, err := lora.NewLayout(lora.Config{Rank: 4, Alpha: 64, Targets: lora.AllTargets()}, base.Language.Shape.LoRADims())
		require.NoError(t, err)
		for i, name := range []string{"one", "deep/two", "three"} {
			a := lora.New(layout)
			a.Init(uint64(i))
			for k := range a.Values {
				a.Values[k] += float32(k%(7+i)) / 50 // B, too, is not zero
			}
			require.NoError(t, a.Save(filepath.Join(dir, name), "tiny"))
		}
	}
	return s
}

// call returns the status and the text of a response.
func (s *served) call(method, path, body string) string {
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	res, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return fmt.Sprintf("%d %s", res.StatusCode, strings.TrimSpace(string(text)))
}

func (s *served) load(fields string) string { return s.call("POST", "/v1/load_lora_adapter", fields) }

// completion is a model's answer.
func (s *served) completion(model string, tokens int) string {
	answer := s.call("POST", "/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"def","seed":3,"max_tokens":%d,"ignore_eos":true,
		"logprobs":1}`, model, tokens))
	require.Equal(s.t, "200 ", answer[:4], answer)
	var v struct{ Choices json.RawMessage }
	require.NoError(s.t, json.Unmarshal([]byte(answer[4:]), &v))
	return string(v.Choices)
}

// Adapters are loaded, replaced and unloaded while others answer, which changes no byte of those answers.
func TestAdaptersOverHTTP(t *testing.T) {
	s := serve(t, t.TempDir())
	alone := s.completion("tiny", 60)
	answers := make(chan string, 1)
	go func() { answers <- s.completion("tiny", 60) }()

	require.Equal(t, "200 Success: LoRA adapter 'mine' added successfully.", s.load(`{"lora_name":"mine","lora_path":"one"}`))
	first := s.completion("mine", 8)
	require.NotEqual(t, first, s.completion("tiny", 8))
	require.Contains(t, s.call("GET", "/v1/models/mine", ""), `"parent":"tiny"`)
	require.Contains(t, s.load(`{"lora_name":"mine","lora_path":"deep/two"}`), `400 {"error":{"message":"lora_name: `+
		`\"mine\" is loaded already; unload it first, or send \"load_inplace\": true"`)
	require.Contains(t, s.load(`{"lora_name":"mine","lora_path":"deep/two","load_inplace":true,"base_model_name":"tiny"}`), "200 Success")
	require.Contains(t, s.load(`{"lora_name":"mine","lora_path":"one","load_inplace":true,"base_model_name":"other"}`),
		`400 {"error":{"message":"base_model_name: found \"other\", but the base model of \"mine\" is \"tiny\"`)
	second := s.completion("mine", 8)
	require.NotEqual(t, first, second)
	whole, err := json.Marshal(filepath.Join(s.dir, "one"))
	require.NoError(t, err)
	require.Contains(t, s.load(`{"lora_name":"first","lora_int_id":7,"load_inplace":true,"lora_path":`+string(whole)+`}`), "200 Success")
	require.Equal(t, first, s.completion("first", 8))
	full := s.load(`{"lora_name":"more","lora_path":"three"}`)
	require.Contains(t, full, "409 ")
	require.Contains(t, full, "besides the 2 of tiny; unload one, or start the server with --max-adapters 3")
	require.Contains(t, s.load(`{"lora_name":"mine","lora_path":"one","load_inplace":true}`), "200 Success",
		"replacing an adapter needs no further slot")
	require.Equal(t, first, s.completion("mine", 8))
	require.EqualValues(t, 2, s.loaded.Load())

	require.Equal(t, "200 Success: LoRA adapter 'mine' removed successfully.",
		s.call("POST", "/v1/unload_lora_adapter", `{"lora_name":"mine"}`))
	require.Contains(t, s.call("POST", "/v1/completions", `{"model":"mine","prompt":"a"}`), "404 ")
	require.Contains(t, s.load(`{"lora_name":"more","lora_path":"deep/two"}`), "200 Success")
	require.Equal(t, second, s.completion("more", 8))
	require.Equal(t, `200 {"deleted":true,"id":"more","object":"model"}`, s.call("DELETE", "/v1/models/more", ""))
	require.EqualValues(t, 1, s.loaded.Load())
	require.Equal(t, alone, <-answers)

	damaged := filepath.Join(s.dir, "three", "adapter_model.safetensors")
	require.NoError(t, os.WriteFile(damaged, []byte("not that"), 0o600))
	broken := s.load(`{"lora_name":"more","lora_path":"three"}`)
	require.Contains(t, broken, "400 ")
	require.NotContains(t, broken, s.dir, "where it lies is nobody's business")
	require.Contains(t, s.load(`{"lora_name":"more","lora_path":"deep/two"}`), "200 Success", "a failed load frees its slot")
}

// No path of a client leads outside of the directory, and what was not loaded over HTTP cannot be unloaded.
func TestWhatCannotBeLoaded(t *testing.T) {
	outside := t.TempDir()
	s := serve(t, t.TempDir())
	require.NoError(t, os.CopyFS(filepath.Join(outside, "other"), os.DirFS(filepath.Join(s.dir, "one"))))
	require.NoError(t, os.Symlink(filepath.Join(outside, "other"), filepath.Join(s.dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "half"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(outside, "other", "adapter_config.json"), filepath.Join(s.dir, "half", "adapter_config.json")))
	require.NoError(t, os.Symlink("one", filepath.Join(s.dir, "inside")))
	checkpoint := filepath.Join(s.dir, "run", "checkpoints", "step_000009", "adapter")
	require.NoError(t, os.CopyFS(checkpoint, os.DirFS(filepath.Join(s.dir, "one"))))
	long := strings.Repeat("z", 9000)
	for fields, want := range map[string]string{
		`{"lora_name":"a","lora_path":"../other"}`:                                       "403 ",
		`{"lora_name":"a","lora_path":"one/../../` + filepath.Base(outside) + `/other"}`: "403 ",
		`{"lora_name":"a","lora_path":"` + filepath.Join(outside, "other") + `"}`:        "403 ",
		`{"lora_name":"a","lora_path":"link"}`:                                           "403 ",
		`{"lora_name":"a","lora_path":"half"}`:                                           "403 ",
		`{"lora_name":"a","lora_path":"one\u0000"}`:                                      "403 ",
		`{"lora_name":"a","lora_path":"deep"}`:                                           "404 ",
		`{"lora_name":"a","lora_path":"run"}`:                                            `in \"run/checkpoints/step_000009/adapter\"`,
		`{"lora_name":"../a","lora_path":"one"}`:                                         "400 ",
		`{"lora_name":"a b","lora_path":"one"}`:                                          "400 ",
		`{"lora_name":"tiny","lora_path":"one"}`:                                         "400 ",
		`{"lora_name":"a"}`:                                                              "400 ",
		`{"lora_name":"a","lora_path":"one","base_model_name":"zz"}`:                     "404 ",
		`{"lora_name":"a","lora_path":"one","base_model_name":"` + long + `"}`:           long[:200] + `\" is not served`,
		`{"lora_name":"a","lora_path":"one","rank":4}`:                                   `"rank: is not known here; there are: lora_name,`,
		`{"lora_name":4,"lora_path":"one"}`:                                              `"lora_name: found a number, expected a string"`,
		`{"lora_name":"a","lora_path":"one"}{}`:                                          "400 ",
		`[]`:                                                                             "400 ",
		`{"lora_name":"loaded","lora_path":"inside"}`:                                    "200 ",
	} {
		require.Contains(t, s.load(fields), want, fields)
	}
	require.Contains(t, s.load(`{"lora_name":"tiny","lora_path":"one","load_inplace":true}`),
		`400 {"error":{"message":"lora_name: the name \"tiny\" is taken; send another lora_name"`)
	require.Contains(t, s.call("POST", "/v1/unload_lora_adapter", `{"lora_name":"tiny"}`), "403 ")
	require.Contains(t, s.call("POST", "/v1/unload_lora_adapter", `{}`), `400 {"error":{"message":"lora_name: missing`)
	require.Contains(t, s.call("DELETE", "/v1/models/zz", ""), "404 ")

	none := serve(t, "")
	require.Contains(t, none.load(`{"lora_name":"a","lora_path":"one"}`), "403 ")
	require.Contains(t, none.load(`{"lora_name":"a","lora_path":"one"}`), "start it with --adapters DIR")
}
