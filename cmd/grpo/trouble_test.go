package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// oracle answers as a sandbox server does, but from the programs' looks and at once: trouble needs runs,
// and no Python.
type oracle struct {
	*httptest.Server
	asked func() // by a request, before the answer
}

func newOracle(t *testing.T) *oracle {
	o := &oracle{asked: func() {}}
	o.Server = httptest.NewServer(http.HandlerFunc(o.answer))
	t.Cleanup(o.Close)
	return o
}

func (o *oracle) answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Files      map[string][]byte `json:"files"`
		FetchFiles []string          `json:"fetch_files"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.FetchFiles) != 1 {
		http.Error(w, "not understood", http.StatusBadRequest)
		return
	}
	stdout := "42\n" // to the program that asks whether anybody is there
	if program := req.Files["request"]; !bytes.Contains(program, []byte("6 * 7")) {
		o.asked()
		stdout = []string{"YES\n", "NO\n", "1\n"}[sha256.Sum256(append(program, req.Files["input"]...))[0]%3]
	}
	name := req.FetchFiles[0]
	frame := fmt.Appendf(nil, "%s\n{\"sizes\":[%d,0,0]}\n%s", strings.TrimPrefix(name, "frame-"), len(stdout), stdout)
	json.NewEncoder(w).Encode(map[string]any{"status": "Success", "files": map[string][]byte{name: frame},
		"run_result": map[string]any{"status": "Finished", "return_code": 0}})
}

// words are a run of four steps that this server judges.
func (o *oracle) words(others ...string) []string {
	words := set(small, "max_steps=4", "max_tokens=16", "eval_problems=2", "eval_every=2", "save_every=2", "keep_last=0",
		"sandbox=fusion", "sandbox_url="+o.URL, "deterministic=false")
	return set(words, others...)
}

// finish runs to the end in this process, in a folder of its own or a given one.
func (o *oracle) finish(t *testing.T, folder string, others ...string) (files map[string]string, says string) {
	t.Helper()
	_, says, code := shell(t, "", o.words(append(others, "run_dir="+filepath.Join(folder, "run"))...)...)
	require.Zero(t, code, says)
	return remains(t, folder), says
}

// requireSameEnd compares what two runs did, and where it led, whatever else they saved on the way.
func requireSameEnd(t *testing.T, want, got map[string]string) {
	t.Helper()
	last := ""
	for name := range want {
		if strings.HasSuffix(name, "/state.json") {
			last = max(last, filepath.Dir(name))
		}
	}
	end := func(files map[string]string) map[string]string {
		kept := map[string]string{}
		for name, text := range files {
			if name == "metrics.jsonl" || name == "rollouts.jsonl" || strings.HasPrefix(name, last+"/") {
				kept[name] = text
			}
		}
		return kept
	}
	require.Contains(t, end(want), last+"/adapter/adapter_model.safetensors")
	requireSameRun(t, end(want), end(got))
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// What is wrong with a command line is said in one line, and nothing is written.
func TestMistakesAreToldBeforeAnythingIsDone(t *testing.T) {
	o := newOracle(t)
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "file"), "")
	other := filepath.Join(dir, "other")
	require.NoError(t, tiny.Extract(other))
	rewrite(t, filepath.Join(other, "config.json"), func(text []byte) []byte {
		return bytes.Replace(text, []byte("Qwen3ForCausalLM"), []byte("LlamaForCausalLM"), 1)
	})
	task := `{"id":"a","prompt":"Print 1.","tests":[{"input":"1","output":"1"}]}` + "\n"
	malformed := write(t, filepath.Join(dir, "malformed.jsonl"), task+`{"id":"b","prompt":`+"\n")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, c := range []struct {
		words string
		says  []string
	}{
		{"lerning_rate=1", []string{"lerning_rate", "did you mean learning_rate?"}},
		{"clip_low=2 loss=ppo", []string{"clip_low", "found 2", "expected at most 1"}},
		{"eval_k=4 eval_samples=2", []string{"eval_k", "eval_samples"}},
		{"model=" + dir + "/none", []string{"none", "no such directory"}},
		{"model=" + other, []string{"config.json", "LlamaForCausalLM", "supported: Qwen3ForCausalLM"}},
		{"eval_every=-1 data=" + file, []string{file, "expected"}},
		{"eval_every=-1 data=" + dir + "/none.jsonl", []string{"none.jsonl", "no such file"}},
		{"eval_every=-1 data=" + malformed, []string{"malformed.jsonl:2", "grpo data inspect"}},
		{"sandbox=local sandbox_url= python=nonexistent", []string{`"nonexistent": not found`, "python=PATH"}},
		{"run_dir=" + file, []string{"run_dir", "not a directory", "choose another"}},
		{"run_dir=" + file + "/run", []string{"run_dir", "not a directory", "choose another"}},
		{"run_dir=/proc/run", []string{"run_dir", "choose another"}},
		{"resume=" + dir + "/none", []string{"resume=" + dir + "/none", "no checkpoint to go on from; expected resume=DIR of a run"}},
		{"resume=" + dir + "/empty", []string{"no checkpoint to go on from"}},
		{"run_dir=" + dir + "/run init_from=" + dir + "/empty", []string{"init_from=" + dir, "expected init_from=DIR of a run"}},
		{"run_dir=" + dir + "/run resume=" + dir + "/empty", []string{"leave run_dir out"}},
		{"run_dir=" + dir + "/run deterministic=true", []string{"deterministic", "sandbox=local"}},
	} {
		out, errs, code := shell(t, "", o.words(strings.Fields(c.words)...)...)
		requireBadInput(t, out, errs, code, c.says...)
	}
	t.Setenv("PATH", "")
	out, errs, code := shell(t, "", o.words("sandbox=local", "sandbox_url=", "run_dir="+dir+"/run")...)
	requireBadInput(t, out, errs, code, `"python3": not found`, "install Python")
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// A run that is not to be gone on with as asked is left as it is.
func TestRunsThatDoNotFitAreLeftAlone(t *testing.T) {
	o := newOracle(t)
	folder := t.TempDir()
	run := filepath.Join(folder, "run")
	want, _ := o.finish(t, folder)
	narrow := filepath.Join(folder, "narrow")
	require.NoError(t, tiny.Extract(narrow))
	rewrite(t, filepath.Join(narrow, "config.json"), func(text []byte) []byte {
		var c map[string]any
		require.NoError(t, json.Unmarshal(text, &c))
		c["num_hidden_layers"] = c["num_hidden_layers"].(float64) - 1
		text, err := json.Marshal(c)
		require.NoError(t, err)
		return text
	})
	checkpoint := filepath.Join(run, "checkpoints", "step_000004")
	lock := func(string) func() {
		f, err := os.Open(filepath.Join(run, "logs.log"))
		require.NoError(t, err)
		require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
		return func() { f.Close() }
	}
	// spoil makes something of a file of the run, for as long as the trouble lasts.
	spoil := func(name string, edit func([]byte) []byte) func(string) func() {
		return func(string) func() {
			path := filepath.Join(run, name)
			was, err := os.ReadFile(path)
			require.NoError(t, err)
			rewrite(t, path, edit)
			return func() { require.NoError(t, os.WriteFile(path, was, 0o644)) }
		}
	}
	half := func(text []byte) []byte { return text[:len(text)/2] }
	for name, c := range map[string]struct {
		spoil func(string) func()
		words []string
		says  []string
	}{
		"another model":      {nil, []string{"model=" + narrow}, []string{checkpoint, "layer", "config.json says"}},
		"another rank":       {nil, []string{"lora_rank=8"}, []string{checkpoint, "rank", "config.json says", "another run_dir"}},
		"another seed":       {nil, []string{"seed=7"}, []string{checkpoint, "seed is 0, this run's is 7; type seed=0"}},
		"trained as a whole": {nil, []string{"train=full"}, []string{checkpoint, "what is trained", "config.json says"}},
		"never resumed":      {nil, []string{"resume=never"}, []string{"2 checkpoints", "resume=auto to go on"}},
		"a checkpoint that is not there": {nil, []string{"run_dir=", "resume=" + filepath.Join(run, "checkpoints", "step_000009")},
			[]string{"step_000009", "no checkpoint to go on from"}},
		"settings damaged":   {spoil("config.json", half), nil, []string{"config.json", "remove it to go on without"}},
		"manifest damaged":   {spoil("manifest.json", half), nil, []string{"manifest.json", "remove it to go on without"}},
		"metrics shortened":  {spoil("metrics.jsonl", half), nil, []string{"metrics.jsonl", "somebody shortened it", "init_from=" + run}},
		"trained in already": {lock, nil, []string{"run_dir", "another process trains in " + run}},
	} {
		t.Run(name, func(t *testing.T) {
			mend := func() {}
			if c.spoil != nil {
				mend = c.spoil(run)
			}
			out, errs, code := shell(t, "", set(o.words("run_dir="+run), c.words...)...)
			requireBadInput(t, out, errs, code, c.says...)
			mend()
		})
	}
	got, _ := o.finish(t, folder)
	requireSameRun(t, want, got)
	whole, _ := o.finish(t, t.TempDir(), "max_steps=6")
	got, says := o.finish(t, folder, "max_steps=6")
	require.Contains(t, says, "max_steps: 4 → 6")
	requireSameEnd(t, whole, got)
}

// Every file of a checkpoint can be cut short, have a bit that is not as it was, or be gone: that is
// told, and the last checkpoint that is whole is gone on from.
func TestDamagedCheckpoints(t *testing.T) {
	o := newOracle(t)
	folder := t.TempDir()
	type damage struct{ file, how string }
	var all []damage
	for _, how := range []string{"short", "flipped", "gone"} {
		for _, file := range []string{"ahead.json", "adapter/adapter_config.json", "adapter/adapter_model.safetensors", "optimizer.safetensors", "state.json"} {
			all = append(all, damage{file, how})
		}
	}
	all = append(all, damage{"state.json", "emptied"})
	with := []string{"pipeline=full", "max_steps=3", "save_every=1"}
	want, _ := o.finish(t, folder, with...)
	checkpoint := func(step int) string {
		return filepath.Join(folder, "run", "checkpoints", fmt.Sprintf("step_%06d", step))
	}
	require.NoError(t, os.RemoveAll(checkpoint(3)))
	for i := range all[1:] {
		require.NoError(t, os.CopyFS(checkpoint(i+3), os.DirFS(checkpoint(2))))
	}
	for i, d := range all {
		path := filepath.Join(checkpoint(i+2), d.file)
		rewrite(t, path, func(text []byte) []byte {
			switch d.how {
			case "emptied":
				return nil
			case "short":
				return text[:len(text)-1]
			}
			at := len(text) / 2
			if d.file == "state.json" {
				at = bytes.Index(text, []byte(`"step": `)) + len(`"step": `) // which leaves it valid JSON
			}
			text[at] ^= 1
			return text
		})
		if d.how == "gone" {
			require.NoError(t, os.Remove(path))
		}
	}
	got, says := o.finish(t, folder, with...)
	for i, d := range all {
		at := strings.Index(says, checkpoint(i+2))
		require.GreaterOrEqual(t, at, 0, "%v\n%s", d, says)
		line, _, _ := strings.Cut(says[at:], "\n")
		require.Contains(t, line, d.file)
		require.Contains(t, line, "an older one is used")
	}
	require.Equal(t, len(all), strings.Count(says, "an older one is used"), says)
	aside, err := filepath.Glob(filepath.Join(folder, "run", "checkpoints", "set_aside", "*", "step_*"))
	require.NoError(t, err)
	require.Len(t, aside, len(all))
	requireSameEnd(t, want, got)

	// Nothing is left to go on from.
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "run", "checkpoints", "set_aside")))
	before := remains(t, folder)
	for step := 1; step <= 3; step++ {
		require.NoError(t, os.Truncate(filepath.Join(checkpoint(step), "optimizer.safetensors"), 10))
	}
	out, errs, code := shell(t, "", o.words(append(with, "run_dir="+filepath.Join(folder, "run"))...)...)
	requireBadInput(t, out, errs, code, checkpoint(1), checkpoint(2), checkpoint(3), "no checkpoint to go on from; choose another run_dir")
	require.Equal(t, before["metrics.jsonl"], remains(t, folder)["metrics.jsonl"])
}

// What processes left that were killed while they wrote is gone when the run goes on, and only that.
func TestLeftoversAreSwept(t *testing.T) {
	o := newOracle(t)
	folder := filepath.Join(t.TempDir(), "[a-b]*")
	run := filepath.Join(folder, "run")
	own := write(t, filepath.Join(t.TempDir(), "notes"), "mine")
	for _, words := range [][]string{{"max_steps=2"}, {"max_steps=4"}} { // anew, and resumed
		require.NoError(t, os.MkdirAll(filepath.Join(run, "checkpoints", "step_000009.partial", "adapter"), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(run, "checkpoints", "step_000001.old.partial"), 0o755))
		write(t, filepath.Join(run, ".config.json.1234.tmp"), "{")
		require.NoError(t, os.CopyFS(filepath.Join(run, "checkpoints", "step_000002.mine"), os.DirFS(filepath.Dir(own))))
		got, _ := o.finish(t, folder, words...)
		require.Contains(t, got, "checkpoints/step_000002.mine/notes", "no name of a checkpoint")
		for name := range got {
			require.NotContains(t, name, "partial")
			require.NotContains(t, name, ".tmp")
		}
		require.NoError(t, os.RemoveAll(filepath.Join(run, "checkpoints", "step_000002.mine")))
	}
	want, _ := o.finish(t, t.TempDir())
	requireSameEnd(t, want, remains(t, folder))

	// The last thing that a run does is to forget old checkpoints.
	got, _ := o.finish(t, folder, "keep_last=1", "keep_best=0")
	names := slices.Collect(maps.Keys(got))
	require.NotContains(t, names, "checkpoints/step_000002")
	require.Contains(t, names, "checkpoints/step_000004")
}

// A run that has no room ends in one line and goes on where there is some.
func TestFullDisks(t *testing.T) {
	if exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", t.TempDir()).Run() != nil {
		t.Skip("a small file system takes the right to mount one")
	}
	o := newOracle(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	words := o.words("run_dir=run", "pipeline=full")
	whole := t.TempDir()
	code, says := startCommand(t, whole, exec.Command(exe, words...)).end(t)
	require.Zero(t, code, says)
	want := remains(t, whole)
	for name, c := range map[string]struct {
		size string
		code int
		says string
	}{
		"no room for a checkpoint": {"size=4500k", exitFailed, "checkpoint run/checkpoints/step_000004: "},
		"no room for metrics":      {"size=12k", exitFailed, "metrics.jsonl"},
		"no room for completions":  {"size=16k", exitFailed, "rollouts.jsonl"},
		"no room at all":           {"size=4k", exitBadInput, "run_dir: "},
		"not to be written to":     {"ro", exitBadInput, "run_dir: "},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(folder, "run"), 0o755))
			script := `mount -t tmpfs -o ` + c.size + ` none run || exit 99
				"$@" 2>first; echo $? >code
				mount -o remount,rw,size=100m run && "$@" 2>second || exit 98
				mkdir kept && cp -a run kept`
			code, says := startCommand(t, folder, exec.Command("unshare", slices.Concat([]string{"-m", "sh", "-c", script, "sh", exe}, words)...)).end(t)
			second, _ := os.ReadFile(filepath.Join(folder, "second"))
			require.Zero(t, code, "%s%s", says, second)
			text, err := os.ReadFile(filepath.Join(folder, "first"))
			require.NoError(t, err)
			lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(l string) bool { return l == "" || strings.HasPrefix(l, "  !") })
			require.Len(t, lines, 1, string(text))
			require.Contains(t, lines[0], c.says)
			if c.code == exitFailed {
				require.Contains(t, lines[0], "no space left on device; what was saved before stands: mend that, then type run_dir=run to go on")
			}
			text, err = os.ReadFile(filepath.Join(folder, "code"))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintln(c.code), string(text))
			requireSameRun(t, want, remains(t, filepath.Join(folder, "kept")))
		})
	}
}

// A log that cannot be written is told of at the end, and costs nothing.
func TestTheLogHasNoRoom(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	o := newOracle(t)
	want, _ := o.finish(t, t.TempDir())
	folder := t.TempDir()
	run := filepath.Join(folder, "run")
	require.NoError(t, os.Mkdir(run, 0o755))
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(run, "logs.log")))
	out, errs, code := shell(t, "", o.words("run_dir="+run)...)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errs, "grpo: write "+run+"/logs.log: no space left on device")
	requireSameEnd(t, want, remains(t, folder))
}

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
	case <-time.After(time.Minute):
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
			o.asked = func() {
				if requests.Add(1) == int64(phase.request) {
					reached <- true
				}
			}
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
	o.asked = func() {
		select {
		case reached <- true:
		default:
		}
	}
	p := start(t, t.TempDir(), words...)
	await(t, reached)
	time.Sleep(300 * time.Millisecond) // it trains by now, for many seconds
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
	began := time.Now()
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	_, says := p.end(t)
	require.Less(t, time.Since(began), time.Second, says)
	require.Equal(t, syscall.SIGINT, p.ProcessState.Sys().(syscall.WaitStatus).Signal())
}
