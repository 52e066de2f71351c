package screen

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

func stepOf(n int) (m grpo.Metrics, t grpo.Timing) {
	m.Step, m.MeanReward, m.MeanCorrect, m.FormatRate = n, 0.51234, 0.5, 0.98
	m.GroupsTotal, m.GroupsSkipped, m.Updated, m.RewardErrors = 8, 2, true, 3
	t.Total, t.RewardFile = 12.34, 0.25
	return m, t
}

// At any width, a line is no longer than the width, unless a single part is; and no part is broken.
func TestAStepIsNotTorn(t *testing.T) {
	m, timing := stepOf(9)
	s := New(nil, nil, false, false)
	s.Expect(8, 60, 10)
	s.pace.steps = []float64{0.4, 0.5, 90}
	s.rewards = []float64{0, 0.1, 0.5}
	parts := append(m.Parts(timing)[1:], "step  9/60 · 26 s left")
	longest := 0
	for _, p := range parts {
		longest = max(longest, utf8.RuneCountInString(p)+4)
	}
	for columns := longest; columns < 200; columns++ {
		text := s.summary(m, timing, columns)
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), columns, text)
		}
		for _, p := range parts {
			require.Contains(t, text, p, "at %d", columns)
		}
	}
	at80 := strings.Split(s.summary(m, timing, 80), "\n")
	require.Equal(t, "step  9/60 · 26 s left  reward 0.512  correct 0.500  format 0.98  groups 6/8", at80[0])
	require.Equal(t, "    3 not scored  max|Δlogp| 0  reward file 0.25 s a call  12.3 s  ▁▂█", at80[1])
	require.Len(t, at80, 2)
}

func TestWordsAreCutAtTheirEnds(t *testing.T) {
	text := "  ! pass@1 0.123 [0.100, 0.146] of 123456789 problems"
	for columns := 20; columns < 70; columns++ {
		got := wrap(text, columns)
		require.Equal(t, strings.Fields(text), strings.Fields(got))
		for line := range strings.Lines(got) {
			require.LessOrEqual(t, len(strings.TrimRight(line, "\n")), columns)
		}
	}
	for columns := range 70 {
		got := cutAtWord(text, columns)
		require.LessOrEqual(t, len(got), columns)
		require.True(t, strings.HasPrefix(text+" ", got+" ") || got == "", got)
	}
	require.Equal(t, "memory: 0.3\n    20.1 MB,\n    3 s of it", wrap("memory: 0.3 20.1 MB, 3 s of it", 14), "a unit stays with its number")
	require.Equal(t, "…-00003.safetensors", shortened("1/3 model-00001-of-00003.safetensors", 19))
}

// The remaining time counts steps, and evaluations separately, as often as they are due.
func TestTimeLeft(t *testing.T) {
	p := pace{limit: 60, every: 10, steps: []float64{1, 2, 3, 100}, evals: []float64{7}}
	for step, want := range map[int]float64{9: 51*2.5 + 6*7, 10: 50*2.5 + 6*7, 11: 49*2.5 + 5*7, 59: 2.5 + 7} {
		left, known := p.left(step)
		require.True(t, known)
		require.Equal(t, want, left, "after step %d", step)
	}
	p.limit = 55
	left, _ := p.left(50)
	require.Equal(t, 5*2.5+2*7, left, "one is due now, and one at the end")
	p.limit = -1
	_, known := p.left(9)
	require.False(t, known)
	for seconds, want := range map[float64]string{25.4: "25 s", 89: "89 s", 600: "10 min", 6000: "1 h 40 min", 190000: "2 d 4 h",
		1e11: "1157407 d 9 h"} {
		require.Equal(t, want, formatDuration(seconds))
	}
}

// Output to a pipe has whole lines, without control characters.
func TestAPipeHasLines(t *testing.T) {
	var out, errs bytes.Buffer
	s := New(&out, &errs, false, false)
	s.Expect(0, 2, 1)
	s.Begun("a new run")
	s.Phase("sample", 3)
	s.Advance(3, 10)
	m, timing := stepOf(1)
	s.StepDone(m, timing, []grpo.Advice{{Finding: strings.Repeat("a long story ", 20), Try: "this"}})
	s.Evaluated(grpo.Evaluation{Change: &stats.Change{Problems: 24}}, nil)
	require.NotContains(t, out.String()+errs.String(), "\r")
	require.NotContains(t, out.String()+errs.String(), "\x1b")
	require.Equal(t, 2, strings.Count(errs.String(), "\n"), errs.String())
	require.Equal(t, 3, strings.Count(out.String(), "\n"), out.String())
}

// The JSON lines have the change of an evaluation, and its uncertainty.
func TestJSONHasTheChange(t *testing.T) {
	var out, errs bytes.Buffer
	s := New(&out, &errs, false, true)
	s.Evaluated(grpo.Evaluation{Step: 9, Change: &stats.Change{Since: 2, Problems: 24, Mean: 0.1, CI: [2]float64{0.02, 0.18}}}, nil)
	require.Contains(t, out.String(), `"change":{"since":2,"problems":24,"mean":0.1,"ci":[0.02,0.18]}`)
	out.Reset()
	s.Evaluated(grpo.Evaluation{}, nil)
	require.NotContains(t, out.String(), "change")
}

// Without a progress bar, a download is reported every few seconds, and once when it is done.
func TestDownloadsAreToldOf(t *testing.T) {
	var errs bytes.Buffer
	f := fetching{errs: &errs}
	now := time.Unix(0, 0)
	f.now = func() time.Time { return now }
	for done := int64(0); done <= 2000; done += 100 {
		f.show(hub.Progress{File: "o/m/a.safetensors", Number: 2, Files: 3, Done: done * 1e6, Total: 2e9})
		now = now.Add(time.Second)
	}
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	require.Len(t, lines, 4)
	require.Equal(t, "2/3 o/m/a.safetensors: 500.0 MB of 2.0 GB, 100.0 MB/s, 15 s left", lines[0])
	require.Equal(t, "2/3 o/m/a.safetensors: 2.0 GB, 100.0 MB/s", lines[3])
}

// A report that does not exist, as on a full disk, is not named.
func TestAReportThatIsThereIsNamed(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	PrintRunDir(&out, dir)
	require.Empty(t, out.String())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "report.html"), nil, 0o600))
	PrintRunDir(&out, dir)
	require.Contains(t, out.String(), "look at "+filepath.Join(dir, "report.html"))
}
