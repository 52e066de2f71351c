package rows

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// recordingSink is a sink that records its calls.
type recordingSink struct{ lines []string }

func (t *recordingSink) Start(s Start) error {
	t.add("start after %d %s", s.After, s.Time.Format("15:04:05"))
	for _, c := range s.Changed {
		t.lines[len(t.lines)-1] += " " + c.Name + "=" + c.Text()
	}
	return nil
}

func (t *recordingSink) Row(r Row) error {
	t.add("%d %s", r.Step, r.Time.Format("15:04:05.0"))
	for _, c := range r.Cells {
		t.lines[len(t.lines)-1] += " " + c.Name + "=" + c.Text()
	}
	return nil
}

func (t *recordingSink) Done(at time.Time) error {
	t.add("done %s", at.Format("15:04:05.0"))
	return nil
}

func (t *recordingSink) add(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *recordingSink) take() (lines []string) {
	lines, t.lines = t.lines, nil
	return lines
}

// put writes a file of a run.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

const startedTwice = `{"created":"2026-01-02T03:00:00Z","starts":[{"after":0,"time":"2026-01-02T03:00:00Z"},` +
	`{"after":1,"time":"2026-01-02T04:00:00Z","settings":{"max_steps":3}}]}`

// A run that was killed after two steps, and resumed after the first with another setting.
func TestARecordIsWalkedOnce(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "config.json", `{"seed":7,"max_steps":2}`)
	put(t, dir, "manifest.json", startedTwice)
	put(t, dir, "metrics.jsonl", `{"kind":"evaluation","step":0,"pass@1":0.5}
{"step":1,"verdicts":{"AC":1},"ci":[0,1],"updated":true}
{"step":2,"verdicts":null,"name":"a b"}
{"kind":"evaluation","step":2,"pass@1":1}
{"step":3`)
	put(t, dir, "train_log.jsonl", `{"step":1,"total_s":1.5}`+"\n"+`{"step":2,"total_s":2}`+"\n")
	f, err := Open(dir)
	require.NoError(t, err)
	require.Equal(t, filepath.Base(dir), f.Name)
	require.Len(t, f.ID, 32)
	require.True(t, f.Empty())
	var to recordingSink
	require.NoError(t, f.Follow(&to))
	require.False(t, f.Empty())
	require.Equal(t, []string{
		"start after 0 03:00:00 seed=7 max_steps=2",
		"0 03:00:00.0 evaluations/pass@1=0.5",
		"1 03:00:01.5 steps/verdicts.AC=1 steps/ci.0=0 steps/ci.1=1 steps/updated=true timing/total_s=1.5",
		"start after 1 04:00:00 max_steps=3",
		"2 04:00:02.0 steps/verdicts= steps/name=a b timing/total_s=2",
		"2 04:00:02.0 evaluations/pass@1=1",
	}, to.take())
	require.NoError(t, f.Done(&to))
	require.Empty(t, to.take(), "the last settings want three steps")
	require.NoError(t, f.Follow(&to))
	require.Empty(t, to.take())

	add := func(name, text string) {
		out, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = out.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, out.Close())
	}
	add("train_log.jsonl", `{"step":3,"total_s":0.5}`+"\n")
	add("metrics.jsonl", "}\n\n")
	require.NoError(t, f.Follow(&to))
	require.NoError(t, f.Done(&to))
	require.Equal(t, []string{"3 04:00:02.5 timing/total_s=0.5", "done 04:00:02.5"}, to.take())

	require.NoError(t, os.Truncate(filepath.Join(dir, "metrics.jsonl"), 40))
	require.ErrorIs(t, f.Follow(&to), ErrTruncated)
	require.NoError(t, os.Remove(filepath.Join(dir, "metrics.jsonl")))
	require.ErrorIs(t, f.Follow(&to), fs.ErrNotExist)
}

// fullSink is a sink that has no room for starts, or for rows.
type fullSink struct {
	recordingSink
	starts bool
}

func (f *fullSink) Row(Row) error { return syscall.ENOSPC }

func (f *fullSink) Start(Start) error {
	if f.starts {
		return syscall.ENOSPC
	}
	return nil
}

// An error of a sink is returned as such, and not as damage of the record.
func TestASinkThatIsFull(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "metrics.jsonl", `{"step":1}`+"\n")
	for _, starts := range []bool{true, false} {
		f, err := Open(dir)
		require.NoError(t, err)
		to := fullSink{starts: starts}
		require.Equal(t, syscall.ENOSPC, f.Follow(&to))
	}
}

// A warm-up without max_steps is done with the last step of its last epoch, by its number of training rows.
func TestAWarmUpIsDoneAfterItsEpochs(t *testing.T) {
	for words, want := range map[string]bool{
		`"epochs":1,"rows_per_step":6,"max_steps":-1`: true, `"epochs":2,"rows_per_step":6,"max_steps":-1`: false,
		`"epochs":2,"rows_per_step":6,"max_steps":4`: true, `"epochs":1,"rows_per_step":7,"max_steps":-1`: false,
		`"epochs":0,"rows_per_step":6,"max_steps":4`: true, `"epochs":0,"rows_per_step":6,"max_steps":-1`: false,
	} {
		dir := t.TempDir()
		put(t, dir, "config.json", `{"method":"sft",`+words+`}`)
		put(t, dir, "manifest.json", `{"created":"2026-01-02T03:00:00Z","problems":19,"starts":[{"after":0,"time":"2026-01-02T03:00:00Z"}]}`)
		put(t, dir, "metrics.jsonl", `{"step":3}`+"\n"+`{"step":4}`+"\n"+`{"kind":"held_out","step":4}`+"\n")
		f, err := Open(dir)
		require.NoError(t, err)
		var to recordingSink
		require.NoError(t, f.Follow(&to))
		to.take()
		require.NoError(t, f.Done(&to))
		require.Equal(t, want, len(to.take()) == 1, words)
	}
}

// If a run went back, the process that made a step last counts. An evaluation belongs to the process that made its step.
func TestOfSeveralStartsTheLastMadeAStep(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "manifest.json", `{"created":"2026-01-02T03:00:00Z","starts":[{"after":0,"time":"2026-01-02T03:00:00Z"},`+
		`{"after":4,"time":"2026-01-02T04:00:00Z"},{"after":1,"time":"2026-01-02T05:00:00Z"},{"after":1,"time":"2026-01-02T06:00:00Z"}]}`)
	put(t, dir, "metrics.jsonl", `{"step":1}`+"\n"+`{"kind":"evaluation","step":1}`+"\n"+`{"step":2}`+"\n"+`{"step":5}`+"\n")
	f, err := Open(dir)
	require.NoError(t, err)
	var to recordingSink
	require.NoError(t, f.Follow(&to))
	require.Equal(t, []string{"start after 0 03:00:00", "1 03:00:00.0", "1 03:00:00.0", "start after 1 06:00:00", "2 06:00:00.0",
		"5 06:00:00.0"}, to.take())
}

// A resumed run continues its time axis, even if the clock went back meanwhile: charts need rising times.
func TestAClockThatWentBack(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "manifest.json", `{"created":"2026-01-02T03:00:00Z","starts":[{"after":0,"time":"2026-01-02T03:00:00Z"},`+
		`{"after":1,"time":"1970-01-01T00:00:09Z"},{"after":2,"time":"2026-01-02T03:00:12Z"}]}`)
	put(t, dir, "metrics.jsonl", `{"step":1}`+"\n"+`{"step":2}`+"\n"+`{"step":3}`+"\n")
	put(t, dir, "train_log.jsonl", `{"step":1,"total_s":1.5}`+"\n"+`{"step":2,"total_s":2}`+"\n"+`{"step":3,"total_s":1}`+"\n")
	f, err := Open(dir)
	require.NoError(t, err)
	var to recordingSink
	require.NoError(t, f.Follow(&to))
	var times []string
	for _, line := range to.take() {
		line, _, _ = strings.Cut(line, " timing")
		times = append(times, line)
	}
	require.Equal(t, []string{"start after 0 03:00:00", "1 03:00:01.5", "start after 1 03:00:01", "2 03:00:03.5", "start after 2 03:00:12",
		"3 03:00:13.0"}, times)
}

// A fork begins with an evaluation after the steps of another run.
func TestAForkBeginsLate(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "manifest.json", `{"created":"2026-01-02T03:00:00Z","starts":[{"after":9,"time":"2026-01-02T03:00:00Z"}]}`)
	put(t, dir, "metrics.jsonl", `{"kind":"evaluation","step":9}`+"\n"+`{"step":10}`+"\n")
	f, err := Open(dir)
	require.NoError(t, err)
	var to recordingSink
	require.NoError(t, f.Follow(&to))
	require.Equal(t, []string{"start after 9 03:00:00", "9 03:00:00.0", "10 03:00:00.0"}, to.take())
}

// Damage of a record is reported with its position.
func TestDamageIsNamed(t *testing.T) {
	for _, file := range [][2]string{{"metrics.jsonl", "{\"step\":1}\n{\"step\":\n{}\n"}, {"metrics.jsonl", "{\"step\":1}\nnull\n"},
		{"train_log.jsonl", "{\"step\":1}\n[]\n"}, {"train_log.jsonl", "{\"step\":1}\nnull\n"}} {
		dir, name := t.TempDir(), file[0]
		put(t, dir, "metrics.jsonl", "")
		put(t, dir, name, file[1])
		f, err := Open(dir)
		require.NoError(t, err)
		err = f.Follow(&recordingSink{})
		require.ErrorContains(t, err, filepath.Join(dir, name)+":2: ")
		require.True(t, badinput.Is(err))
	}
	for _, file := range [][2]string{{"config.json", "[]"}, {"config.json", `{"seed":7`}, {"manifest.json", `{"starts":4}`},
		{"manifest.json", "[]"}} {
		dir := t.TempDir()
		put(t, dir, file[0], file[1])
		_, err := Open(dir)
		require.ErrorContains(t, err, file[0])
		require.True(t, badinput.Is(err))
	}
}

// A truncated object, or one followed by another, is refused, even if members can be read.
func TestWhatIsNoObjectIsRefused(t *testing.T) {
	for _, text := range []string{`{"a":1`, `{"a":1,`, `{"a":`, `{"a":1}{"b":2}`, `{"a":1} x`, "[1,2]", "[[1],2]", "null", "5", ""} {
		row, err := Flatten([]byte(text), true)
		require.Error(t, err, text)
		require.Empty(t, row, text)
	}
}

// A file that is written again has exactly the new content.
func TestKeptFilesAreWhatWasWritten(t *testing.T) {
	parts := []string{"one ", "two two ", "three"}
	whole := strings.Join(parts, "")
	for _, before := range []string{"", "o", "one ", "one two", whole, whole + " four", "one two two thirty", "x" + whole,
		whole[:len(whole)-1]} {
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, []byte(before), 0o644))
		k, err := OpenDerived(path)
		require.NoError(t, err)
		for i, part := range parts {
			_, err := k.Write([]byte(part))
			require.NoError(t, err)
			there, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(there), strings.Join(parts[:i+1], "")), before)
		}
		require.NoError(t, k.End())
		_, err = k.Write([]byte("!"))
		require.NoError(t, err)
		require.NoError(t, k.Close())
		require.ErrorIs(t, k.Close(), fs.ErrClosed)
		there, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, whole+"!", string(there), before)
	}
	_, err := OpenDerived(t.TempDir())
	require.Error(t, err, "a folder")
}

func TestNumbersAndTexts(t *testing.T) {
	for text, want := range map[string]struct {
		number float64
		is     bool
		text   string
	}{"1.5": {1.5, true, "1.5"}, "true": {1, true, "true"}, "false": {0, true, "false"}, "null": {}, `"7"`: {text: "7"}, "[1]": {text: "[1]"},
		"1e400": {text: "1e400"}} {
		number, is := Cell{JSON: []byte(text)}.Number()
		require.Equal(t, want.is, is, text)
		if is {
			require.Equal(t, want.number, number, text)
		}
		require.Equal(t, want.text, Cell{JSON: []byte(text)}.Text())
	}
}

// A step without an update has no entropy, although its line says 0, and one without scores has no reward.
func TestWhatAStepSaysNothingAboutIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "config.json", `{"seed":7}`)
	put(t, dir, "manifest.json", `{"created":"2026-01-02T03:00:00Z","starts":[{"after":0,"time":"2026-01-02T03:00:00Z"}]}`)
	put(t, dir, "metrics.jsonl", `{"step":1,"mean_reward":0,"completions":2,"excluded":0,"updated":false,"entropy":0,"grad_norm":0,"lr":1}
{"step":2,"mean_reward":0,"completions":2,"excluded":2,"updated":false,"loss":0}
{"step":3,"mean_reward":0,"completions":2,"excluded":1,"updated":true,"entropy":0}
`)
	f, err := Open(dir)
	require.NoError(t, err)
	var to recordingSink
	require.NoError(t, f.Follow(&to))
	require.Equal(t, []string{
		"1 03:00:00.0 steps/mean_reward=0 steps/completions=2 steps/excluded=0 steps/updated=false steps/lr=1",
		"2 03:00:00.0 steps/completions=2 steps/excluded=2 steps/updated=false",
		"3 03:00:00.0 steps/mean_reward=0 steps/completions=2 steps/excluded=1 steps/updated=true steps/entropy=0",
	}, to.take()[1:])
}

// The columns of rows with different keys are all there once, each after the one that it follows in the first row with it.
func TestColumnsOfRowsThatDiffer(t *testing.T) {
	var c Columns
	require.False(t, c.Has("a"))
	for _, line := range []struct{ row, names string }{
		{"a d", "a d"}, {"a d", "a d"}, {"a b c d", "a b c d"}, {"a c e", "a b c e d"}, {"z", "z a b c e d"}, {"d f", "z a b c e d f"},
		{"c b y", "z a b y c e d f"}, {"", "z a b y c e d f"},
	} {
		var row []Cell
		for _, name := range strings.Fields(line.row) {
			row = append(row, Cell{Name: name})
		}
		c.Add(row)
		require.Equal(t, strings.Fields(line.names), c.Names)
		for _, cell := range row {
			require.True(t, c.Has(cell.Name))
		}
	}
}
