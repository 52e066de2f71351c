package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
)

// A run ends with the same bits however often its processes are killed, and with any number of threads. GRPO_KILLS=20 kills more often.
func TestRunsEndAlike(t *testing.T) {
	race.SkipCovered(t)
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked for in /proc")
	}
	needsSandbox(t)
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("GRPO_KILLS"), "0"))
	require.NoError(t, err, "GRPO_KILLS")
	pipelines := []string{"full"}
	if kills > 0 {
		pipelines = []string{"score", "full"}
	}
	for _, pipeline := range pipelines {
		t.Run(pipeline, func(t *testing.T) {
			t.Parallel()
			words := withSettings(small, "pipeline="+pipeline, "threads=2", "sandbox_slots=2")
			if kills > 0 {
				words = withSettings(words, "max_steps=12")
			}
			want, pace := timeRun(t, words)
			t.Run("killed at some moment", func(t *testing.T) { killedAtSomeMoment(t, max(kills, 1), words, pace, want) })
			t.Run("killed while a checkpoint is written", func(t *testing.T) { killedWhileSaving(t, max(kills, 1), words, want) })
			if pipeline == "score" {
				t.Run("scored at the end", func(t *testing.T) {
					requireSameRun(t, want, runToEnd(t, t.TempDir(), withSettings(words, "pipeline=off", "threads=1")...))
				})
			}
		})
	}
}

// The run of the preset GRPO_PRESET, with the settings GRPO_WORDS, is killed GRPO_KILLS times and resumed; it ends with the same bits as
// an uninterrupted one.
func TestAPresetEndsAlike(t *testing.T) {
	preset := os.Getenv("GRPO_PRESET")
	if preset == "" {
		t.Skip("minutes of training; make kills PRESET=tiny_heal runs it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked for in /proc")
	}
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("GRPO_KILLS"), "10"))
	require.NoError(t, err, "GRPO_KILLS")
	words := append([]string{"--quiet", "threads=2", "--preset=" + preset}, strings.Fields(os.Getenv("GRPO_WORDS"))...)
	want, took := timeRun(t, words)
	killedAgainAndAgain(t, kills, words, took, want)
}

// runTiming is the time that a run takes to open and between lines of metrics, and the number of lines.
type runTiming struct {
	opening, line time.Duration
	lines         int
}

// timeRun is an uninterrupted run to the end.
func timeRun(t *testing.T, words []string) (remain map[string]string, took runTiming) {
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
	return runFiles(t, folder), took
}

// lines is the number of steps and evaluations in a run's metrics.
func lines(folder string) int {
	text, _ := os.ReadFile(filepath.Join(folder, "run", "metrics.jsonl"))
	return bytes.Count(text, []byte("\n"))
}

// killedAtSomeMoment kills runs at moments spread over their course, some also while they open, and resumes them with another number of
// threads.
func killedAtSomeMoment(t *testing.T, n int, words []string, took runTiming, want map[string]string) {
	seed := rand.Uint64()
	lots := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	opening := n / 5
	for i := range n {
		folder := t.TempDir()
		p := start(t, folder, withSettings(words, "threads=1")...)
		if i < opening {
			time.Sleep(time.Duration((float64(i) + lots.Float64()) / float64(opening) * float64(took.opening)))
		} else {
			after := (float64(i-opening) + lots.Float64()) / float64(n-opening) * float64(took.lines)
			p.waitFor(func() bool { return lines(folder) >= int(after) })
			time.Sleep(time.Duration((after - float64(int(after))) * float64(took.line)))
		}
		family := p.kill(t)
		t.Logf("killed with %d processes; it had written %s", family, progress(folder))
		requireSameRun(t, want, runToEnd(t, folder, withSettings(words, "threads=4")...))
	}
}

// killedAgainAndAgain kills one run at random moments, and resumes it each time.
func killedAgainAndAgain(t *testing.T, n int, words []string, took runTiming, want map[string]string) {
	seed := rand.Uint64()
	lots := rand.New(rand.NewPCG(seed, 2))
	t.Logf("seed %d", seed)
	moments := make([]float64, n) // measured in lines of metrics
	for i := range moments {
		moments[i] = lots.Float64() * float64(took.lines)
	}
	slices.Sort(moments)
	folder := t.TempDir()
	for i, moment := range moments {
		p := start(t, folder, words...)
		on := p.waitFor(func() bool { return lines(folder) >= int(moment) })
		time.Sleep(time.Duration((moment - float64(int(moment))) * float64(took.line)))
		family := p.kill(t)
		t.Logf("kill %d of %d, after %.2f of %d lines, with %d processes; it had written %s",
			i+1, n, moment, took.lines, family, progress(folder))
		require.True(t, on, "the run ended before it was killed")
	}
	requireSameRun(t, want, runToEnd(t, folder, words...))
}

// progress describes the progress of the run in a folder.
func progress(folder string) string {
	saved, _ := filepath.Glob(filepath.Join(folder, "run", "checkpoints", "step_??????"))
	return fmt.Sprintf("%d lines of metrics, %d checkpoints, %d parts of one", lines(folder), len(saved), len(unfinished(folder)))
}

// unfinished are partial checkpoints in a folder.
func unfinished(folder string) []string {
	parts, _ := filepath.Glob(filepath.Join(folder, "run", "checkpoints", "*.partial"))
	return parts
}

// killedWhileSaving kills runs repeatedly, each time shortly after one began to write a checkpoint after its first, or to remove an old
// one.
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
		relatives := p.kill(t)
		family = max(family, relatives)
		if len(unfinished(folder)) > 0 {
			hits++
			require.Positive(t, relatives, "the killed run had no sandbox processes") // sandbox processes are still running while it saves
		}
		if !again { // the run is about to end, or has ended
			requireSameRun(t, want, runToEnd(t, folder, words...))
			folder, runs = t.TempDir(), runs+1
		}
	}
	t.Logf("seed %d: %d kills of %d runs with up to %d processes; %d of them left a part of a checkpoint", seed, n, runs, family, hits)
	require.Positive(t, family)
	requireSameRun(t, want, runToEnd(t, folder, words...))
}
