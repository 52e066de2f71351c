package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// phases are moments of a run, as seen by its sandbox.
var phases = map[string]struct {
	words  []string
	signal syscall.Signal
	trains bool // interrupted during training, after all verdicts; else while it waits for a verdict
	seldom bool // tested only with GRPO_FORMS=all: other entries have its phase and signal, or the signal is handled like others
}{
	"evaluates": {[]string{"eval_problems=16"}, syscall.SIGINT, false, false},
	"samples":   {[]string{"eval_every=-1", "prompts_per_step=4", "completions_per_prompt=8"}, syscall.SIGTERM, false, false},
	"trains":    {[]string{"eval_every=-1", "num_iterations=8", "pipeline=off"}, syscall.SIGINT, true, true},
	"hung up":   {[]string{"eval_every=-1", "num_iterations=8", "pipeline=off"}, syscall.SIGHUP, true, false},
	"spent":     {[]string{"eval_every=-1", "num_iterations=8", "pipeline=off"}, syscall.SIGXCPU, true, true},
}

// sandboxRequests are the requests of a run to its sandbox, one of which may be made to wait.
type sandboxRequests struct {
	asked   atomic.Int64
	waiting chan bool // gets a value when a request waits
	goOn    chan bool // closed to let requests go on
	release func()    // closes it
}

// holdRequests makes every request wait for which so is true.
func holdRequests(t *testing.T, o *fakeSandbox, so func() bool) *sandboxRequests {
	q := &sandboxRequests{waiting: make(chan bool, 1), goOn: make(chan bool)}
	q.release = sync.OnceFunc(func() { close(q.goOn) })
	t.Cleanup(q.release) // else the server would wait for its requests at the end
	o.whenAsked(func() {
		q.asked.Add(1)
		if so() {
			select {
			case q.waiting <- true:
			default:
			}
			<-q.goOn
		}
	})
	return q
}

// awaitTraining waits until a run has used some processor time since its last request, or until a request waits.
func (q *sandboxRequests) awaitTraining(t *testing.T, p *process, work time.Duration) {
	t.Helper()
	asked, before := int64(0), time.Duration(0)
	require.True(t, p.waitFor(func() bool {
		if now := q.asked.Load(); now != asked {
			asked, before = now, p.spent(t)
		}
		return asked > 0 && p.spent(t)-before > work || len(q.waiting) > 0
	}), "the run has ended")
}

// stopping waits until a process has printed that it stops.
func (p *process) stopping(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.True(t, p.waitFor(func() bool {
		text, err := os.ReadFile(p.errs)
		return err == nil && strings.Contains(string(text), "once more") || ctx.Err() != nil
	}), "the run ended before it said that another interrupt stops it")
	require.NoError(t, ctx.Err(), "the context ended before the run said that another interrupt stops it")
}

// A run that is asked to stop saves its state, says so, and ends like an uninterrupted one when it is resumed.
func TestStoppedRunsGoOn(t *testing.T) {
	last := []string{"max_steps=2", "save_every=-1"}
	alone := map[string]func() map[string]string{} // by arguments: the files of an uninterrupted run
	for _, phase := range phases {
		alone[fmt.Sprint(phase.words)] = sync.OnceValue(func() map[string]string {
			return runToEnd(t, t.TempDir(), newFakeSandbox(t).words(slices.Concat(phase.words, last)...)...)
		})
	}
	for name, phase := range phases {
		if phase.seldom && !testvariants.Exhaustive {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newFakeSandbox(t)
			words := o.words(slices.Concat(phase.words, last)...)
			folder := t.TempDir()
			q := holdRequests(t, o, func() bool { return !phase.trains || lines(folder) > 0 })
			p := start(t, folder, words...)
			q.awaitTraining(t, p, 100*time.Millisecond)
			require.NoError(t, p.Process.Signal(phase.signal))
			p.stopping(t)
			require.NoError(t, p.Process.Signal(phase.signal)) // a shell also sends SIGHUP, and timeout(1) sends its signal twice
			q.release()
			code, says := p.end(t)
			require.Equal(t, exitInterrupted, code, says)
			require.Contains(t, says, "grpo: stopping; once more to stop without saving")
			require.Contains(t, says, "resumes\n")
			saved, err := filepath.Glob(filepath.Join(folder, "run", "checkpoints", "step_*", "state.json"))
			require.NoError(t, err)
			require.Len(t, saved, 1)
			requireSameEnd(t, alone[fmt.Sprint(phase.words)](), runToEnd(t, folder, words...))
		})
	}
}

// stopAtFirstLine stops a run at the first line that it prints.
type stopAtFirstLine struct {
	bytes.Buffer
	stop context.CancelFunc
}

func (s *stopAtFirstLine) Write(p []byte) (int, error) {
	s.stop()
	return s.Buffer.Write(p)
}

// A run that is stopped after it was opened, but before its first step, has saved nothing and does not claim to.
func TestStoppedBeforeTheFirstStep(t *testing.T) {
	needsSandbox(t)
	dir := filepath.Join(t.TempDir(), "run")
	ctx, stop := context.WithCancel(t.Context())
	var errs bytes.Buffer
	out := &stopAtFirstLine{stop: stop}
	code := run(ctx, []string{"--preset", "tiny_smoke", "threads=1", "max_steps=1", "run_dir=" + dir}, strings.NewReader(""), out, &errs)
	require.Equal(t, exitInterrupted, code, errs.String())
	require.Contains(t, errs.String(), "grpo: stopped before the first step\n")
	require.NotContains(t, out.String()+errs.String(), "the run is in")
	require.NoDirExists(t, dir)
}

// A second interrupt ends a run without waiting for the end of the step.
func TestASecondInterruptEndsAtOnce(t *testing.T) {
	o := newFakeSandbox(t)
	words := o.words("eval_every=-1", "num_iterations=2000", "pipeline=off", "max_steps=1")
	q := holdRequests(t, o, func() bool { return false })
	p := start(t, t.TempDir(), words...)
	q.awaitTraining(t, p, 300*time.Millisecond) // training takes many seconds here
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	p.stopping(t)
	time.Sleep(2 * sameSignal)
	_, alive := readProcess(p.Process.Pid)
	require.True(t, alive, "the first interrupt waits for the step")
	before := p.spent(t)
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	_, says := p.end(t)
	require.Less(t, p.ProcessState.UserTime()+p.ProcessState.SystemTime()-before, time.Second, says)
	require.Equal(t, syscall.SIGINT, p.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

// Verbs that save nothing do not claim to, and print that they were stopped. By default three of them are tested.
func TestStoppedVerbsSaySo(t *testing.T) {
	needsSandbox(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	datums := write(t, filepath.Join(t.TempDir(), "d.jsonl"), `{"tokens":[1,2,3],"ob_len":1,"logprobs":[-1,-1],"advantage":1}`)
	const ofChildren = "bench sandbox --runs 10000000" // the work is done by child processes, so its own processor time is small
	for _, line := range testvariants.EveryNth(4, "eval --samples 4000 threads=1", "bench gemm --shape tiny --runs 1000000", ofChildren,
		"sample --model tiny --prompt x --n 20000 --json",
		"replay --model tiny --rank 1 --steps 1000000 --out adapter --threads 1 --datums "+datums) {
		began := ""
		if strings.HasPrefix(line, "sample") {
			began = "sequences of"
		}
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			p := startCommand(t, t.TempDir(), exec.Command(exe, strings.Fields(line)...))
			work := 300 * time.Millisecond
			if line == ofChildren {
				work /= 3 // three times this until its programs begin
			}
			p.waitFor(func() bool {
				said, err := os.ReadFile(p.errs)
				return err == nil && strings.Contains(string(said), began) && p.spent(t) > work
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

// Messages of child processes that were interrupted too are not repeated as the verb's failure; a run's message about saving is kept.
func TestStoppedVerbsHideNoFailure(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	root := newRoot()
	verb, _, err := root.Find([]string{"doctor"})
	require.NoError(t, err)
	require.EqualError(t, interruptedError(ctx, verb, errors.New("python3: signal: interrupt")),
		"stopped before the end of grpo doctor, without a result")
	require.EqualError(t, interruptedError(t.Context(), verb, errors.New("no python3")), "no python3")
	require.EqualError(t, interruptedError(ctx, root, errors.Join(fmt.Errorf("fetch: %w", context.Canceled), errors.New("disk full"))),
		"stopped before the first step\ndisk full")
	saved := errors.Join(stoppedError("stopped after step 3 and saved"), errors.New("disk full"))
	require.EqualError(t, interruptedError(ctx, root, saved), "stopped after step 3 and saved\ndisk full")
	require.EqualError(t, interruptedError(ctx, root, errors.New("disk full")), "disk full")
}

// A verb that waits for standard input ends when it is interrupted.
func TestInterruptedBeforeItsInput(t *testing.T) {
	for _, words := range [][]string{{"tokenize", "--tokenizer", "tiny"}, {"score", "--model", "tiny"},
		{"sample", "--model", "tiny", "--messages", "-"}} {
		in, out := io.Pipe()
		defer out.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var stderr bytes.Buffer
		code := make(chan int, 1)
		go func() { code <- run(ctx, words, in, io.Discard, &stderr) }()
		_, err := out.Write([]byte("\n")) // it reads
		require.NoError(t, err)
		cancel()
		select {
		case got := <-code:
			require.Equal(t, exitInterrupted, got, stderr.String())
			require.Equal(t, "grpo: stopped before the end of grpo "+words[0]+", without a result\n", stderr.String())
		case <-time.After(time.Minute):
			t.Fatalf("%v waits for more", words)
		}
	}
}
