package conversation

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/sources"
)

// startScript starts a program that opens each conversation, and then does what the rest of its script says.
func startScript(t *testing.T, rest string) (r *Sampler, asked string) {
	t.Helper()
	dir := t.TempDir()
	path, asked := filepath.Join(dir, "env.sh"), filepath.Join(dir, "asked")
	script := "#!/bin/sh\nread a; echo '{}'\nread a; : > '" + asked + "'\n" + rest
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	r, err := Open(t.Context(), &configs.Config{Env: "program:" + path, TurnSeconds: 600}, &sources.Language{}, &judging.Judging{}, nil, nil)
	require.NoError(t, err)
	return r, asked
}

// Stopping a run does not wait for an answer of a program, nor for answers to later questions.
func TestStoppingWhileAProgramAnswers(t *testing.T) {
	r, asked := startScript(t, "sleep 600\n")
	ctx, stop := context.WithCancel(t.Context())
	e, err := r.env.Open(ctx, &data.Problem{ID: "p", Kind: data.Stdin})
	require.NoError(t, err)
	go func() {
		for {
			if _, err := os.Stat(asked); err == nil {
				stop()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, err = e.Turn(ctx, said("x", 0, true))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, e.Close())
	require.NoError(t, r.Close())
	_, err = r.env.Open(t.Context(), &data.Problem{ID: "p", Kind: data.Stdin})
	require.ErrorContains(t, err, "was stopped, as its question was cancelled")
}

// A conversation that times out does not end the program, which serves others, too.
func TestAConversationThatIsLateLeavesTheProgram(t *testing.T) {
	r, _ := startScript(t, "sleep 0.3; echo '{}'\nread a; echo '{}'\n")
	e, err := r.env.Open(t.Context(), &data.Problem{ID: "p", Kind: data.Stdin})
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	_, err = e.Turn(ctx, said("x", 0, true))
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.NoError(t, r.Close())
}

// python= may name a script that leaves processes behind: nobody waits for them.
func TestAPythonThatLeavesOthersBehind(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not on PATH")
	}
	dir := t.TempDir()
	path, wrapper, pid := filepath.Join(dir, "env.py"), filepath.Join(dir, "python"), filepath.Join(dir, "pid")
	require.NoError(t, os.WriteFile(path, []byte("import sys\nfor l in sys.stdin: print('{}', flush=True)\n"), 0o644))
	require.NoError(t, os.WriteFile(wrapper, []byte("#!/bin/sh\nsleep 120 &\necho $! > '"+pid+"'\nexec "+python+" \"$@\"\n"), 0o755))
	begun := time.Now()
	require.NoError(t, checkPython(t.Context(), &configs.Config{Env: "program:" + path, Python: wrapper}, path))
	require.Less(t, time.Since(begun), time.Minute)
	left, err := os.ReadFile(pid)
	require.NoError(t, err)
	number, err := strconv.Atoi(strings.TrimSpace(string(left)))
	require.NoError(t, err)
	other, err := os.FindProcess(number)
	require.NoError(t, err)
	require.NoError(t, other.Kill())
}
