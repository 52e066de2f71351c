package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asCommand makes the test binary the command, for tests that need a process to kill.
const asCommand = "GRPO_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is a trainer of its own.
type process struct {
	*exec.Cmd
	errs string // the file with its standard error
}

// start starts a run in the directory "run" of a folder.
func start(t *testing.T, folder string, words ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return startCommand(t, folder, exec.Command(exe, append(words, "run_dir=run")...))
}

// startCommand starts a command line that leads to the test binary.
func startCommand(t *testing.T, folder string, cmd *exec.Cmd) *process {
	t.Helper()
	errs, err := os.CreateTemp(t.TempDir(), "stderr")
	require.NoError(t, err)
	defer errs.Close()
	p := &process{Cmd: cmd, errs: errs.Name()}
	p.Dir, p.Stderr = folder, errs
	p.Env = append(os.Environ(), asCommand+"=1", "SANDBOX_URL=")
	require.NoError(t, p.Start())
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	return p
}

// end waits for the end and gives the exit code and what was said.
func (p *process) end(t *testing.T) (code int, says string) {
	t.Helper()
	err := p.Wait()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	text, err := os.ReadFile(p.errs)
	require.NoError(t, err)
	return p.ProcessState.ExitCode(), string(text)
}

// kill ends the process between two of its instructions, and sees that what it started ends, too. It
// gives the number of the processes that there were.
func (p *process) kill(t *testing.T) int {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP)) // what stands still has no new children
	family := descendants(t, p.Process.Pid)
	require.NoError(t, p.Process.Kill())
	p.Wait()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := slices.DeleteFunc(slices.Clone(family), func(r relative) bool { return !r.alive() })
		if len(left) == 0 {
			return len(family)
		}
		require.True(t, time.Now().Before(deadline), "alive after their trainer was killed: %v", left)
	}
}

// relative is a process, which its number alone does not name for long.
type relative struct {
	pid    int
	parent int
	born   string
}

// look reads what /proc says of a process.
func look(pid int) (r relative, alive bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return r, false
	}
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on
	parent, err := strconv.Atoi(words[1])
	return relative{pid, parent, words[19]}, err == nil && words[0] != "Z"
}

func (r relative) alive() bool {
	now, alive := look(r.pid)
	return alive && now.born == r.born
}

// descendants are the processes that a process has started, and those that these have, and so on.
func descendants(t *testing.T, pid int) (family []relative) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	children := map[int][]relative{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if r, alive := look(pid); alive {
				children[r.parent] = append(children[r.parent], r)
			}
		}
	}
	family = slices.Clone(children[pid])
	for i := 0; i < len(family); i++ {
		family = append(family, children[family[i].pid]...)
	}
	return family
}

// clocked is what a line of rollouts says of the time.
var clocked = regexp.MustCompile(`,"(cpu_ms":[0-9.e+-]+|cached":true)`)

// remains is what a run left in a folder: all its files, and of those that no clock has a part in the
// content.
func remains(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	dir := filepath.Join(folder, "run")
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		files[name] = ""
		whole := strings.HasPrefix(name, "checkpoints/step_") || name == "checkpoints.jsonl" || slices.Contains([]string{"metrics.jsonl", "rollouts.jsonl"}, name)
		if d.IsDir() || !whole {
			return nil
		}
		text, err := os.ReadFile(path)
		if filepath.Base(name) == "state.json" {
			text = timeless(t, text)
		}
		files[name] = string(clocked.ReplaceAll(text, nil))
		return err
	}))
	return files
}

// timeless is the state of a checkpoint without what hangs on a clock.
func timeless(t *testing.T, text []byte) []byte {
	t.Helper()
	var s map[string]any
	require.NoError(t, json.Unmarshal(text, &s))
	require.Contains(t, s, "logs")
	require.Contains(t, s, "seal")
	delete(s, "logs")
	delete(s, "seal")
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return text
}

// requireSameRun shows where two runs part.
func requireSameRun(t *testing.T, want, got map[string]string) {
	t.Helper()
	names := func(files map[string]string) (all []string) {
		for name := range files {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	require.Equal(t, names(want), names(got))
	for name, text := range want {
		other, at := got[name], 0
		for at < min(len(text), len(other)) && text[at] == other[at] {
			at++
		}
		show := func(s string) string { return s[max(0, min(at-80, len(s))):min(at+80, len(s))] }
		require.True(t, text == other, "%s differs at byte %d:\n  %q\n  %q", name, at, show(text), show(other))
	}
}

// small is a run of a second that evaluates, saves and forgets while it trains.
var small = []string{"--preset", "tiny_smoke", "--quiet", "prompts_per_step=2", "completions_per_prompt=4", "max_tokens=32", "max_tests=2",
	"eval_problems=4", "eval_every=3", "max_steps=6", "save_every=1", "keep_last=3", "warmup_steps=0"}

// finish runs to the end.
func finish(t *testing.T, folder string, words ...string) map[string]string {
	t.Helper()
	code, says := start(t, folder, words...).end(t)
	require.Zero(t, code, says)
	return remains(t, folder)
}

// A run ends with the same bits whatever becomes of the processes that do its work, and however many
// threads they have. GRPO_KILLS=20 kills it more than a few times.
func TestRunsEndAlike(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked for in /proc")
	}
	needsCells(t)
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("GRPO_KILLS"), "0"))
	require.NoError(t, err, "GRPO_KILLS")
	for _, pipeline := range []string{"score", "full"} {
		t.Run(pipeline, func(t *testing.T) {
			t.Parallel()
			words := slices.Concat(small, []string{"pipeline=" + pipeline, "threads=2"})
			if kills > 0 {
				words = set(words, "max_steps=12")
			}
			want, pace := timed(t, words)
			if kills > 0 || pipeline == "score" {
				t.Run("killed at some moment", func(t *testing.T) { killedAtSomeMoment(t, max(kills, 1), words, pace, want) })
			}
			if kills > 0 || pipeline == "full" {
				t.Run("killed while a checkpoint is written", func(t *testing.T) { killedWhileSaving(t, max(kills, 2), words, want) })
			}
			if pipeline == "score" {
				t.Run("scored at the end", func(t *testing.T) {
					requireSameRun(t, want, finish(t, t.TempDir(), set(words, "pipeline=off", "threads=1")...))
				})
			}
		})
	}
}

// set gives words with other values for some keys.
func set(words []string, others ...string) []string {
	key := func(word string) string { before, _, _ := strings.Cut(word, "="); return before }
	kept := slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return key(o) == key(w) })
	})
	return append(kept, others...)
}

// pace is how long a run takes to open everything and from one line of metrics to the next, and how many
// of them it writes.
type pace struct {
	opening, line time.Duration
	lines         int
}

// timed runs to the end without trouble.
func timed(t *testing.T, words []string) (remain map[string]string, took pace) {
	t.Helper()
	folder := t.TempDir()
	began := time.Now()
	p := start(t, folder, words...)
	p.waitFor(func() bool { return lines(folder) > 0 })
	took.opening = time.Since(began)
	code, says := p.end(t)
	require.Zero(t, code, says)
	took.lines = lines(folder)
	took.line = (time.Since(began) - took.opening) / time.Duration(took.lines)
	t.Logf("the first of %d lines after %.2f s, one every %.3f s", took.lines, took.opening.Seconds(), took.line.Seconds())
	return remains(t, folder), took
}

// lines is how many steps and evaluations the run in a folder has written down.
func lines(folder string) int {
	text, _ := os.ReadFile(filepath.Join(folder, "run", "metrics.jsonl"))
	return bytes.Count(text, []byte("\n"))
}

// killedAtSomeMoment kills runs at moments spread over their course, the first of some as they open, and
// has them ended on other threads.
func killedAtSomeMoment(t *testing.T, n int, words []string, took pace, want map[string]string) {
	seed := rand.Uint64()
	lots := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	opening := n / 5
	for i := range n {
		folder := t.TempDir()
		p := start(t, folder, set(words, "threads=1")...)
		if i < opening {
			time.Sleep(time.Duration((float64(i) + lots.Float64()) / float64(opening) * float64(took.opening)))
		} else {
			after := (float64(i-opening) + lots.Float64()) / float64(n-opening) * float64(took.lines)
			p.waitFor(func() bool { return lines(folder) >= int(after) })
			time.Sleep(time.Duration((after - float64(int(after))) * float64(took.line)))
		}
		family := p.kill(t)
		t.Logf("killed with %d processes; it had written %s", family, soFar(folder))
		requireSameRun(t, want, finish(t, folder, set(words, "threads=4")...))
	}
}

// soFar says how far the run in a folder came.
func soFar(folder string) string {
	saved, _ := filepath.Glob(filepath.Join(folder, "run", "checkpoints", "step_??????"))
	return fmt.Sprintf("%d lines of metrics, %d checkpoints, %d parts of one", lines(folder), len(saved), len(unfinished(folder)))
}

// unfinished are the parts of checkpoints in a folder.
func unfinished(folder string) []string {
	parts, _ := filepath.Glob(filepath.Join(folder, "run", "checkpoints", "*.partial"))
	return parts
}

// killedWhileSaving kills runs again and again, each time a little after one began to write another
// checkpoint than its first, or to remove an old one.
func killedWhileSaving(t *testing.T, n int, words []string, want map[string]string) {
	seed := rand.Uint64()
	lots := rand.New(rand.NewPCG(seed, 1))
	folder, runs, hits, family := t.TempDir(), 1, 0, 0
	for range n {
		p := start(t, folder, words...)
		var first []string
		again := p.waitFor(func() bool {
			now := unfinished(folder)
			if first == nil {
				first = now
			}
			return len(now) > 0 && !slices.Equal(first, now)
		})
		time.Sleep(time.Duration(lots.Float64() * float64(10*time.Millisecond)))
		family = max(family, p.kill(t))
		if len(unfinished(folder)) > 0 {
			hits++
		}
		if !again { // it is about to end, or has
			requireSameRun(t, want, finish(t, folder, words...))
			folder, runs = t.TempDir(), runs+1
		}
	}
	t.Logf("seed %d: %d kills of %d runs with up to %d processes; %d of them left a part of a checkpoint", seed, n, runs, family, hits)
	require.Positive(t, family)
	requireSameRun(t, want, finish(t, folder, words...))
}

// waitFor waits until something is so; false says that the process ended before.
func (p *process) waitFor(so func() bool) bool {
	for !so() {
		if _, alive := look(p.Process.Pid); !alive {
			return false
		}
		time.Sleep(300 * time.Microsecond)
	}
	return true
}
