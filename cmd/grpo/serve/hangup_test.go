package serve

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
	"github.com/seed-7879b91d/grpo/reward"
)

// hangUp sends SIGHUP to this process, as a closed terminal does, or an operator who has changed the file of keys.
func hangUp(t *testing.T) {
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
}

func TestHangups(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	ada, line, err := gate.NewKey("ada")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	f := &flags{keys: file}
	f.gate.Keys, err = gate.ReadKeys(file)
	require.NoError(t, err)
	lines := make(chan string, 1)
	deaf := f.hearHangups(t.Context(), slog.New(slog.NewTextHandler(lineChannel(lines), nil)))
	defer deaf()
	require.True(t, RereadsKeys.Load())

	bob, line, err := gate.NewKey("bob")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	require.False(t, f.gate.Keys.Contains(bob))
	hangUp(t)
	require.Contains(t, <-lines, "the keys were read again")
	require.True(t, f.gate.Keys.Contains(bob))
	require.False(t, f.gate.Keys.Contains(ada))

	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	hangUp(t)
	require.Contains(t, <-lines, "the keys could not be read again, and stay as they were")
	require.True(t, f.gate.Keys.Contains(bob))
}

// Without a file of keys, SIGHUP stops the server like any verb.
func TestAHangupWithoutKeys(t *testing.T) {
	defer (&flags{}).hearHangups(t.Context(), slog.New(slog.DiscardHandler))()
	require.False(t, RereadsKeys.Load())
}

// During training, too, SIGHUP rereads the keys, and disturbs neither server nor training.
func TestAHangupBesideATraining(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	ada, line, err := gate.NewKey("ada")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	cfg, err := configs.Load(configs.Source{Preset: "tiny", Overrides: []string{"run_dir=" + filepath.Join(t.TempDir(), "run"),
		"serve=127.0.0.1:0", "serve_keys=" + file, "prompts_per_step=2", "completions_per_prompt=2", "max_tokens=8", "max_sequences=4"}})
	require.NoError(t, err)
	b, _, err := machine(nil)
	require.NoError(t, err)
	beside, err := Listen(cfg, false, io.Discard)
	require.NoError(t, err)
	defer beside.Close()
	tr, err := beside.Open(t.Context(), cfg, b, silentWatcher{}, grpo.WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	require.NoError(t, beside.During(t.Context(), func() error {
		bob, line, err := gate.NewKey("bob")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
		hangUp(t)
		require.Eventually(t, func() bool { return beside.flags.gate.Keys.Contains(bob) }, time.Minute, time.Millisecond)
		require.False(t, beside.flags.gate.Keys.Contains(ada))
		return t.Context().Err()
	}))
	require.NoError(t, tr.Close())
	require.NoError(t, b.Close())
}

// A path of other packages, too, is answered with 405 and its methods if the method is wrong.
func TestMethodsOfAllCalls(t *testing.T) {
	url, said, _ := serve(t, "--store", t.TempDir(), "--max-context", "64", "--max-sequences", "1")
	require.Eventually(t, func() bool { // the address is printed before the server is ready
		return strings.Contains(said.String(), "type export TINKER_BASE_URL="+url+" TINKER_API_KEY=tml-local\n")
	}, time.Minute, 5*time.Millisecond)
	for call, methods := range map[string]string{
		"PATCH /v1/models/x": "GET, HEAD, DELETE", "GET /v1/load_lora_adapter": "POST", "GET /api/v1/optim_step": "POST",
		"DELETE /v1/models": "GET, HEAD", "POST /v1/models": "GET, HEAD", "POST /healthz": "GET, HEAD", "DELETE /metrics": "GET, HEAD",
		"POST /": "GET, HEAD", "PUT /v1/chat/completions": "POST",
	} {
		method, path, _ := strings.Cut(call, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, call)
		require.Equal(t, methods, res.Header.Get("Allow"), call)
	}
}
