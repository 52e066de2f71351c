package tools

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// soak is how many calls the long form of the tests makes; it also runs every attack. 0 is the short form.
var soak, _ = strconv.Atoi(os.Getenv("GRPO_TOOLS_SOAK"))

func testPython(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/usr/bin/python3", "/usr/local/bin/python3", "python3"} {
		if _, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	t.Skip("python3 is not installed")
	return ""
}

// shared is the pool of most tests: it takes a while to open one, because it is attacked.
var shared struct {
	sync.Once
	pool *sandbox.Pool
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.pool != nil {
		shared.pool.Close()
	}
	os.Exit(code)
}

// sharedJudge is a judge over that pool. A test holds at most two of its four places at a time.
func sharedJudge(t testing.TB) *reward.Judge {
	t.Helper()
	python := testPython(t)
	shared.Do(func() {
		shared.pool, shared.err = sandbox.Open(context.Background(), sandbox.Options{Slots: 2, Sessions: 4, Python: python, Unsafe: true})
	})
	require.NoError(t, shared.err)
	return judgeOver(t, shared.pool)
}

// openJudge opens a judge with its own cells.
func openJudge(t testing.TB, slots, sessions int) (*reward.Judge, *sandbox.Pool) {
	t.Helper()
	pool, err := sandbox.Open(t.Context(), sandbox.Options{Slots: slots, Sessions: sessions, Python: testPython(t), Unsafe: true})
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	return judgeOver(t, pool), pool
}

func judgeOver(t testing.TB, pool *sandbox.Pool) *reward.Judge {
	t.Helper()
	if pool.Isolation().Rung == sandbox.RungUnsafe {
		t.Skip("this machine isolates no program")
	}
	return reward.NewJudge(reward.Rules{}, pool, pool, nil)
}

func openKit(t testing.TB, p data.Problem, o Options) *Kit {
	t.Helper()
	if o.Judge == nil {
		o.Judge = sharedJudge(t)
	}
	if p.ID == "" {
		p.ID = "p"
	}
	k, err := Open(t.Context(), &p, o)
	require.NoError(t, err)
	t.Cleanup(k.Close)
	return k
}

// ask calls a tool.
func ask(t testing.TB, k *Kit, name string, args map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	text, err := k.Call(context.Background(), name, raw)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), k.options.Text)
	return text
}

func run(t testing.TB, k *Kit, code string) string {
	t.Helper()
	return ask(t, k, "python", map[string]any{"code": code})
}

// shortLimits are limits that keep attacks short.
func shortLimits(j *reward.Judge) Options {
	return Options{Judge: j, CallTime: 300 * time.Millisecond, Lines: 3000, Memory: 256 << 20, Text: 2000}
}

func rawMessages(texts ...string) (all []json.RawMessage) {
	for _, text := range texts {
		all = append(all, json.RawMessage(text))
	}
	return all
}
