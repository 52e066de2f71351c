package watch

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/reward"
)

// vowels rewards the letter e, without a sandbox.
func vowels(_ context.Context, c reward.Completion) (reward.Score, error) {
	return reward.Score{Reward: float64(strings.Count(c.Text, "e")), Verdict: reward.WA}, nil
}

// stepWatcher is a watcher that calls a function after each step.
type stepWatcher struct{ after func(step int) }

func (stepWatcher) Begun(string)                             {}
func (stepWatcher) Phase(string, int)                        {}
func (stepWatcher) Advance(int, int)                         {}
func (stepWatcher) Evaluated(grpo.Evaluation, []grpo.Advice) {}
func (stepWatcher) Saved(string)                             {}
func (stepWatcher) Warn(string)                              {}
func (l stepWatcher) StepDone(m grpo.Metrics, _ grpo.Timing, _ []grpo.Advice) {
	if l.after != nil {
		l.after(m.Step)
	}
}

func settingsOf(t *testing.T, words ...string) *configs.Config {
	t.Helper()
	words = append([]string{"prompts_per_step=2", "completions_per_prompt=3", "max_tokens=8", "eval_every=-1", "learning_rate=0.01",
		"lora_rank=2", "max_sequences=6", "threads=1"}, words...)
	cfg, err := configs.Load(configs.Source{Preset: "tiny", Overrides: words})
	require.NoError(t, err)
	return cfg
}

// train runs to the last step of the settings, and shows the run if they say so.
func train(t *testing.T, after func(b *TrainingServer, step int), words ...string) {
	t.Helper()
	cfg := settingsOf(t, words...)
	b, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	beside, err := Listen(cfg, false, io.Discard)
	require.NoError(t, err)
	defer beside.Close()
	look := stepWatcher{}
	if after != nil {
		look.after = func(step int) { after(beside, step) }
	}
	tr, err := grpo.Open(t.Context(), cfg, b, look, grpo.WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	require.NoError(t, beside.During(t.Context(), tr, func() error { return tr.Run(t.Context()) }))
	require.NoError(t, tr.Close())
	require.NoError(t, b.Close())
}

func fetched(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", text)
	return string(text)
}

// Showing a run while it trains does not change a byte of it, and the pages know its problems and tokens.
func TestARunIsShownFromItsOwnProcess(t *testing.T) {
	dir := t.TempDir()
	train(t, nil, "run_dir="+filepath.Join(dir, "alone"), "max_steps=2")
	address := ""
	train(t, func(b *TrainingServer, step int) {
		address = "http://" + b.listener.Addr().String()
		if step == 2 { // the pages have found the run by then, or find it now
			require.Contains(t, fetched(t, address+"/samples/shown?view=groups&step=2"), "2 groups")
			near := fetched(t, address+"/samples/shown?view=group&step=2&group=0&by=probability")
			require.Contains(t, near, "log-probability -")
			require.Contains(t, near, `<div class="statement"`)
		}
	}, "run_dir="+filepath.Join(dir, "shown"), "max_steps=2", "watch=127.0.0.1:0")
	for _, name := range []string{"rollouts.jsonl", "metrics.jsonl"} {
		alone, err := os.ReadFile(filepath.Join(dir, "alone", name))
		require.NoError(t, err)
		shown, err := os.ReadFile(filepath.Join(dir, "shown", name))
		require.NoError(t, err)
		require.Equal(t, string(alone), string(shown), name)
	}
	_, err := http.Get(address)
	require.Error(t, err, "the server ends with the run")
}

// The printed address can be opened in a browser, also if all addresses are listened on.
func TestTheAddressToOpen(t *testing.T) {
	for text, want := range map[string][2]string{
		"127.0.0.1:7770": {"http://127.0.0.1:7770/", ""},
		"0.0.0.0:7770":   {"http://localhost:7770/", ", from another machine by the name of this one"},
		"[::]:7770":      {"http://localhost:7770/", ", from another machine by the name of this one"},
	} {
		at, err := net.ResolveTCPAddr("tcp", text)
		require.NoError(t, err)
		where, elsewhere := addressOf(at)
		require.Equal(t, want, [2]string{where, elsewhere})
	}
}

// A wrong address is reported before anything is loaded, and one that others can reach requires keys.
func TestTheAddressOfASetting(t *testing.T) {
	none, err := Listen(settingsOf(t), false, io.Discard)
	require.NoError(t, err)
	require.Nil(t, none)
	none.Close()
	for word, says := range map[string]string{
		"watch=7770":         `watch: found "7770", expected an address`,
		"watch=0.0.0.0:0":    "watch=0.0.0.0:0: other machines can reach it without a key; type serve_keys=FILE",
		"watch=127.0.0.1:-1": "type another address, such as watch=127.0.0.1:7771",
	} {
		_, err := Listen(settingsOf(t, word), false, io.Discard)
		require.ErrorContains(t, err, says)
		require.True(t, badinput.Is(err), word)
	}
	key, line, err := gate.NewKey("me")
	require.NoError(t, err)
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte(line+"\n"), 0o600))
	b, err := Listen(settingsOf(t, "watch=0.0.0.0:0", "serve_keys="+keys), false, io.Discard)
	require.NoError(t, err)
	defer b.Close()
	require.True(t, b.keys.Contains(key))
	require.False(t, b.keys.Contains(""))
	require.False(t, b.keys.Contains(key+"x"))

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := l.Addr().String()
	require.NoError(t, l.Close())
	dry, err := Listen(settingsOf(t, "watch="+free), true, io.Discard)
	require.NoError(t, err)
	require.Nil(t, dry)
	again, err := net.Listen("tcp", free)
	require.NoError(t, err, "a dry run frees the address")
	require.NoError(t, again.Close())
}
