package rebuild

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// fakeGo is a go command that records its calls, and builds a program that prints how it was started.
const fakeGo = `#!/bin/sh
echo "$@" >> "$FAKE_GO/log"
case "$1" in
env) cat "$FAKE_GO/usual" 2>/dev/null || echo "-g -O2";;
list) printf 'p/one\np/two\n';;
mod) cat "$FAKE_GO/json"; [ -s "$FAKE_GO/json" ];;
build)
	echo "$CGO_CFLAGS" > "$FAKE_GO/flags"
	if [ -e "$FAKE_GO/wait" ]; then exec sleep 60; fi
	if [ -e "$FAKE_GO/fail" ]; then cat "$FAKE_GO/fail" >&2; exit 1; fi
	echo p/one >&2
	sleep 0.1
	echo p/two >&2
	while [ "$1" != -o ]; do shift; done
	printf '#!/bin/sh\necho "$@" with $GRPO_NO_REBUILD\n' > "$2"
	chmod +x "$2";;
esac
`

// bench is a checkout, a go command and a cache of the test.
type bench struct {
	t               *testing.T
	fake, dir, home string

	mu       sync.Mutex
	said     []string
	progress []int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, fake: t.TempDir(), dir: filepath.Join(t.TempDir(), "a checkout"), home: t.TempDir()}
	b.write(b.fake, "go", fakeGo)
	t.Setenv("PATH", b.fake+":/usr/bin:/bin")
	t.Setenv("FAKE_GO", b.fake)
	t.Setenv("XDG_CACHE_HOME", b.home)
	b.write(b.dir, "go.mod", "module "+module+"\n\ngo 1.26\n")
	b.write(b.dir, "cmd/grpo/main.go", "package main\n")
	b.write(b.dir, "cmd/grpo/page.html", "<p>\n")
	b.write(b.dir, "internal/rebuild/rebuild.go", "package rebuild\n")
	b.write(b.dir, "runs/0/metrics.jsonl", "{}\n")
	return b
}

func (b *bench) write(dir, name, text string) {
	b.t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.t, os.WriteFile(path, []byte(text), 0o755))
}

// builder is a process whose binary has this version and these build settings.
func (b *bench) builder(version string, settings ...debug.BuildSetting) *builder {
	info := &debug.BuildInfo{Main: debug.Module{Path: module, Version: version}, Settings: settings}
	return &builder{
		Options: Options{
			Say: func(line string) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.said = append(b.said, line)
			},
			Progress: func(done, total int) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.progress = append(b.progress, done, total)
			},
		},
		info: info, file: filepath.Join(b.dir, "internal/rebuild/rebuild.go"),
	}
}

// program is the path of the program as which a process continues.
func (b *bench) program() string {
	b.t.Helper()
	program, err := b.builder("(devel)").program(b.t.Context())
	require.NoError(b.t, err)
	return program
}

// builds are the calls of go build.
func (b *bench) builds() (calls []string) {
	log, _ := os.ReadFile(filepath.Join(b.fake, "log"))
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, "build ") {
			calls = append(calls, strings.TrimSpace(line))
		}
	}
	return calls
}

func TestItIsBuiltOnce(t *testing.T) {
	b := newBench(t)
	program := b.program()
	require.Equal(t, program, b.program())
	require.True(t, strings.HasPrefix(program, b.home))
	require.Equal(t, []string{"build -v -o " + program + ".half -tags=gpu -buildvcs=false ./cmd/grpo"}, b.builds())
	require.Equal(t, []string{"found an NVIDIA driver: building grpo with its GPU backend, " +
		"once, which takes a minute or two"}, b.said)
	require.Equal(t, []int{0, 3, 1, 3, 2, 3, 3, 3}, b.progress)
	flags, err := os.ReadFile(filepath.Join(b.fake, "flags"))
	require.NoError(t, err)
	require.Equal(t, "-g -O2 '-I"+b.dir+"/kernels/cuda/include'\n", string(flags), "what was there stays: without -O2 the kernels are slow")
	out, err := exec.Command(program, "a", "b").Output()
	require.NoError(t, err)
	require.Equal(t, "a b with\n", string(out))
}

// If the header's folder is in CGO_CFLAGS already, the flags are unchanged, so that the build cache is used.
func TestFlagsWithTheHeaderStayAsTheyAre(t *testing.T) {
	b := newBench(t)
	usual := "-O2 '-I" + b.dir + "/kernels/cuda/include' -g\n"
	b.write(b.fake, "usual", usual)
	b.program()
	flags, err := os.ReadFile(filepath.Join(b.fake, "flags"))
	require.NoError(t, err)
	require.Equal(t, usual, string(flags))
}

func TestSeveralAtOnceBuildOnce(t *testing.T) {
	b := newBench(t)
	var all sync.WaitGroup
	programs := make([]string, 6)
	for i := range programs {
		all.Go(func() {
			var err error
			programs[i], err = b.builder("(devel)").program(t.Context())
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, b.builds(), 1)
	for _, p := range programs {
		require.Equal(t, programs[0], p)
	}
}

// Other sources give another program, and old programs are removed when they have not been used for a while.
func TestTheSourceIsTheKey(t *testing.T) {
	b := newBench(t)
	first := b.program()
	for _, same := range []string{"runs/0/metrics.jsonl", "README.md", "cmd/grpo/main_test.go", "cmd/grpo/testdata/x", ".git/HEAD"} {
		b.write(b.dir, same, "another\n")
		require.Equal(t, first, b.program(), same)
	}
	old := time.Now().Add(-2 * grace)
	require.NoError(t, os.Chtimes(first, old, old))
	seen := map[string]bool{first: true}
	for _, other := range []string{"go.mod", "cmd/grpo/main.go", "cmd/grpo/page.html", "internal/rebuild/deep/er/x.h"} {
		b.write(b.dir, other, "module "+module+"\n\n// another\n")
		program := b.program()
		require.False(t, seen[program], other)
		seen[program] = true
	}
	require.NoFileExists(t, first, "nobody has started it for long")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(first)), "*", "*"))
	require.NoError(t, err)
	require.Len(t, left, 4, "somebody may be about to start these")
	t.Setenv("CC", "clang")
	require.False(t, seen[b.program()])
}

// The rebuilt program differs only in the backend: build flags are kept.
func TestTheFlagsOfThisProgram(t *testing.T) {
	b := newBench(t)
	_, err := b.builder("(devel)", debug.BuildSetting{Key: "-trimpath", Value: "true"}).program(t.Context())
	require.NoError(t, err)
	require.Contains(t, b.builds()[0], " -tags=gpu -trimpath -buildvcs=false ./cmd/grpo")
}

// refused is the error of a failed rebuild: one line that says what to type.
func (b *bench) refused(of *builder) string {
	b.t.Helper()
	_, err := of.program(b.t.Context())
	require.Error(b.t, err)
	require.True(b.t, badinput.Is(err))
	require.NotContains(b.t, err.Error(), "\n")
	const do = ": type make build in the source of grpo and run bin/grpo, or stay on the processor with device=cpu or GRPO_NO_REBUILD=1"
	require.True(b.t, strings.HasSuffix(err.Error(), do), err.Error())
	return strings.TrimPrefix(strings.TrimSuffix(err.Error(), do), "there is an NVIDIA driver, this program has no GPU backend, and ")
}

func TestABuildThatFails(t *testing.T) {
	b := newBench(t)
	b.write(b.fake, "fail", "# runtime/cgo\ncgo: C compiler \"gcc\" not found\n\n3\n4\n5\n6\n")
	require.Equal(t, "building it in "+b.dir+` failed (exit status 1): # runtime/cgo; cgo: C compiler "gcc" not found; 3; 4; and 2 lines more`,
		b.refused(b.builder("(devel)")))
	left, err := filepath.Glob(filepath.Join(b.home, "grpo/gpu/*/*"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, os.Remove(filepath.Join(b.fake, "fail")))
	b.program() // works again
}

func TestThereIsNothingToBuild(t *testing.T) {
	b := newBench(t)
	elsewhere := b.builder("(devel)")
	elsewhere.file = "github.com/seed-7879b91d/grpo/internal/rebuild/source.go"
	t.Chdir(t.TempDir())
	require.Equal(t, "its source is neither here nor where it was built", b.refused(elsewhere))
	t.Chdir(filepath.Join(b.dir, "cmd"))
	_, err := elsewhere.program(t.Context())
	require.NoError(t, err, "the source is found in the working directory")

	at := b.builder("v0.0.0-2026+dirty", debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"})
	require.Equal(t, "the source in "+b.dir+" is at no commit, while this program is of 0123456789ab", b.refused(at))

	other := b.builder("(devel)")
	other.info.Main.Path = "example.com/mine"
	require.Equal(t, "it is part of another one", b.refused(other))

	t.Setenv("PATH", t.TempDir())
	require.Equal(t, "there is no go command to build it with", b.refused(b.builder("(devel)")))
}

// A published version is found in the module cache.
func TestAPublishedVersion(t *testing.T) {
	b := newBench(t)
	b.write(b.fake, "json", `{"Dir": "`+b.dir+`"}`)
	program, err := b.builder("v1.2.3").program(t.Context())
	require.NoError(t, err)
	b.write(b.dir, "cmd/grpo/main.go", "changed, which such a source is not")
	again, err := b.builder("v1.2.3").program(t.Context())
	require.NoError(t, err)
	require.Equal(t, program, again)
	log, err := os.ReadFile(filepath.Join(b.fake, "log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "mod download -json "+module+"@v1.2.3\n")

	b.write(b.fake, "json", `{"Error": "no such host"}`)
	require.Equal(t, "the source of v1.2.4 cannot be fetched: no such host", b.refused(b.builder("v1.2.4")))
	b.write(b.fake, "json", "")
	require.Equal(t, "the source of v1.2.4 cannot be fetched: exit status 1", b.refused(b.builder("v1.2.4")))
}

// Interrupting a build ends it, and waiting for it.
func TestInterrupted(t *testing.T) {
	b := newBench(t)
	b.write(b.fake, "wait", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if _, err := b.builder("(devel)").program(ctx); err != context.Canceled {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return len(b.builds()) > 0 }, time.Minute, 5*time.Millisecond)
	cancel()
	all.Wait()
	require.Len(t, b.builds(), 1)
}
