package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// phases are moments of a run, as its sandbox sees them.
var phases = map[string]struct {
	words   []string
	request int           // that comes in this phase
	later   time.Duration // than it
	signal  syscall.Signal
}{
	"evaluates": {[]string{"eval_problems=40"}, 1, 0, syscall.SIGINT},
	"samples":   {[]string{"eval_every=-1", "prompts_per_step=8", "completions_per_prompt=8"}, 1, 0, syscall.SIGTERM},
	"trains":    {[]string{"eval_every=-1", "num_iterations=20", "pipeline=off"}, 3, 100 * time.Millisecond, syscall.SIGINT},
}

func await(t *testing.T, reached <-chan bool) {
	t.Helper()
	select {
	case <-reached:
	case <-time.After(5 * time.Minute):
		require.Fail(t, "the run asks for no verdict")
	}
}

// A run that is asked to stop saves what it has, says so, and goes on as if nothing had been.
func TestStoppedRunsGoOn(t *testing.T) {
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t)
			words := o.words(append(phase.words, "max_steps=2", "save_every=-1")...)
			want := finish(t, t.TempDir(), words...)

			folder := t.TempDir()
			var requests atomic.Int64
			reached := make(chan bool, 1)
			o.whenAsked(func() {
				if requests.Add(1) == int64(phase.request) {
					reached <- true
				}
			})
			p := start(t, folder, words...)
			await(t, reached)
			time.Sleep(phase.later)
			require.NoError(t, p.Process.Signal(phase.signal))
			code, says := p.end(t)
			require.Equal(t, exitInterrupted, code, says)
			require.Contains(t, says, "grpo: stopping; once more to stop without saving")
			require.Contains(t, says, "goes on\n")
			saved, err := filepath.Glob(filepath.Join(folder, "run", "checkpoints", "step_*", "state.json"))
			require.NoError(t, err)
			require.Len(t, saved, 1)
			requireSameEnd(t, want, finish(t, folder, words...))
		})
	}
}

// Who does not want to wait for the end of the step asks twice.
func TestASecondInterruptEndsAtOnce(t *testing.T) {
	o := newOracle(t)
	words := o.words("eval_every=-1", "num_iterations=2000", "pipeline=off", "max_steps=1")
	reached := make(chan bool, 1)
	o.whenAsked(func() {
		select {
		case reached <- true:
		default:
		}
	})
	p := start(t, t.TempDir(), words...)
	await(t, reached)
	time.Sleep(300 * time.Millisecond) // it trains by now, for many seconds
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	for said := false; !said; time.Sleep(time.Millisecond) {
		require.NoError(t, ctx.Err())
		text, err := os.ReadFile(p.errs)
		require.NoError(t, err)
		said = strings.Contains(string(text), "once more")
	}
	_, alive := look(p.Process.Pid)
	require.True(t, alive, "it ends its step first")
	before := p.spent(t)
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	_, says := p.end(t)
	require.Less(t, p.ProcessState.UserTime()+p.ProcessState.SystemTime()-before, time.Second, says)
	require.Equal(t, syscall.SIGINT, p.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

// A verb that saves nothing promises nothing, and says in its own words that it was stopped.
func TestStoppedVerbsSaySo(t *testing.T) {
	needsCells(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	datums := write(t, filepath.Join(t.TempDir(), "d.jsonl"), `{"tokens":[1,2,3],"ob_len":1,"logprobs":[-1,-1],"advantage":1}`)
	for line, began := range map[string]string{
		"eval --samples 4000 threads=1": "", "bench gemm --shape qwen3-0.6b --runs 10000": "", "bench sandbox --runs 10000000": "",
		"sample --model tiny --prompt x --n 20000 --json":                                           "sequences of",
		"replay --model tiny --rank 1 --steps 1000000 --out adapter --threads 1 --datums " + datums: "",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			p := startCommand(t, t.TempDir(), exec.Command(exe, strings.Fields(line)...))
			p.waitFor(func() bool {
				said, err := os.ReadFile(p.errs)
				return err == nil && strings.Contains(string(said), began) && p.spent(t) > 300*time.Millisecond
			})
			require.NoError(t, p.Process.Signal(syscall.SIGINT))
			code, says := p.end(t)
			require.Equal(t, exitInterrupted, code, says)
			require.NotContains(t, says, "saving")
			require.NotContains(t, says, context.Canceled.Error())
			require.Contains(t, says, "\ngrpo: stopping; once more to stop at once\ngrpo: stopped before the end of grpo "+strings.Fields(line)[0])
			left, err := os.ReadDir(p.Dir)
			require.NoError(t, err)
			require.Empty(t, left, line)
		})
	}
}

// What children say that were interrupted, too, is not what a verb says; what a run says of its saving is kept.
func TestStoppedVerbsHideNoFailure(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	root := newRoot()
	verb, _, err := root.Find([]string{"doctor"})
	require.NoError(t, err)
	require.EqualError(t, broken(ctx, verb, errors.New("python3: signal: interrupt")),
		"stopped before the end of grpo doctor, without a result")
	require.EqualError(t, broken(t.Context(), verb, errors.New("no python3")), "no python3")
	require.EqualError(t, broken(ctx, root, errors.Join(fmt.Errorf("fetch: %w", context.Canceled), errors.New("disk full"))),
		"stopped before the first step\ndisk full")
	saved := errors.Join(stopped("stopped after step 3 and saved"), errors.New("disk full"))
	require.EqualError(t, broken(ctx, root, saved), "stopped after step 3 and saved\ndisk full")
	require.EqualError(t, broken(ctx, root, errors.New("disk full")), "disk full")
}
