package tinker

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
)

// traceStep is one step of a journey.
func traceStep(ctx context.Context, m *client.Training, step int) (saw string, err error) {
	f, err := m.ForwardBackward(ctx, crossEntropy(weightedDatum(tokens1, 3, 1), weightedDatum(tokens2, 1+step%3, 0.5)))
	if err != nil {
		return "", err
	}
	g, err := m.OptimStep(ctx, 1e-2)
	if err != nil {
		return "", err
	}
	out, err := f.Wait(ctx)
	if err != nil {
		return "", err
	}
	update, err := g.Wait(ctx)
	if err != nil {
		return "", err
	}
	saw = fmt.Sprintln(step, out.LogProbs, out.Metrics, update)
	switch step % 5 {
	case 1:
		_, err = m.Save(ctx, fmt.Sprint("at", step))
	case 2:
		var v *client.Sampling
		if v, err = m.Sampling(ctx); err != nil {
			return "", err
		}
		var s wire.Sampled
		s, err = v.Sample(ctx, tokens1, client.SampleParams{N: 2, Params: map[string]any{"max_tokens": 5, "seed": 4, "stop": []int{}}})
		saw += fmt.Sprintln(s.Sequences)
	case 3:
		err = m.Load(ctx, store.Path(m.ID, store.Weights, fmt.Sprint("at", step-2)), true)
	}
	return saw, err
}

// process is a server that can be killed.
type process struct {
	store, address string
	cmd            *exec.Cmd
}

func freeAddress(t *testing.T) string {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (p *process) start(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	p.cmd = exec.Command(self)
	p.cmd.Env = append(os.Environ(), "GRPO_TINKER_STORE="+p.store, "GRPO_TINKER_ADDRESS="+p.address)
	p.cmd.Stderr = os.Stderr
	require.NoError(t, p.cmd.Start())
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// sessionTrace is a session of a usual program: steps with both calls in flight, saves, loads and samples. It returns what the program saw,
// and the bytes of the last adapter.
func sessionTrace(ctx context.Context, url, dir string, steps int) (string, error) {
	c := &client.Client{URL: url, Patience: time.Minute}
	n, err := c.Connect(ctx)
	if err != nil {
		return "", err
	}
	m, err := n.Train(ctx, "tiny", 4, 3)
	if err != nil {
		return "", err
	}
	m.Chunk = 1
	saw := ""
	for step := range steps {
		seen, err := traceStep(ctx, m, step)
		if err != nil {
			return "", fmt.Errorf("step %d: %w", step, err)
		}
		saw += seen
	}
	if _, err := m.SaveSampler(ctx, "last"); err != nil {
		return "", err
	}
	// The files that the client can download, except the archive, which has a date.
	paths, err := filepath.Glob(filepath.Join(dir, "runs", "*", store.Sampler, "last", "adapter_model.safetensors"))
	if err != nil || len(paths) != 1 {
		return "", fmt.Errorf("found adapters %q: %w", paths, err)
	}
	text, err := os.ReadFile(paths[0])
	return fmt.Sprintf("%sadapter %x\n", saw, sha256.Sum256(text)), err
}

// killed runs a session of the given number of steps, and kills the server the given number of times.
func killed(t *testing.T, steps, times int, seed uint64) (saw string, kills int) {
	p := &process{store: t.TempDir(), address: freeAddress(t)}
	p.start(t)
	defer func() { p.kill() }()
	type end struct {
		saw string
		err error
	}
	ended := make(chan end, 1)
	go func() {
		saw, err := sessionTrace(t.Context(), "http://"+p.address, p.store, steps)
		ended <- end{saw, err}
	}()
	moments := rand.New(rand.NewPCG(seed, 1))
	for {
		var moment <-chan time.Time
		if kills < times {
			moment = time.After(time.Duration(moments.IntN(200)+20) * time.Millisecond)
		}
		select {
		case e := <-ended:
			require.NoError(t, e.err)
			return e.saw, kills
		case <-moment:
			p.kill()
			kills++
			p.start(t)
		}
	}
}

// A session whose server is killed continues after each restart, and ends with the results of an undisturbed one. GRPO_TINKER_KILLS is
// the number of kills.
func TestASessionSurvivesKills(t *testing.T) {
	times := 1
	if s := os.Getenv("GRPO_TINKER_KILLS"); s != "" {
		var err error
		times, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	steps := 6 + 4*times
	want, _ := killed(t, steps, 0, 0)
	got, kills := killed(t, steps, times, 7)
	require.Equal(t, times, kills)
	require.Equal(t, want, got)
}
