package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/doctest"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// The commands of the pages are run as typed, in the order of a page, each page in a folder with what its reader has by then. This test
// covers some quick pages; `make docs-run` covers all, in a fresh clone of what is committed, except commands that a page excludes with a
// reason.
func TestThePagesAsTyped(t *testing.T) {
	if race.Enabled {
		t.Skip("processes, which the detector does not see into")
	}
	needsSandbox(t)
	clone := os.Getenv("GRPO_DOCS") != ""
	ran, not := 0, map[string]int{}
	kept := t.TempDir()
	for _, page := range pages(t) {
		name := filepath.Base(page)
		if only := os.Getenv("GRPO_DOCS"); !clone && !slices.Contains(quickPages, name) || strings.HasSuffix(only, ".md") && only != name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := docSession{page: page, dir: t.TempDir(), home: t.TempDir(), kept: kept}
			if clone {
				require.NoError(t, exec.Command("git", "clone", "--quiet", "--shared", "../..", r.dir).Run())
			}
			r.read(t, not)
			ran += r.ran
		})
	}
	t.Logf("%d commands were run; not run: %v", ran, not)
}

// quickPages are pages whose commands are quick.
var quickPages = []string{"tasks.md", "tools.md"}

// shellPrelude is the shell code before a command of a page: the program under test, and run sizes that the page leaves open.
const shellPrelude = `set -euo pipefail
few=(prompts_per_step=1 completions_per_prompt=2 max_tokens=32 eval_problems=4)
grpo() {
	local words=("$@") sizes=() typed=" $* "
	case "${1:-}" in
	sft | dpo) sizes=(max_steps=10) ;;
	sweep) [[ $typed != *=* ]] || sizes=(max_steps=8 save_every=4 eval_every=4 "${few[@]}") ;;
	"" | *=* | --*) sizes=(max_steps=30 save_every=10 keep_last=0 eval_every=10 "${few[@]}") ;;
	esac
	[[ $typed != *" data="* || $typed == *" test_data="* ]] || typed+="eval_every= " # there is nothing to evaluate on
	for size in ${sizes[@]+"${sizes[@]}"}; do [[ $typed == *" ${size%%=*}="* ]] || words+=("$size"); done
	env GRPO_AS_COMMAND=1 "$GRPO_TYPED" ${words[@]+"${words[@]}"}
}
bin/grpo() { grpo "$@"; }
go() { if [ "$1 $2" = "run ./cmd/grpo" ]; then shift 2; grpo "$@"; else command go "$@"; fi }
`

// docSession is the session of a reader of a page.
type docSession struct {
	page, dir, home, kept string
	serving               *exec.Cmd // a process that does not end by itself
	served                chan error
	ran                   int
}

func (r *docSession) read(t *testing.T, not map[string]int) {
	text, err := os.ReadFile(r.page)
	require.NoError(t, err)
	page, err := doctest.Parse(string(text))
	require.NoError(t, err)
	for _, thing := range page.Prerequisites {
		r.have(t, thing)
	}
	defer r.stopServing(t)
	for _, c := range page.Commands {
		if why := doctest.SkipReason(c, presetIsTiny); why != "" {
			not[why]++
			continue
		}
		began := time.Now()
		out, err := r.typed(t, c.Text)
		if r.ran++; err != nil {
			t.Errorf("%s:%d: %s\n%v\n%s", filepath.Base(r.page), c.Line, c.Text, err, out)
		} else {
			t.Logf("%s:%d: %s (%.1f s)", filepath.Base(r.page), c.Line, c.Text, time.Since(began).Seconds())
		}
	}
}

// presetIsTiny reports whether a preset's model is embedded in the program.
func presetIsTiny(preset string) bool {
	c, err := grpo.Resolve(configs.Source{Preset: preset})
	return err == nil && c.Model == "tiny"
}

// have creates what the reader of a page has: a run, with the seed at the end of its name, or a file of internal/doctest/testdata.
func (r *docSession) have(t *testing.T, thing string) {
	to := filepath.Join(r.dir, thing)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	name, isRun := strings.CutPrefix(thing, "runs/")
	if !isRun {
		text, err := os.ReadFile(filepath.Join("../../internal/doctest/testdata", thing))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, text, 0o644))
		return
	}
	kept := filepath.Join(r.kept, name)
	if _, err := os.Stat(kept); err != nil {
		maker := docSession{dir: r.kept, home: r.home}
		seed := max(0, slices.Index([]string{"seed-0", "seed-1", "seed-2", "first", "second", "third"}, name)) % 3
		out, err := maker.typed(t, fmt.Sprintf("grpo --quiet run_dir=%s seed=%d", name, seed))
		require.NoError(t, err, out)
	}
	require.NoError(t, os.CopyFS(to, os.DirFS(kept)))
}

// endless are verbs that run until they are stopped; endingFlags are flags with which they end.
var (
	endless      = regexp.MustCompile(`^(bin/)?grpo (serve|watch|samples)\b`)
	needsAddress = regexp.MustCompile(`\b(serve|watch)=`)       // needs the address of the server beforehand
	endingFlags  = regexp.MustCompile(`--new-key|--tui|--help`) // --tui draws once if there is no terminal
)

// typed runs one command and returns its output. A server runs until the next one is started.
func (r *docSession) typed(t *testing.T, text string) (said string, err error) {
	exe, err := os.Executable()
	require.NoError(t, err)
	if needsAddress.MatchString(text) {
		r.stopServing(t)
	}
	background, inBackground := strings.CutSuffix(strings.TrimSpace(text), "&")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", "-c", shellPrelude+background)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "SANDBOX_URL=", "HOME="+r.home, "GRPO_TYPED="+exe, "XDG_CACHE_HOME="+filepath.Join(r.home, ".cache"))
	places, err := goPlaces()
	require.NoError(t, err)
	cmd.Env = append(cmd.Env, places...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if inBackground || endless.MatchString(text) && !endingFlags.MatchString(text) {
		return r.serve(t, cmd)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// goPlaces are the settings of go that depend on the home directory.
var goPlaces = sync.OnceValues(func() (places []string, err error) {
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH"}
	values, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	for i, value := range strings.Split(strings.TrimSpace(string(values)), "\n") {
		places = append(places, names[i]+"="+value)
	}
	return places, err
})

// serve starts a server, and waits for the address that it prints.
func (r *docSession) serve(t *testing.T, cmd *exec.Cmd) (said string, err error) {
	r.stopServing(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "said"))
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	for {
		text, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		if bytes.Contains(text, []byte("http")) {
			r.serving = cmd
			r.served = gone
			return string(text), nil
		}
		select {
		case err := <-gone:
			return string(text), fmt.Errorf("it ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stopServing stops the last server, as ^C does.
func (r *docSession) stopServing(t *testing.T) {
	if r.serving == nil {
		return
	}
	require.NoError(t, syscall.Kill(-r.serving.Process.Pid, syscall.SIGINT))
	<-r.served
	r.serving = nil
}
