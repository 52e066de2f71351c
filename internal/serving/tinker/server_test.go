package tinker

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
	"github.com/seed-7879b91d/grpo/internal/tiny"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// modelDir is the embedded model, in a directory of this process.
var modelDir = sync.OnceValue(func() string {
	dir := filepath.Join(os.TempDir(), "grpo-tinker-test-model")
	if err := tiny.Extract(dir); err != nil {
		panic(err)
	}
	return dir
})

// bases are the embedded model in a host that runs as long as the process; all servers of tests share it.
var bases = sync.OnceValues(func() ([]*Base, error) {
	b, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	h, err := serving.Open(context.Background(), serving.Options{Models: []serving.NamedDir{{Name: "tiny", Dir: modelDir()}}, Backend: b,
		Model:    model.Options{MaxRows: 256, SharePrefixes: true},
		Sampling: sampler.Options{MaxSequences: 8, MaxLength: 256, TokenBudget: 64, CacheBytes: 4 << 20, Adapters: 2}})
	if err != nil {
		return nil, err
	}
	go h.Run(context.Background())
	return Bases(h), nil
})

// site is a server in this process, and a client of it.
type site struct {
	*client.Client
	server *Server
	store  string
}

// serve opens a server over a store, with changes to its options.
func serve(t *testing.T, store string, change ...func(*Options)) *site {
	t.Helper()
	all, err := bases()
	require.NoError(t, err)
	o := Options{Store: store, Bases: all, MaxBody: 1 << 20, PollTimeout: 100 * time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	require.NoError(t, err)
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		require.NoError(t, s.Close())
	})
	return &site{&client.Client{URL: web.URL + "/somewhere", Patience: 10 * time.Second}, s, store}
}

func (s *site) connect(t *testing.T) *client.Session {
	t.Helper()
	n, err := s.Connect(t.Context())
	require.NoError(t, err)
	return n
}

func train(t *testing.T, n *client.Session, seed int64) *client.Training {
	t.Helper()
	m, err := n.Train(t.Context(), "tiny", 4, seed)
	require.NoError(t, err)
	return m
}

// weightedDatum is a datum of the tokens, the last n of which have a weight.
func weightedDatum(tokens []int32, n int, weight float32) wire.Datum {
	rows := len(tokens) - 1
	w := make([]float32, rows)
	for i := rows - n; i < rows; i++ {
		w[i] = weight
	}
	return wire.Datum{Tokens: tokens[:rows],
		Inputs: map[string]wire.Tensor{"target_tokens": wire.Ints1(tokens[1:]), "weights": wire.Floats1(w)}}
}

func crossEntropy(data ...wire.Datum) wire.ForwardBackward {
	return wire.ForwardBackward{Loss: "cross_entropy", Data: data}
}

// await sends a request and waits for its result.
func await[T any](t *testing.T) func(*client.Future[T], error) T {
	return func(f *client.Future[T], err error) T {
		t.Helper()
		require.NoError(t, err)
		v, err := f.Wait(t.Context())
		require.NoError(t, err)
		return v
	}
}

func awaitGradient(t *testing.T, m *client.Training, r wire.ForwardBackward) wire.Output {
	t.Helper()
	return await[wire.Output](t)(m.ForwardBackward(t.Context(), r))
}

func stepped(t *testing.T, m *client.Training, rate float64) map[string]any {
	t.Helper()
	return await[map[string]any](t)(m.OptimStep(t.Context(), rate))
}

var tokens1, tokens2 = []int32{5, 6, 7, 8, 9, 10, 11}, []int32{5, 6, 7, 30, 31, 32}

func TestAModelLearnsWhatItIsTaught(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	lessons := crossEntropy(weightedDatum(tokens1, 3, 1), weightedDatum(tokens2, 2, 1))
	first := awaitGradient(t, m, lessons)
	for range 5 {
		stepped(t, m, 1e-2)
		awaitGradient(t, m, lessons)
	}
	f, err := m.ForwardBackward(t.Context(), lessons)
	require.NoError(t, err)
	_, err = m.OptimStep(t.Context(), 1e-2) // both in flight
	require.NoError(t, err)
	last, err := f.Wait(t.Context())
	require.NoError(t, err)
	require.Less(t, last.Metrics["loss:sum"], first.Metrics["loss:sum"]/2)
	require.Len(t, last.LogProbs, 2)
	require.Equal(t, []int64{6}, last.LogProbs[0].Shape)
	require.Len(t, last.Metrics, 1)

	// A forward pass changes nothing, and has the same results.
	forward := lessons
	forward.ForwardOnly = true
	again := awaitGradient(t, m, forward)
	require.Equal(t, again, awaitGradient(t, m, forward))
	require.Less(t, again.Metrics["loss:sum"], last.Metrics["loss:sum"])
	require.Equal(t, 0.0, stepped(t, m, 0)["metrics"].(map[string]any)["grad_norm"])
}

// The chunks of a request are sent with the first one last, and are processed in order all the same.
func TestChunksAreOneRequest(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	whole, cut := train(t, n, 1), train(t, n, 1)
	cut.Chunk = 1
	data := crossEntropy(weightedDatum(tokens1, 3, 1), weightedDatum(tokens2, 2, -0.5), weightedDatum([]int32{40, 41, 42}, 1, 3))
	a, b := awaitGradient(t, whole, data), awaitGradient(t, cut, data)
	require.Equal(t, a.LogProbs, b.LogProbs)
	require.InDelta(t, a.Metrics["loss:sum"], b.Metrics["loss:sum"], 1e-9)
	require.EqualValues(t, 3, cut.Seq)
	require.NotContains(t, n.ID, ":")
}

func TestTwoModelsDoNotMoveEachOther(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	alone := train(t, n, 7)
	var want []wire.Output
	for range 2 {
		want = append(want, awaitGradient(t, alone, crossEntropy(weightedDatum(tokens1, 3, 1))))
		stepped(t, alone, 1e-2)
	}
	one, two := train(t, n, 7), train(t, n, 8)
	wide, err := n.Train(t.Context(), "tiny", 8, 7)
	require.NoError(t, err)
	for i := range 2 {
		awaitGradient(t, two, crossEntropy(weightedDatum(tokens2, 3, 1)))
		require.Equal(t, want[i], awaitGradient(t, one, crossEntropy(weightedDatum(tokens1, 3, 1))))
		awaitGradient(t, wide, crossEntropy(weightedDatum(tokens2, 3, 1)))
		stepped(t, two, 1e-2)
		stepped(t, one, 1e-2)
		stepped(t, wide, 1e-2)
	}
}

func TestSavedStatesGoOnAsIfNothingHadBeen(t *testing.T) {
	store := t.TempDir()
	s := serve(t, store)
	n := s.connect(t)
	m := train(t, n, 1)
	lessons := crossEntropy(weightedDatum(tokens1, 3, 1))
	awaitGradient(t, m, lessons)
	stepped(t, m, 1e-2)
	path, err := m.Save(t.Context(), "first")
	require.NoError(t, err)
	require.Equal(t, "tinker://"+m.ID+"/weights/first", path)
	var want []wire.Output
	for range 2 {
		want = append(want, awaitGradient(t, m, lessons))
		stepped(t, m, 1e-2)
	}
	other := train(t, n, 5)
	for range 2 { // also where a gradient is pending
		require.NoError(t, other.Load(t.Context(), path, true))
		for i := range want {
			require.Equal(t, want[i], awaitGradient(t, other, lessons))
			stepped(t, other, 1e-2)
		}
		awaitGradient(t, other, lessons)
	}
	require.NoError(t, other.Load(t.Context(), path, false))
	require.Equal(t, want[0], awaitGradient(t, other, lessons))
	require.EqualValues(t, 1, stepped(t, other, 1e-2)["metrics"].(map[string]any)["updates"])

	wide, err := n.Train(t.Context(), "tiny", 8, 7)
	require.NoError(t, err)
	require.ErrorContains(t, wide.Load(t.Context(), path, true), "user: the saved weights have rank 4")
	_, err = m.Save(t.Context(), "first")
	require.ErrorContains(t, err, "user: path: the name is taken")
	for _, name := range []string{"../x", "", "a/b", ".hidden", "x\x00"} {
		_, err = m.Save(t.Context(), name)
		require.ErrorContains(t, err, "user: path: found", name)
	}
	require.ErrorContains(t, m.Load(t.Context(), "tinker://"+m.ID+"/weights/../../../x", true), "user: path: found")
}

func TestARequestIsDoneOnce(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
	adam := map[string]any{"adam_params": map[string]any{"learning_rate": 1e-2}}
	m.Seq++
	one := await[map[string]any](t)(m.Resend(t.Context(), "optim_step", m.Seq, adam))
	two := await[map[string]any](t)(m.Resend(t.Context(), "optim_step", m.Seq, adam))
	require.Equal(t, one, two)
	require.EqualValues(t, 1, one["metrics"].(map[string]any)["updates"])
	_, err := m.Resend(t.Context(), "optim_step", m.Seq, map[string]any{"adam_params": map[string]any{"learning_rate": 2}})
	var refused *client.RejectedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusBadRequest, refused.Code)
	require.EqualValues(t, 2, stepped(t, m, 1e-2)["metrics"].(map[string]any)["updates"])
}

// A missing sequence number is skipped after a time-out, and is too late then.
func TestAHoleIsWaitedFor(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.GapTimeout = 50 * time.Millisecond })
	m := train(t, s.connect(t), 1)
	m.Seq++
	require.EqualValues(t, 1, stepped(t, m, 1e-2)["metrics"].(map[string]any)["updates"])
	f, err := m.Resend(t.Context(), "optim_step", 1, map[string]any{})
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, "user: seq_id: request 1 did not come in time")
}

// An idle model leaves memory, also in the middle of a step, and has the same state when it is used again.
func TestAModelSleeps(t *testing.T) {
	var want, got []any
	for _, idle := range []time.Duration{time.Hour, time.Millisecond} {
		s := serve(t, t.TempDir(), func(o *Options) { o.IdleTimeout = idle })
		m := train(t, s.connect(t), 1)
		got = nil
		for range 3 {
			out := awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
			r := s.server.runs[m.ID]
			require.Eventually(t, func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.working == (idle == time.Hour)
			}, time.Minute, time.Millisecond)
			got = append(got, out, stepped(t, m, 1e-2))
		}
		if want == nil {
			want = got
		}
	}
	require.Equal(t, want, got)
}

// Requests for an unloaded model are refused, also by the next server, and also if the journal was rewritten.
func TestAModelThatIsUnloaded(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.CompactAt = 1 })
	m := train(t, s.connect(t), 1)
	var p struct {
		Request string `json:"request_id"`
	}
	require.NoError(t, s.Call(t.Context(), "POST", "unload_model", map[string]string{"model_id": m.ID}, &p))
	ended, err := s.Wait(t.Context(), p.Request)
	require.NoError(t, err)
	f, err := m.OptimStep(t.Context(), 1)
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, "was unloaded")
	require.NotContains(t, s.server.runs[m.ID].entries, m.Seq, "nothing of the model is left")

	s.server.stop()
	s.server.work.Wait() // all is on disk, and the journal is as short as possible
	copied := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(copied, os.DirFS(s.store)))
	m.Client = serve(t, copied).Client
	again, err := m.Wait(t.Context(), p.Request)
	require.NoError(t, err)
	require.Equal(t, ended, again)
	f, err = m.OptimStep(t.Context(), 1)
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, "was unloaded")
}

func TestMain(m *testing.M) {
	if store := os.Getenv("GRPO_TINKER_STORE"); store != "" {
		serveForever(store, os.Getenv("GRPO_TINKER_ADDRESS"))
		return
	}
	os.Exit(m.Run())
}

// serveForever is the main function of the process that is killed.
func serveForever(store, address string) {
	all, err := bases()
	if err != nil {
		panic(err)
	}
	s, err := New(Options{Store: store, Bases: all, SnapshotAfter: 20 * time.Millisecond, CompactAt: 4096, PollTimeout: time.Second})
	if err != nil {
		panic(err)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		panic(err)
	}
	panic(http.Serve(l, s))
}
