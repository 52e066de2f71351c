package report

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// After an update in place, a page has what it would have if drawn again: every curve of every chart, to the digit.
func TestTheLatestStepIsThatOfThePage(t *testing.T) {
	const dir = "testdata/small"
	e := TailReader{Dir: dir, Name: "small"}
	fresh, err := e.Read()
	require.NoError(t, err)
	require.NotEmpty(t, fresh)
	l := fresh[len(fresh)-1]
	r, err := read(dir)
	require.NoError(t, err)
	require.Equal(t, r.page().Title, l.Title)
	require.Equal(t, r.progress(), l.Steps)
	n, curves, known := len(r.steps), 0, 0
	require.Equal(t, r.steps[n-1].Step, l.Step)
	for _, section := range r.sections() {
		for _, p := range section.plots {
			if section.Axis.End == "" {
				continue
			}
			for i, s := range p.series {
				if s.name == "" { // without data
					continue
				}
				v := l.Charts[p.title][indexOf(t, l.Charts[p.title], s.name)]
				require.Equal(t, s.format(s.values[n-1]), v.Text, "%s %d", p.title, i)
				same(t, s.values[n-1], v.At[0])
				if s.low != nil {
					same(t, s.low[n-1], v.At[1])
					same(t, s.high[n-1], v.At[2])
				}
				if curves++; v.At[0] != nil {
					known++
				}
			}
		}
	}
	require.Greater(t, curves, 25)
	require.Greater(t, known, 20)
}

func indexOf(t *testing.T, values []Value, name string) int {
	t.Helper()
	for i, v := range values {
		if v.Name == name {
			return i
		}
	}
	require.Fail(t, "no curve "+name)
	return -1
}

// same compares drawn values with sent ones: null is NaN.
func same(t *testing.T, want float64, got *float64) {
	t.Helper()
	if want != want {
		require.Nil(t, got)
		return
	}
	require.NotNil(t, got)
	require.Equal(t, want, *got)
}

// A poll returns new steps, and steps whose times came later, but none that is half written or was undone.
func TestLatestSteps(t *testing.T) {
	dir := t.TempDir()
	add := func(name, text string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	e := TailReader{Dir: dir, Name: "run"}
	steps := func() (told []int) {
		fresh, err := e.Read()
		require.NoError(t, err)
		for _, l := range fresh {
			told = append(told, l.Step)
		}
		return told
	}
	require.Empty(t, steps())
	add("config.json", `{"max_steps":9}`)
	for range 6 {
		add("metrics.jsonl", "no step\n")
	}
	for _, line := range []string{"1", "2", "3", "4", "5", "6"} {
		add("metrics.jsonl", `{"step":`+line+`,"mean_reward":0.5}`+"\n"+`{"kind":"evaluation","step":`+line+"}\n")
	}
	require.Equal(t, []int{3, 4, 5, 6}, steps())
	require.Empty(t, steps())
	add("metrics.jsonl", `{"step":7,"mean_rew`)
	require.Empty(t, steps())
	add("metrics.jsonl", `ard":0.25}`+"\n")
	require.Equal(t, []int{7}, steps())
	require.Equal(t, "0.250", e.known[3].Charts["Mean reward"][0].Text)
	require.Equal(t, "run: 7 of 9 steps", e.known[3].Title)
	add("train_log.jsonl", `{"step":7,"total_s":2,"sample_s":1.5}`+"\n")
	require.Equal(t, []int{7}, steps(), "a step is sent again when its time is known")
	require.Equal(t, 1.5, *e.known[3].Charts["Seconds per step"][0].At[0])
	add("metrics.jsonl", `{"step":6,"mean_reward":1}`+"\n")
	require.Equal(t, []int{3, 6}, steps(), "the run went back, and those before 7 are the last")
	require.Equal(t, 1.0, *e.known[3].Charts["Mean reward"][0].At[0])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"max_steps":12}`), 0o644))
	require.Equal(t, []int{3, 4, 5, 6}, steps(), "with another max_steps all steps are sent again")
	require.Equal(t, "6 of 12", e.known[3].Steps)
}

// An update costs the same after ten thousand steps as after four hundred.
func TestALatestStepCostsTheSameHoweverLongTheRun(t *testing.T) {
	files := longRun()
	reading := func(steps int) (bytes uint64) {
		dir := t.TempDir()
		for name, text := range files {
			lines := strings.SplitAfter(text, "\n")
			switch name {
			case "metrics.jsonl", "train_log.jsonl":
				text = strings.Join(lines[max(0, len(lines)-1-steps):], "")
			case "manifest.json":
				text = "{}"
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		e := TailReader{Dir: dir, Name: "run"}
		fresh, err := e.Read()
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Len(t, fresh, mostLatest)
		return after.TotalAlloc - before.TotalAlloc
	}
	short := reading(400)
	require.Less(t, reading(10_000), short*5/4)
	require.Less(t, short, uint64(400_000))
}
