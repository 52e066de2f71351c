package serving_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
	"github.com/seed-7879b91d/grpo/internal/serving/openai"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/sampler"
)

// mostBody is the limit of bodies in the test.
const mostBody = 16 << 10

// testServer is a server of the embedded model and two adapters, with little memory.
type testServer struct {
	url    string
	live   *sampler.Live
	client *http.Client
}

func serve(t *testing.T) *testServer {
	b := backendtest.CPU(t, cpu.Options{})
	h, err := serving.Open(t.Context(), serving.Options{Backend: b, Models: []serving.NamedDir{{Name: "tiny", Dir: "tiny"}},
		Sampling: sampler.Options{MaxLength: 256, MaxSequences: 8, Adapters: 2, CacheBytes: 3 << 20}})
	require.NoError(t, err)
	base, err := h.Find("tiny")
	require.NoError(t, err)
	for i, name := range []string{"one", "two"} {
		layout, err := lora.NewLayout(lora.Config{Rank: 4, Alpha: 64, Targets: lora.AllTargets()}, base.Language.Shape.LoRADims())
		require.NoError(t, err)
		a := lora.New(layout)
		a.Init(uint64(i))
		for k := range a.Values {
			a.Values[k] += float32(k%(7+i)) / 50
		}
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, a.Save(dir, "tiny"))
		require.NoError(t, h.LoadAdapter(name, "tiny", dir))
	}
	api := openai.New(openai.NewHost(h, serving.PromptOptions{}), openai.Options{ClientID: gate.KeyName})
	g, err := gate.New(api, gate.Options{MaxBody: mostBody})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	drawn, answered := make(chan error, 1), make(chan error, 1)
	go func() { drawn <- h.Run(context.Background()) }()
	go func() { answered <- g.Serve(ctx, listener, gate.ListenOptions{}, openai.ShutdownCause()) }()
	s := &testServer{url: "http://" + listener.Addr().String(), live: base.Live,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 99}}}
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-answered)
		require.NoError(t, h.Close())
		require.NoError(t, <-drawn)
		require.NoError(t, b.Close())
	})
	return s
}

// testRequest is a request: a path and a body.
type testRequest struct{ path, body string }

// words are a prompt; some prompts share a prefix.
func words(rng *rand.Rand) string {
	return strings.Repeat("Define compute(x). ", rng.IntN(4)) + fmt.Sprintf("It returns x plus %d.", rng.IntN(1000))
}

// newQuestion is the i-th request, of all kinds.
func newQuestion(i int) testRequest {
	rng := rand.New(rand.NewPCG(uint64(i), 3))
	more := fmt.Sprintf(`"model":%q,"seed":%d,"max_tokens":%d,"stream":%v`, []string{"tiny", "one", "two"}[i%3], i, 1+rng.IntN(20), i%2 == 0)
	if rng.IntN(4) == 0 {
		more += `,"temperature":0.5,"top_p":0.9`
	}
	if rng.IntN(6) == 0 {
		more += `,"n":4`
	}
	if i%2 == 0 && rng.IntN(2) == 0 {
		more += `,"stream_options":{"include_usage":true}`
	}
	if i%5 < 2 {
		if rng.IntN(3) == 0 {
			more += `,"logprobs":3`
		}
		return testRequest{"/v1/completions", fmt.Sprintf(`{%s,"prompt":[%q,%q]}`, more, words(rng), words(rng))}
	}
	switch rng.IntN(3) {
	case 0:
		more += `,"logprobs":true,"top_logprobs":2`
	case 1:
		more += `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","required":["age"],
			"properties":{"age":{"type":"integer","minimum":0,"maximum":99}},"additionalProperties":false}}}`
	}
	return testRequest{"/v1/chat/completions", fmt.Sprintf(`{%s,"messages":[{"role":"user","content":%q}]}`, more, words(rng))}
}

// varyingParts matches what differs between two answers to one request: ids, times, and cached tokens.
var varyingParts = regexp.MustCompile(`"id":"(?:chat)?cmpl-[^"]*"|"created":[0-9]+|"cached_tokens":[0-9]+`)

// ask returns the whole answer.
func (s *testServer) ask(q testRequest) (status int, answer string, err error) {
	res, err := s.client.Post(s.url+q.path, "application/json", strings.NewReader(q.body))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, inOrder(varyingParts.ReplaceAllString(string(text), "")), err
}

var choice = regexp.MustCompile(`"choices":\[\{"index":([0-9]+)`)

// inOrder sorts the lines of a stream by completion: how they interleave depends on other requests.
func inOrder(answer string) string {
	lines := strings.SplitAfter(answer, "\n\n")
	of := func(line string) int {
		if found := choice.FindStringSubmatch(line); found != nil {
			i, _ := strconv.Atoi(found[1]) // the pattern has only digits
			return i
		}
		return 99
	}
	slices.SortStableFunc(lines, func(a, b string) int { return of(a) - of(b) })
	return strings.Join(lines, "")
}

// leave sends a request, and disconnects after some bytes of the answer, or some time.
func (s *testServer) leave(q testRequest, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(30))*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+q.path, strings.NewReader(q.body))
	if err != nil {
		return err
	}
	res, err := s.client.Do(r)
	if err == nil {
		_, err = io.CopyN(io.Discard, res.Body, rng.Int64N(2000))
		err = errors.Join(err, res.Body.Close())
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// breakOff sends an invalid request, and returns an error if that is not handled properly.
func (s *testServer) breakOff(q testRequest, rng *rand.Rand) error {
	want := http.StatusBadRequest
	switch rng.IntN(4) {
	case 0:
		q.body = q.body[:rng.IntN(len(q.body)-1)+1]
	case 1:
		q = testRequest{"/v1/completions", `{"model":"one","prompt":[5,99999]}`}
	case 2:
		q.body, want = `{"model":"tiny","prompt":"`+strings.Repeat("a", mostBody)+`"}`, http.StatusRequestEntityTooLarge
	default:
		return s.cut(q)
	}
	status, answer, err := s.ask(q)
	if err == nil && status != want {
		err = fmt.Errorf("status %d for %.80s: %s", status, q.body, answer)
	}
	return err
}

// cut closes a connection in the middle of a body.
func (s *testServer) cut(q testRequest) error {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", q.path, len(q.body), q.body[:len(q.body)/2])
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	text, err := io.ReadAll(conn)
	if err == nil && !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
		err = fmt.Errorf("a body that was cut: %.80s", text)
	}
	return err
}

// visit sends requests one after the other and compares the answers with those of a single client; on some it disconnects, and some are
// invalid.
func (s *testServer) visit(number, requests int, alone []string, left, broken *atomic.Int64) error {
	rng := rand.New(rand.NewPCG(uint64(number), 4))
	for range requests {
		i := rng.IntN(len(alone))
		q := newQuestion(i)
		err := error(nil)
		switch kind := rng.IntN(50); {
		case kind == 0:
			broken.Add(1)
			err = s.breakOff(q, rng)
		case kind <= 5:
			left.Add(1)
			err = s.leave(q, rng)
		default:
			status, answer, failed := s.ask(q)
			if err = failed; err == nil && (status != http.StatusOK || answer != alone[i]) {
				err = fmt.Errorf("%s\nalone:\n%s\namong others, with status %d:\n%s", q.body, alone[i], status, answer)
			}
		}
		if err != nil {
			return fmt.Errorf("client %d, question %d: %w", number, i, err)
		}
	}
	return nil
}

// resident is the resident memory after a garbage collection.
func resident(t *testing.T) (kib int) {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	_, err = fmt.Sscan(after, &kib)
	require.NoError(t, err)
	return kib
}

// Many clients at once, some of which disconnect, and some send invalid requests: every other answer is, to the byte, that of a single
// client, and nothing is left allocated. GRPO_LOAD is the number of clients, with 50 requests each.
func TestLoad(t *testing.T) {
	clients, requests, questions := 6, 8, 20
	if text := os.Getenv("GRPO_LOAD"); text != "" {
		var err error
		clients, err = strconv.Atoi(text)
		require.NoError(t, err)
		requests, questions = 50, 400
	}
	s := serve(t)
	goroutines := runtime.NumGoroutine()
	alone := make([]string, questions)
	for i := range alone {
		status, answer, err := s.ask(newQuestion(i))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, answer)
		alone[i] = answer
	}
	memory := resident(t)
	var left, broken atomic.Int64
	errs := make([]error, clients)
	var all sync.WaitGroup
	began := time.Now()
	for c := range clients {
		all.Go(func() { errs[c] = s.visit(c, requests, alone, &left, &broken) })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	took := time.Since(began)
	s.client.CloseIdleConnections()
	require.Eventually(t, func() bool {
		return s.live.FreeBlocks() == s.live.Plan().Blocks && runtime.NumGoroutine() <= goroutines+4 // some may start late, and this one
	}, 20*time.Second, 5*time.Millisecond)
	after := resident(t)
	t.Logf("%d requests in %v, of which %d left and %d were none; %d goroutines; memory: %d KiB more than %d",
		clients*requests, took, left.Load(), broken.Load(), runtime.NumGoroutine(), after-memory, memory)
	require.Positive(t, left.Load()*broken.Load())
	if !race.Enabled {
		require.Less(t, after-memory, 32<<10, "KiB more than before")
	}
}
