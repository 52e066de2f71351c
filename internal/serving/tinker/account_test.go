package tinker

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/multilora"
	"github.com/seed-7879b91d/grpo/sampler"
)

// ownerByKey identifies clients by their key.
func ownerByKey(o *Options) {
	o.Owner = func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("X-Api-Key"), "tml-") }
}

// as is the same server, used with another key.
func (s *site) as(name string) *site {
	return &site{&client.Client{URL: s.URL, Key: "tml-" + name, Patience: s.Patience}, s.server, s.store}
}

// Objects of one client do not exist for another: they can be neither read, nor changed, nor listed. A published checkpoint can be loaded
// until it is unpublished.
func TestEachHasHisOwn(t *testing.T) {
	s := serve(t, t.TempDir(), ownerByKey)
	ada, eve := s.as("ada"), s.as("eve")
	n := ada.connect(t)
	m := train(t, n, 1)
	path, err := m.Save(t.Context(), "one")
	require.NoError(t, err)
	v, err := n.Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	_, err = v.Sample(t.Context(), tokens1, drawExactly(1, 2, 1))
	require.NoError(t, err)

	run := "training_runs/" + m.ID
	for _, c := range []struct {
		method, path string
		in           any
	}{
		{"GET", run, nil}, {"GET", run + "/checkpoints", nil}, {"GET", run + "/checkpoints/weights/one/archive", nil},
		{"DELETE", run + "/checkpoints/weights/one", nil}, {"POST", run + "/checkpoints/weights/one/publish", nil},
		{"PUT", run + "/checkpoints/weights/one/ttl", map[string]int{"ttl_seconds": 1}},
		{"GET", "sessions/" + n.ID, nil}, {"GET", "samplers/" + v.ID, nil}, {"POST", "session_heartbeat", map[string]string{"session_id": n.ID}},
		{"POST", "weights_info", map[string]string{"tinker_path": path}}, {"POST", "get_info", map[string]string{"model_id": m.ID}},
		{"POST", "unload_model", map[string]string{"model_id": m.ID}}, {"POST", "retrieve_future", map[string]string{"request_id": m.ID + "#1"}},
		{"POST", "retrieve_future", map[string]string{"request_id": v.ID + "#0"}},
		{"POST", "optim_step", map[string]any{"model_id": m.ID, "seq_id": 2}},
		{"POST", "asample", map[string]any{"sampling_session_id": v.ID, "seq_id": 0}},
		{"POST", "create_model", map[string]any{"session_id": n.ID, "base_model": "tiny", "model_seq_id": 0}},
		{"POST", "create_sampling_session", map[string]any{"session_id": n.ID, "base_model": "tiny"}},
	} {
		eve.refused(t, http.StatusNotFound, c.method, c.path, c.in)
	}
	for _, list := range []string{"sessions", "training_runs", "checkpoints"} {
		require.Empty(t, eve.get(t, "GET", list, nil)[list])
		require.Len(t, ada.get(t, "GET", list, nil)[list], 1)
	}
	other := train(t, eve.connect(t), 2)
	require.ErrorContains(t, other.Load(t.Context(), path, true), "there is no model of")
	require.NoError(t, ada.Call(t.Context(), "POST", run+"/checkpoints/weights/one/publish", nil, nil))
	require.NoError(t, other.Load(t.Context(), path, true))
	var tar []byte
	require.NoError(t, eve.Call(t.Context(), "GET", run+"/checkpoints/weights/one/archive", nil, &tar), "what may be loaded may be fetched")
	require.Contains(t, string(tar), "adapter_config.json")
	eve.refused(t, http.StatusNotFound, "DELETE", run+"/checkpoints/weights/one", nil)
	require.NoError(t, ada.Call(t.Context(), "DELETE", run+"/checkpoints/weights/one/publish", nil, nil))
	require.ErrorContains(t, other.Load(t.Context(), path, true), "there is no model of")
	require.NoError(t, m.Load(t.Context(), path, true))

	f, err := other.Do(t.Context(), "load_weights", map[string]any{"path": path, "weights_access_token": "tml-secret-of-ada"})
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, "there is no model of")
	journals, err := filepath.Glob(filepath.Join(s.store, "runs", "*", "journal"))
	require.NoError(t, err)
	require.Len(t, journals, 2)
	for _, journal := range journals {
		text, err := os.ReadFile(journal)
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret-of-ada")
	}
}

// The owner of an object is known after a restart; what was made without keys belongs to everybody.
func TestOwnersAreKept(t *testing.T) {
	dir := t.TempDir()
	var own, open string
	t.Run("without keys", func(t *testing.T) { open = serve(t, dir).connect(t).ID })
	t.Run("with keys", func(t *testing.T) { own = serve(t, dir, ownerByKey).as("ada").connect(t).ID })
	s := serve(t, dir, ownerByKey)
	require.Len(t, s.as("ada").get(t, "GET", "sessions", nil)["sessions"], 2)
	require.Equal(t, []any{open}, s.as("eve").get(t, "GET", "sessions", nil)["sessions"])
	s.as("eve").refused(t, http.StatusNotFound, "GET", "sessions/"+own, nil)
}

// Requests other than data and prompts are short, and a client with many pending requests is told to wait. Others are not.
func TestWhatOneMayHaveIsBounded(t *testing.T) {
	s := serve(t, t.TempDir(), ownerByKey)
	ada, eve := s.as("ada"), s.as("eve")
	n := ada.connect(t)
	large := map[string]string{"a": strings.Repeat("a", small)}
	ada.refused(t, http.StatusRequestEntityTooLarge, "POST", "create_session", large)
	require.ErrorContains(t, ada.Call(t.Context(), "POST", "create_session", large, nil), "the body is larger than the 65536 bytes")

	account := s.server.account("ada")
	change := func(do func()) { // locked, as the server does it
		account.mu.Lock()
		defer account.mu.Unlock()
		do()
	}
	change(func() { account.reading = maxReading })
	call := func(s *site, path, body string) int {
		r := httptest.NewRequest("POST", prefix+path, strings.NewReader(body))
		r.Header.Set("X-Api-Key", s.Key)
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusTooManyRequests, call(ada, "create_session", "{}"))
	require.Equal(t, http.StatusOK, call(eve, "create_session", "{}"))
	change(func() { account.reading = 0 })
	require.Equal(t, http.StatusOK, call(ada, "create_session", "{}"))
	change(func() { require.Zero(t, account.reading) })

	m := train(t, n, 1)
	change(func() { account.polls = maxPolls })
	require.Equal(t, http.StatusTooManyRequests, call(ada, "retrieve_future", `{"request_id":"`+m.ID+`#0"}`))
	change(func() { account.polls = 0 })
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
	change(func() { require.Positive(t, account.held) })
	account.hold(maxHeld)
	body := crossEntropy(weightedDatum(tokens1, 3, 1))
	body.ModelID, body.SeqID = m.ID, 2
	require.Equal(t, http.StatusTooManyRequests, call(ada, "forward_backward", string(body.Append(nil))))
	m.Seq = 1
	stepped(t, m, 1e-2) // so that a state is saved
	require.Eventually(t, func() bool { return !account.full(0) }, time.Minute, time.Millisecond)
}

// hookedWriter is a response that calls a function when it begins.
type hookedWriter struct {
	http.ResponseWriter
	begins func()
}

func (a *hookedWriter) WriteHeader(code int) {
	a.begins()
	a.ResponseWriter.WriteHeader(code)
}

// A client whose poll is answered may poll again: the old one no longer counts.
func TestAPollThatIsAnsweredIsNone(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	account := s.server.account("")
	w := &hookedWriter{httptest.NewRecorder(), func() {
		account.mu.Lock()
		defer account.mu.Unlock()
		require.Zero(t, account.polls)
	}}
	s.server.ServeHTTP(w, httptest.NewRequest("POST", prefix+"retrieve_future", strings.NewReader(`{"request_id":"`+m.ID+`#0"}`)))
	require.Equal(t, http.StatusOK, w.ResponseWriter.(*httptest.ResponseRecorder).Code)
}

// Results that are large together are not kept for long.
func TestLargeResultsAreForgotten(t *testing.T) {
	var a answers
	large := result{status: statusOK, kind: isProtobuf, body: make([]byte, maxKept/2+1)}
	for _, id := range []string{"a", "b", "c"} {
		f, isNew, err := a.begin(id, "")
		require.NoError(t, err)
		require.True(t, isNew)
		a.settle(f, large)
	}
	require.Nil(t, a.get("a"))
	require.NotNil(t, a.get("c"))
	require.LessOrEqual(t, a.bytes, 2*len(large.body))
}

// If there is no room, nothing is begun, but existing objects can be deleted.
func TestAStoreThatIsFull(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	n := s.connect(t)
	m := train(t, n, 1)
	_, err := m.Save(t.Context(), "one")
	require.NoError(t, err)
	s.server.MaxStoreBytes = 1
	s.Patience = time.Millisecond
	for path, in := range map[string]any{"create_session": nil, "optim_step": map[string]any{"model_id": m.ID, "seq_id": 2},
		"create_model":            map[string]any{"session_id": n.ID, "base_model": "tiny", "model_seq_id": 9},
		"create_sampling_session": map[string]any{"session_id": n.ID, "base_model": "tiny"}} {
		err := s.Call(t.Context(), "POST", path, in, nil)
		require.ErrorContains(t, err, "larger --store-bytes", path)
		require.ErrorContains(t, err, "HTTP 429", path)
	}
	require.NoError(t, s.Call(t.Context(), "DELETE", "training_runs/"+m.ID+"/checkpoints/weights/one", nil, nil))
	s.server.MaxStoreBytes = 0
	s.Patience = 10 * time.Second
	stepped(t, m, 1e-2)
}

// Polls are answered when the server is to stop, so that clients ask the next server.
func TestPollsEndWithTheServer(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.PollTimeout = time.Minute })
	m := train(t, s.connect(t), 1)
	m.Seq++ // waits for a number that is never sent
	f, err := m.OptimStep(t.Context(), 1)
	require.NoError(t, err)
	answered := make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, httptest.NewRequest("POST", prefix+"retrieve_future", strings.NewReader(`{"request_id":"`+m.ID+`#2"}`)))
		answered <- w.Code
	}()
	time.Sleep(20 * time.Millisecond)
	s.server.Drain()
	select {
	case code := <-answered:
		require.Equal(t, http.StatusRequestTimeout, code)
	case <-time.After(10 * time.Second):
		t.Fatal("the poll did not end within 10 seconds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = f.Wait(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A directory with other content is refused as a store.
func TestADirectoryThatIsNoStore(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "runs"), 0o755)) // as of a trainer
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), nil, 0o644))
	_, err := New(Options{Store: dir})
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, `has "main.go" in it; type the name of a new directory, such as --store `+filepath.Join(dir, "store"))
	dir = filepath.Join(dir, "store")
	for range 2 {
		s, err := New(Options{Store: dir})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), nil, 0o644)) // a foreign file in a store
	}
}

// If the number of models in memory is limited, others are loaded when one leaves, and results do not change.
func TestModelsTakeSeats(t *testing.T) {
	var want, got []any
	for _, models := range []int{16, 1} {
		s := serve(t, t.TempDir(), func(o *Options) { o.MaxModels = models })
		n := s.connect(t)
		one, two := train(t, n, 7), train(t, n, 8)
		got = nil
		for range 2 {
			got = append(got, awaitGradient(t, one, crossEntropy(weightedDatum(tokens1, 3, 1))),
				awaitGradient(t, two, crossEntropy(weightedDatum(tokens2, 3, 1))))
			got = append(got, stepped(t, two, 1e-2), stepped(t, one, 1e-2))
		}
		require.Equal(t, min(models, 2), len(s.server.account("").modelSlots))
		if want == nil {
			want = got
		}
	}
	require.Equal(t, want, got)
}

// recordingSampler is a sampler that records the client of each request.
type recordingSampler struct {
	Sampler
	from chan string
}

func (h recordingSampler) Sample(ctx context.Context, w *multilora.Adapter, r sampler.Request) ([]sampler.Rollout, error) {
	h.from <- r.From
	return h.Sampler.Sample(ctx, w, r)
}

// Sampling requests queue with the other requests of their key, also of other protocols.
func TestSamplesStandInTheLineOfTheirKey(t *testing.T) {
	from := make(chan string, 1)
	s := serve(t, t.TempDir(), ownerByKey, func(o *Options) {
		base := *o.Bases[0]
		base.Sampler = recordingSampler{base.Sampler, from}
		o.Bases = []*Base{&base}
	})
	v, err := s.as("ada").connect(t).Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	_, err = v.Sample(t.Context(), tokens1, drawExactly(1, 2, 1))
	require.NoError(t, err)
	require.Equal(t, "ada", <-from)
}

// Unloading a model does not wait for another model with its layout, and neither does a poll for it.
func TestLeavingWaitsForNobody(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.SnapshotAfter = time.Nanosecond })
	n := s.connect(t)
	m, other := train(t, n, 1), train(t, n, 2)
	stepped(t, m, 1e-3)
	r := s.server.runs[m.ID]
	require.Eventually(t, func() bool { // its state is saved, and only unloading is left
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.saved == 1
	}, 10*time.Second, time.Millisecond)
	turn := s.server.bases["tiny"].Lock
	turn.Lock()
	f, err := other.ForwardBackward(t.Context(), crossEntropy(weightedDatum(tokens1, 3, 1)))
	require.NoError(t, err)
	time.Sleep(100 * time.Millisecond) // while the other computes
	s.get(t, "POST", "unload_model", map[string]string{"model_id": m.ID})
	answered := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), m.ID+"#"+unload)
		answered <- err
	}()
	select {
	case err := <-answered:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Error("the unload waits for another model")
	}
	turn.Unlock()
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
}
