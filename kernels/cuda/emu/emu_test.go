//go:build gpu

package emu_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/cuda/emu"
)

var update = flag.Bool("update", false, "write the table of docs/emulator.md")

const (
	probes = "../src/probe"
	page   = "../../../docs/emulator.md"
)

// built is the library and the probe program, built once.
var built = sync.OnceValues(func() (paths [2]string, err error) {
	if paths[0], err = emu.Library(); err != nil {
		return paths, err
	}
	dir, err := os.MkdirTemp("", "grpo-probe-")
	if err != nil {
		return paths, err
	}
	paths[1], err = buildProbe(dir, "-O1")
	return paths, err
})

func buildProbe(dir string, flags ...string) (string, error) {
	path := filepath.Join(dir, "probe")
	files, err := filepath.Glob("probe/*.c")
	if err != nil {
		return "", err
	}
	args := slices.Concat([]string{"-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-o", path}, flags,
		files, []string{"-ldl", "-lm"})
	out, err := exec.Command("gcc", args...).CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if paths, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(paths[1]))
	}
	os.Exit(code)
}

// answer is the result of a run of the probe: standard output, standard error, and the report file.
type answer struct {
	out, stderr string
	reports     []report
	code        int
}

type report struct{ Kind, Message string }

func needsCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc here")
	}
}

// probe runs the program on a PTX file, with settings such as GRPO_EMU_MEMORY=128M.
func probe(t *testing.T, ptx string, args []string, settings ...string) answer {
	t.Helper()
	needsCompiler(t)
	paths, err := built()
	require.NoError(t, err)
	return runProbe(t, paths, ptx, args, settings...)
}

func runProbe(t *testing.T, paths [2]string, ptx string, args []string, settings ...string) (a answer) {
	t.Helper()
	reports := filepath.Join(t.TempDir(), "reports")
	cmd := exec.Command(paths[1], append([]string{paths[0], ptx}, args...)...)
	cmd.Env = append(append(os.Environ(), "GRPO_EMU_REPORT="+reports), settings...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	a.out, a.stderr, a.code = string(out), stderr.String(), cmd.ProcessState.ExitCode()
	text, err := os.ReadFile(reports)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(text)) {
		var r report
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		a.reports = append(a.reports, r)
	}
	return a
}

// The probe compares with the host's own computation and prints differences; otherwise it prints a checksum of all bytes.
func TestKernelsComputeWhatTheHostDoes(t *testing.T) {
	for file, names := range map[string]string{
		"kernels":  "saxpy reduce scan collatz gemm",
		"together": "histogram largest votes memories memories arrivals tiles small_product",
	} {
		a := probe(t, probes+"/"+file+".ptx", []string{file})
		require.Regexp(t, "^"+strings.ReplaceAll(names, " ", ` \w{16}\n`)+` \w{16}\ndone\n$`, a.out)
		require.Empty(t, a.stderr)
		for _, threads := range []string{"1", "2", "7"} {
			again := probe(t, probes+"/"+file+".ptx", []string{file}, "GRPO_EMU_THREADS="+threads)
			require.Equal(t, a, again, "%s threads", threads)
		}
	}
}

func TestInstructionsOneByOne(t *testing.T) {
	a := probe(t, probes+"/zoo.ptx", []string{"zoo"})
	require.Regexp(t, `^1\d\d instructions\nzoo \w{16}\ndone\n$`, a.out)
	require.Empty(t, a.stderr)
}

// The comparison above can fail: the probe notices a wrong instruction.
func TestProbeSeesAWrongInstruction(t *testing.T) {
	for _, test := range []struct{ file, from, to, says string }{
		{"zoo", "mul.hi.s32", "mul.hi.u32", "mul.hi.s32"},
		{"zoo", "setp.geu.f32", "setp.ge.f32", "setp.geu.f32"},
		{"zoo", "shf.r.clamp", "shf.r.wrap", "shf.r.clamp"},
		{"kernels", "fma.rn.f32", "fma.rn.f32 %f1, %f1, %f1, %f1; fma.rn.f32", "saxpy: "},
		{"together", "redux.sync.min.s32", "redux.sync.min.u32", "votes: "},
		{"together", "x4.trans", "x4", "tiles: "},
		{"together", "red.global.max.s32", "red.global.max.u32", "largest: "},
		{"together", "cvt.s32.s8", "cvt.u32.u8", "memories: "},
	} {
		text := read(t, probes+"/"+test.file+".ptx")
		require.True(t, strings.Contains(text, test.from), test.from)
		a := probe(t, write(t, strings.ReplaceAll(text, test.from, test.to)), []string{test.file})
		require.Contains(t, a.out, test.says)
		require.Contains(t, a.out, "want")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "changed.ptx")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// Compiling the probe kernels gives the committed PTX.
func TestProbesAreWhatTheCompilerMakes(t *testing.T) {
	if _, err := exec.LookPath("clang++-19"); err != nil {
		t.Skip("no clang++-19 here")
	}
	files, err := filepath.Glob(probes + "/*.cu")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		out := filepath.Join(t.TempDir(), "made.ptx")
		said, err := exec.Command("../../../.ci/ptx", file, out).CombinedOutput()
		require.NoError(t, err, string(said))
		committed := read(t, strings.TrimSuffix(file, ".cu")+".ptx")
		require.True(t, read(t, out) == committed, "%s is compiled to something else than what is committed: make ptx-probe", file)
	}
}

var spaces = regexp.MustCompile(`\s+`)

// The address and undefined behaviour sanitizers find nothing in the library and the probe.
func TestSanitizersAreSilent(t *testing.T) {
	needsCompiler(t)
	if testing.Short() {
		t.Skip("builds the library again")
	}
	dir := t.TempDir()
	library := filepath.Join(dir, emu.Name)
	sanitize := []string{"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O0"}
	require.NoError(t, emu.Build(library, slices.Concat(emu.Flags, sanitize)))
	program, err := buildProbe(dir, sanitize...)
	require.NoError(t, err)
	for _, args := range [][]string{{"kernels.ptx", "kernels"}, {"together.ptx", "together"}, {"zoo.ptx", "zoo"},
		{"bugs.ptx", "right", "stream_without_event"}, {"bugs.ptx", "wrong", "missing_bound"},
		{"bugs.ptx", "wrong", "use_after_release"}, {"kernels.ptx", "driver"}} {
		a := runProbe(t, [2]string{library, program}, probes+"/"+args[0], args[1:], "ASAN_OPTIONS=detect_leaks=0")
		require.NotContains(t, a.stderr, "runtime error")
		require.NotContains(t, a.stderr, "AddressSanitizer")
		require.Contains(t, []int{0, 3}, a.code, "%s: %s", args, spaces.ReplaceAllString(a.stderr, " "))
	}
}

// The speed of one core at a matrix product by ldmatrix, mma and cp.async.
func BenchmarkProduct(b *testing.B) {
	paths, err := built()
	require.NoError(b, err)
	cmd := exec.Command(paths[1], paths[0], probes+"/kernels.ptx", "speed")
	cmd.Env = append(os.Environ(), "GRPO_EMU_THREADS=1")
	for b.Loop() {
		out, err := cmd.Output()
		require.NoError(b, err)
		var seconds, instructions, flops float64
		_, err = fmt.Sscanf(string(out), "%f s, %f million warp instructions/s, %f GFLOP/s", &seconds, &instructions, &flops)
		require.NoError(b, err)
		b.ReportMetric(instructions, "Mins/s")
		b.ReportMetric(flops, "GFLOP/s")
		cmd = exec.Command(paths[1], cmd.Args[1:]...)
	}
}
