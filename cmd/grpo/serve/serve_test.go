package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// machine is a processor with two threads.
func machine(*configs.Config) (kernels.Backend, model.Options, error) {
	b, err := cpu.New(cpu.Options{Threads: 2})
	return b, model.Options{}, err
}

// syncBuffer is the output of a verb, readable while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *syncBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *syncBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

var address = regexp.MustCompile(`(?m)^grpo: serving .* on (http\S+)/v1$`)

// serve runs the verb until the test stops it, and requires an orderly end.
func serve(t *testing.T, args ...string) (url string, said *syncBuffer, stop func()) {
	t.Helper()
	said = &syncBuffer{}
	cmd := Command(machine)
	cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0", "--max-sequences", "8"}, args...))
	cmd.SetErr(said)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-ended)
		})
	}
	t.Cleanup(stop)
	require.Eventually(t, func() bool { return address.MatchString(said.String()) }, time.Minute, 5*time.Millisecond, "%s", said)
	return address.FindStringSubmatch(said.String())[1], said, stop
}

func post(t *testing.T, url, body string) (string, error) {
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return string(text), err
}

// The embedded model is served: the same request with the same seed has the same answer, alone and among others, whole and streamed;
// answers follow a schema; prompts are not in the log.
func TestServe(t *testing.T) {
	url, said, stop := serve(t, "--sessions", "tiny", "--store", t.TempDir(), "--adapters", t.TempDir())
	ask := func(i int, more string) string {
		return fmt.Sprintf(`{"model":"tiny","seed":%d,"max_completion_tokens":24,"logprobs":true,"top_logprobs":2%s,
			"messages":[{"role":"user","content":"xyzzy: define compute(x), which returns x plus %d."}]}`, i, more, i)
	}
	choices := func(text string) string {
		var v struct{ Choices json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		return string(v.Choices)
	}
	const n = 6
	var alone [n]string
	for i := range n {
		text, err := post(t, url+"/v1/chat/completions", ask(i, ""))
		require.NoError(t, err)
		alone[i] = choices(text)
		require.Greater(t, len(alone[i]), 100)
	}
	require.NotEqual(t, alone[0], alone[1])
	var all sync.WaitGroup
	var together [n]string
	var errs [n]error
	for i := range n {
		all.Go(func() { together[i], errs[i] = post(t, url+"/v1/chat/completions", ask(i, "")) })
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
			defer cancel() // some clients leave early
			r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(ask(99, `,"stream":true,"n":3`)))
			if err == nil {
				if res, err := http.DefaultClient.Do(r); err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}
		})
	}
	all.Wait()
	for i := range n {
		require.NoError(t, errs[i])
		require.Equal(t, alone[i], choices(together[i]))
	}

	text, err := post(t, url+"/v1/chat/completions", `{"model":"tiny","seed":1,"max_tokens":400,"messages":[{"role":"user","content":"a"}],
		"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","required":["age"],
		"properties":{"age":{"type":"integer","minimum":0,"maximum":99}},"additionalProperties":false}}}}`)
	require.NoError(t, err)
	require.Regexp(t, `"content":"\{(\\n|\s)*\\"age\\":(\\n|\s)*[0-9]{1,2}(\\n|\s)*\}"`, text)
	_, err = post(t, url+"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"xyzzy"}]}`)
	require.ErrorContains(t, err, "400")
	_, err = post(t, url+"/v1/sessions", `{"settings":{"python":"/bin/sh"}}`)
	require.ErrorContains(t, err, "clients cannot set")
	_, err = post(t, url+"/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"b"}`)
	require.ErrorContains(t, err, `there is no adapter_config.json in \"b\"`)
	_, err = post(t, url+"/v1/responses", `{}`)
	require.ErrorContains(t, err, "POST /v1/load_lora_adapter, POST /v1/unload_lora_adapter, DELETE /v1/models/NAME, POST /v1/sessions")
	stop()
	require.NotContains(t, said.String(), "xyzzy")
	require.Contains(t, said.String(), `"path":"/v1/chat/completions","status":200`)
}

// Mistakes on the command line are reported before anything is loaded.
func TestServeMistakes(t *testing.T) {
	dir := t.TempDir()
	empty, store := filepath.Join(dir, "empty"), filepath.Join(dir, "store")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for want, args := range map[string][]string{
		"type --keys FILE":                    {"--listen", "0.0.0.0:0"},
		"--listen: found \"8000\"":            {"--listen", "8000"},
		"empty: no keys":                      {"--keys", empty},
		"grpo serve --new-key NAME":           {"--keys", filepath.Join(dir, "none")},
		"--tls-cert " + empty:                 {"--tls-cert", empty, "--tls-key", empty},
		"--queue: found 0":                    {"--queue", "0"},
		"--new-key: the name of a key":        {"--new-key", "a b"},
		"the name of a key: found \"\"":       {"--new-key", ""},
		"--keys: found an empty name":         {"--keys", ""},
		"--store: found an empty name":        {"--sessions", "tiny", "--store", ""},
		"--max-context: found 1,":             {"--max-context", "1"},
		"expected NAME=DIR":                   {"--model", "a="},
		"--listen: listen tcp":                {"--listen", "127.0.0.1:99999"},
		"expected one such as https://":       {"--origin", "example.com", "--listen", "127.0.0.1:0"},
		"--max-context: found -5, expected 0": {"--max-context", "-5"},
		"--max-sequences: found -1":           {"--max-sequences", "-1"},
		"--max-waiting: found -1":             {"--max-waiting", "-1"},
		"--cache-bytes: found -1":             {"--cache-bytes", "-1"},
		"--max-adapters: found 0":             {"--max-adapters", "0"},
		"--sessions needs a":                  {"--sessions", "tiny"},
		"--sessions: \"tinny\" is neither a preset nor a file; type the path of a file, or one of": {"--sessions", "tinny", "--store", store},
		"--sessions " + empty:                  {"--sessions", empty, "--store", store},
		"--max-sessions: found 0":              {"--max-sessions", "0"},
		"--adapters: stat /nowhere: no such":   {"--adapters", "/nowhere"},
		"empty is a file; type a directory":    {"--adapters", empty},
		"--drain: found -1s":                   {"--drain", "-1s"},
		"--keep-sessions: found -1h0m0s":       {"--keep-sessions", "-1h"},
		"type --new-key NAME --admin":          {"--admin"},
		"type --max-context 2048, or fewer":    {"--max-context", "2049", "--listen", "127.0.0.1:0"},
		"--host: found \"https://a\"":          {"--host", "a", "--host", "https://a"},
		"--host: found \"a:80\"":               {"--host", "a:80"},
		"--host: found \"a b\"":                {"--host", "a b"},
		"--chat-date: found \"today\"":         {"--chat-date", "today"},
		"--adapter x@zz=/a: there is no model": {"--adapter", "x@zz=/a"},
		"--adapter x/@tiny=/a: the name":       {"--adapter", "x/@tiny=/a"},
		"--model: the name":                    {"--model", "a/../b=tiny"},
		"no such directory, and not the name":  {"--model", "/nowhere", "--listen", "127.0.0.1:0"},
	} {
		cmd := Command(machine)
		cmd.SetArgs(args)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err := cmd.ExecuteContext(t.Context())
		require.ErrorContains(t, err, want)
		require.True(t, badinput.Is(err), "%v", err)
		require.NotContains(t, err.Error(), "\n")
	}
}

// The key is printed for a person, its hash for the file.
func TestNewKey(t *testing.T) {
	for want, args := range map[string][]string{`^[0-9a-f]{64} ada\n$`: {"--new-key", "ada"},
		`^[0-9a-f]{64} ada admin\n$`: {"--new-key", "ada", "--admin"}} {
		var out, aside bytes.Buffer
		cmd := Command(machine)
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(&aside)
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		require.Regexp(t, want, out.String())
		require.Regexp(t, `shown this once: sk-[A-Z2-7]{26}\n$`, aside.String())
		file := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
		_, err := gate.ReadKeys(file)
		require.NoError(t, err)
	}
}

// With keys, only marked ones may load and unload adapters.
func TestWhoMayLoad(t *testing.T) {
	keys, lines := map[string]string{}, ""
	for _, name := range []string{"ada", "bob"} {
		key, line, err := gate.NewKey(name)
		require.NoError(t, err)
		keys[name], lines = key, lines+line+map[string]string{"ada": " admin\n", "bob": "\n"}[name]
	}
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	url, _, _ := serve(t, "--keys", file, "--adapters", t.TempDir())
	for _, c := range []struct{ name, method, path, want string }{
		{"ada", "POST", "/v1/load_lora_adapter", `404 .*there is no adapter_config.json`},
		{"bob", "POST", "/v1/load_lora_adapter", `403 .*the key bob may neither load nor unload adapters; write admin behind its name`},
		{"bob", "POST", "/v1/unload_lora_adapter", "403 .*the key bob"},
		{"bob", "DELETE", "/v1/models/a", "403 .*the key bob"},
		{"ada", "DELETE", "/v1/models/a", "404 "},
		{"bob", "GET", "/v1/models", "200 "},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, strings.NewReader(`{"lora_name":"a","lora_path":"b"}`))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+keys[c.name])
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		require.NoError(t, err)
		require.Regexp(t, c.want, fmt.Sprintf("%d %s", res.StatusCode, text), c)
	}
}

// A client's mistake is not logged as an error of the server, and is quoted only if prompts are logged.
func TestWhatIsLogged(t *testing.T) {
	for want, c := range map[string]struct {
		err     error
		prompts bool
	}{
		`"level":"INFO","msg":"refused","id":"a","status":408`:         {refusal.Errorf(http.StatusRequestTimeout, "slow"), false},
		`"level":"INFO","msg":"refused","id":"a","why":"slow"`:         {refusal.Errorf(http.StatusRequestTimeout, "slow"), true},
		`"level":"ERROR","msg":"not answered","id":"a","why":"broken"`: {errors.New("broken"), false},
		`"level":"ERROR","msg":"not answered","id":"a","why":"worn"`:   {refusal.Errorf(http.StatusInternalServerError, "worn"), false},
	} {
		var log bytes.Buffer
		f := flags{logPrompts: c.prompts}
		f.refused(slog.New(slog.NewJSONHandler(&log, nil)).With("id", "a"), c.err)
		require.Contains(t, log.String(), want)
	}
}

func metrics(t *testing.T, url string) string {
	res, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}

// leaves requests a long whole answer, and leaves once the server works on it; then a stream, and leaves after its first text.
func leaves(t *testing.T, url string) {
	const long = `{"model":"tiny","prompt":"a","max_tokens":1500,"ignore_eos":true`
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ask := func(body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/completions", strings.NewReader(body))
		require.NoError(t, err)
		return http.DefaultClient.Do(r)
	}
	gone := make(chan error, 1)
	go func() {
		_, err := ask(long + "}")
		gone <- err
	}()
	require.Eventually(t, func() bool { // a request of metrics is one, too
		return strings.Contains(metrics(t, url), "grpo_http_active_requests 2\n")
	}, time.Minute, time.Millisecond)
	leave()
	require.ErrorIs(t, <-gone, context.Canceled)

	ctx, leave = context.WithCancel(t.Context())
	defer leave()
	res, err := ask(long + `,"stream":true}`)
	require.NoError(t, err)
	defer res.Body.Close()
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		if regexp.MustCompile(`"text":"[^"]`).Match(in.Bytes()) {
			return
		}
	}
	require.Fail(t, "the stream has no text")
}

// A client that leaves is not an error of the server; host names are case-insensitive; without TLS, a warning says that keys can be read
// on the way.
func TestTheOpenDoor(t *testing.T) {
	url, said, _ := serve(t, "--host", "GPU.example")
	require.NotContains(t, said.String(), "warning")
	r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/models", nil)
	require.NoError(t, err)
	r.Host = "gpu.Example"
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	leaves(t, url)
	require.Eventually(t, func() bool { return strings.Count(said.String(), "the client left") == 2 }, time.Minute, 5*time.Millisecond)
	require.NotContains(t, said.String(), "ERROR")
	drawn := regexp.MustCompile(`(?m)^grpo_tokens_total\{kind="completion",model="tiny"\} [1-9]`)
	require.Eventually(t, func() bool { return drawn.MatchString(metrics(t, url)) }, time.Minute, 20*time.Millisecond,
		"what was drawn is counted")

	_, line, err := gate.NewKey("ada")
	require.NoError(t, err)
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte(line), 0o600))
	_, said, _ = serve(t, "--listen", "0.0.0.0:0", "--keys", keys)
	require.Eventually(t, func() bool {
		return strings.Contains(said.String(), "warning: keys travel in the clear; type --tls-cert FILE --tls-key FILE")
	}, 20*time.Second, 5*time.Millisecond)
}
