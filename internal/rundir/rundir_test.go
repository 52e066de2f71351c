package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// begun is a directory that is being written, with one log.
func begun(t *testing.T, path string, length int64) *Dir {
	t.Helper()
	d, err := Claim(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	_, err = d.Begin([]string{"log.jsonl"}, Point{Logs: map[string]int64{"log.jsonl": length}})
	require.NoError(t, err)
	return d
}

func saveFile(text string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644) }
}

func TestClaimingWritesNothingAndKeepsOthersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	d, err := Claim(path)
	require.NoError(t, err)
	require.NoDirExists(t, path)
	_, err = d.Begin(nil, Point{})
	require.NoError(t, err)
	_, err = Claim(path)
	require.ErrorContains(t, err, "another process is training in "+path)
	require.NoError(t, d.Close())
	d, err = Claim(path)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// Two runs that begin in the same second get two directories, and a run that is only looked at leaves none.
func TestReservedDirectoriesAreTwo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs", "now")
	first, err := Reserve(name)
	require.NoError(t, err)
	second, err := Reserve(name)
	require.NoError(t, err)
	require.Equal(t, []string{name, name + "-2"}, []string{first.Path, second.Path})
	_, err = second.Begin([]string{"log.jsonl"}, Point{})
	require.NoError(t, err)
	require.NoError(t, errors.Join(first.Close(), second.Close()))
	require.NoDirExists(t, first.Path)
	require.DirExists(t, second.Path)
}

func TestWhereNothingCanBeWrittenIsNoticedAtOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, saveFile("x")(dir))
	_, err := Claim(filepath.Join(dir, "file", "run"))
	require.ErrorContains(t, err, "not a directory")
	d, err := Claim(filepath.Join(dir, "a", "b"))
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.Equal(t, []string{"file"}, OtherFiles(dir, nil), "the probe leaves nothing")
	_, err = Claim("/proc/run")
	require.ErrorContains(t, err, "run_dir: ")
}

func TestWhatIsNoRunIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	others, err := CheckForeign(dir, nil, []string{"config.json"})
	require.NoError(t, err)
	require.Empty(t, others)
	require.NoError(t, saveFile("x")(dir))
	others, err = CheckForeign(dir, nil, []string{"config.json"})
	require.NoError(t, err)
	require.Equal(t, []string{"file"}, others)
	_, err = CheckForeign(dir, nil, []string{"file"})
	require.ErrorContains(t, err, "has a file that belongs to no run")
	require.NoError(t, os.WriteFile(filepath.Join(dir, StateFile), nil, 0o644))
	_, err = CheckForeign(dir, nil, nil)
	require.ErrorContains(t, err, "type resume="+dir)
}

func TestLogsAreCutToWhatTheyWere(t *testing.T) {
	path := t.TempDir()
	d := begun(t, path, 0)
	require.NoError(t, d.Append("log.jsonl", map[string]int{"a": 1}))
	lengths, err := d.Lengths()
	require.NoError(t, err)
	require.NoError(t, d.Append("log.jsonl", "later"))
	require.NoError(t, d.Close())

	require.NoError(t, begun(t, path, lengths["log.jsonl"]).Close())
	text, err := os.ReadFile(filepath.Join(path, "log.jsonl"))
	require.NoError(t, err)
	require.Equal(t, "{\"a\":1}\n", string(text))

	d, err = Claim(path)
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Begin([]string{"log.jsonl"}, Point{Logs: map[string]int64{"log.jsonl": 100}})
	require.ErrorContains(t, err, "somebody shortened it")
}

// The message of a stopped run does not claim a save that did not happen.
func TestWhatBecameOfAStoppedRun(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, "stopped before the first step", InterruptedMessage(dir, 0))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, Checkpoints, Name(2)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, Checkpoints, Name(2), StateFile), nil, 0o644))
	require.Equal(t, "stopped after step 2 and saved; the same command with run_dir="+dir+" resumes", InterruptedMessage(dir, 2))
	spaced := filepath.Join(t.TempDir(), "My Drive") // a command to type quotes the path
	require.NoError(t, os.Symlink(dir, spaced))
	require.Contains(t, InterruptedMessage(spaced, 2), " run_dir='"+spaced+"' resumes")
}

func TestACheckpointIsWholeOrNotThere(t *testing.T) {
	d := begun(t, t.TempDir(), 0)
	failed := errors.New("disk full")
	require.ErrorIs(t, d.Save(3, func(dir string) error { return errors.Join(saveFile("half")(dir), failed) }), failed)
	all, err := List(d.Path)
	require.NoError(t, err)
	require.Empty(t, all)
	entries, err := os.ReadDir(filepath.Join(d.Path, Checkpoints))
	require.NoError(t, err)
	require.Empty(t, entries)

	require.NoError(t, d.Save(3, saveFile("damaged")))
	require.NoError(t, os.MkdirAll(filepath.Join(d.Checkpoint(3)+partial, "left"), 0o755))
	require.NoError(t, d.Save(3, saveFile("whole")))
	require.NoDirExists(t, filepath.Join(d.Checkpoint(3), "left"))
	text, err := os.ReadFile(filepath.Join(d.Checkpoint(3), "file"))
	require.NoError(t, err)
	require.Equal(t, "whole", string(text))
}

func TestCheckpointsAreListedRetainedAndSetAside(t *testing.T) {
	d := begun(t, t.TempDir(), 0)
	for step := range 6 {
		require.NoError(t, d.Save(step, saveFile("x")))
	}
	for _, name := range []string{"step_7", "step_000009.partial", "other"} {
		require.NoError(t, os.Mkdir(filepath.Join(d.Path, Checkpoints, name), 0o755))
	}
	require.NoError(t, d.Retain(2, 2, []map[int]float64{{1: 0.5, 3: 0.5, 5: 0.75, 8: 1}}))
	all, err := List(d.Path)
	require.NoError(t, err)
	require.Equal(t, []string{d.Checkpoint(5), d.Checkpoint(4), d.Checkpoint(1)}, all)

	for _, step := range []int{2, 3} {
		require.NoError(t, d.Save(step, saveFile("x")))
	}
	measures := []map[int]float64{{1: 0.5, 2: 0.9, 3: 0.1, 4: 0.2}, {3: 0.4, 5: 0.3}}
	require.NoError(t, d.Retain(1, 1, measures, 2), "the best by each measure, besides the last ones")
	all, err = List(d.Path)
	require.NoError(t, err)
	require.Equal(t, []string{d.Checkpoint(5), d.Checkpoint(3), d.Checkpoint(2), d.Checkpoint(1)}, all)
	require.NoError(t, d.Save(4, saveFile("x")))
	require.NoError(t, d.Retain(2, 1, nil, 1))

	require.NoError(t, d.Close())
	d, err = Claim(d.Path)
	require.NoError(t, err)
	where, err := d.Begin([]string{"log.jsonl"}, Point{Step: 4})
	require.NoError(t, err)
	all, err = List(d.Path)
	require.NoError(t, err)
	require.Equal(t, []string{d.Checkpoint(4), d.Checkpoint(1)}, all)
	require.DirExists(t, filepath.Join(where, Name(5)))
	require.NoError(t, d.Close())
	require.NoDirExists(t, filepath.Join(d.Path, Checkpoints, "step_000009.partial"))
	require.DirExists(t, filepath.Join(d.Path, Checkpoints, "other"))
}

// Lines after the point from which a run is resumed are set aside once, however often it is killed, and none is lost unless it is written
// again.
func TestEndsOfLogsAreSetAside(t *testing.T) {
	path := t.TempDir()
	logs := []string{"metrics", "other"}
	goOn := func(p Point, then ...string) string {
		d, err := Claim(path)
		require.NoError(t, err)
		where, err := d.Begin(logs, p)
		require.NoError(t, err)
		for _, text := range then {
			for _, log := range logs {
				_, err := d.logs[log].Write([]byte(text))
				require.NoError(t, err)
			}
		}
		require.NoError(t, d.Close())
		return where
	}
	read := func(where, log string) string {
		text, err := os.ReadFile(filepath.Join(where, log))
		require.NoError(t, err)
		return string(text)
	}
	require.Empty(t, goOn(Point{}, "a\n", "half of b"))
	p := Point{Step: 1, Logs: map[string]int64{"metrics": 2, "other": 2}}
	require.Empty(t, goOn(p, "b\n", "c\n"), "a partial line is not worth keeping")
	first := goOn(p, "b\n")
	require.Equal(t, filepath.Join(path, Checkpoints, RolledBackDir, "after_step_000001"), first)
	require.Equal(t, first, goOn(p, "b\n", "c\n", "d\n", "half"))
	require.Equal(t, "b\nc\n", read(first, "other"), "the longer log is kept")
	require.Equal(t, first, goOn(p, "x\n"))
	require.Equal(t, "b\nc\nd\nhalf", read(first, "other"), "a longer log replaces a shorter one")
	other := first + "-2"
	require.Equal(t, []string{other, other}, []string{goOn(p, "x\n", "y\n"), goOn(p)}, "other steps have one place of their own")
	require.Equal(t, "x\ny\n", read(other, "metrics"))
	require.Empty(t, goOn(p, "b\n", "c\n", "d\n"))

	d, err := Claim(path)
	require.NoError(t, err)
	_, err = d.Begin(logs, p)
	require.NoError(t, err)
	require.NoError(t, d.Save(1, saveFile("x")))
	require.DirExists(t, first, "the kept end stays until its steps are repeated")
	_, err = d.logs["metrics"].Write([]byte("b\nc\nd\ne\n"))
	require.NoError(t, err)
	require.NoError(t, d.Save(2, saveFile("x")))
	require.NoDirExists(t, first, "the kept end is removed once its steps are repeated")
	require.DirExists(t, other)
	require.NoError(t, d.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(path, Checkpoints)))
	require.Equal(t, filepath.Join(path, Checkpoints, RolledBackDir, "after_step_000000"), goOn(Point{}), "before the first checkpoint")
	require.Equal(t, "", read(path, "metrics"))
}

func TestSealsAndChecksumsNoticeDamage(t *testing.T) {
	type sealed struct {
		N    int    `json:"n"`
		Seal string `json:"seal"`
	}
	text, err := Seal(sealed{N: 12})
	require.NoError(t, err)
	var s sealed
	require.NoError(t, json.Unmarshal(text, &s))
	require.NoError(t, CheckSeal(text, s.Seal))
	for i, b := range text {
		other := append([]byte{}, text...)
		if other[i] = b ^ 1; json.Unmarshal(other, &s) == nil {
			require.Error(t, CheckSeal(other, s.Seal), "%s", other)
		}
	}
	for _, v := range []any{struct{}{}, []sealed{{}, {}}} {
		_, err = Seal(v)
		require.ErrorContains(t, err, "one empty member")
	}

	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	require.NoError(t, saveFile("x")(filepath.Join(dir, "sub")))
	sums, err := Checksums(dir)
	require.NoError(t, err)
	require.NoError(t, Verify(dir, sums))
	require.ErrorContains(t, Verify(filepath.Join(dir, "sub"), map[string]string{"../sub/file": sums["sub/file"]}), "which is outside of it")
	require.NoError(t, saveFile("y")(filepath.Join(dir, "sub")))
	require.ErrorContains(t, Verify(dir, sums), "sub/file is damaged")
	require.NoError(t, os.Remove(filepath.Join(dir, "sub", "file")))
	require.Error(t, Verify(dir, sums))
}

func TestAJournalKeepsWhatWasSaidEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, word := range []string{"first", "second"} {
		var j Journal
		j.Say("%s early", word)
		require.NoError(t, j.Open(path))
		j.Say("%s late", word)
		require.NoError(t, j.Close())
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `(?s)first early\n.*first late\n.*second early\n.*second late\n$`, string(text))

	var j Journal // so that a quoted line cannot control a terminal
	require.NoError(t, j.Open(path))
	j.Say("! %s", "boom\x1b[2J")
	require.NoError(t, j.Close())
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `Z ! boom␛\[2J\n$`, string(text))
	var silent Journal
	silent.Say("nobody reads this")
	require.NoError(t, silent.Close())
}

// An editor replaces the file of a log: the run would write to one without a name.
func TestALogThatIsReplacedIsNoticed(t *testing.T) {
	d, err := Claim(t.TempDir())
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Begin([]string{"log"}, Point{})
	require.NoError(t, err)
	require.NoError(t, d.Append("log", 1))
	_, err = d.Lengths()
	require.NoError(t, err)
	for _, spoil := range []func(path string) error{
		func(path string) error { return os.Rename(path, path+"~") },
		func(path string) error { return os.WriteFile(path, []byte("1\n"), 0o644) },
	} {
		require.NoError(t, spoil(d.File("log")))
		_, err = d.Lengths()
		require.ErrorContains(t, err, "log was moved, removed or replaced (as editors do) during the run")
	}
	require.NoError(t, os.Rename(d.File("log~"), d.File("log")))
	_, err = d.Lengths()
	require.NoError(t, err)
}

// If logs are too short for several checkpoints, only the last is reported; other faults are reported for each.
func TestWhyNothingCanBeGoneOnWith(t *testing.T) {
	damaged, cut := errors.New("a is damaged"), ShortLogError{errors.New("cut")}
	last, before := fmt.Errorf("b: %w; type b", cut), ShortLogError{errors.New("c: cut")}
	for says, refused := range map[string][]error{
		"no checkpoint to resume from; type x":                                           nil,
		"a is damaged\nno checkpoint to resume from; type x":                             {damaged},
		"no checkpoint to resume from: b: cut; type b":                                   {last},
		"no checkpoint to resume from: logs are too short for 2 of them: b: cut; type b": {last, before},
		"a is damaged\nno checkpoint to resume from: b: cut; type b":                     {last, damaged},
	} {
		require.EqualError(t, NoneResumable(refused, "type x"), says)
	}
}

// An error about a checkpoint names its files relative to it, and includes all other errors.
func TestFilesOfACheckpointThatWasNotWritten(t *testing.T) {
	d := begun(t, filepath.Join(t.TempDir(), "run"), 0)
	file := func(name ...string) error {
		return &fs.PathError{Op: "write", Path: filepath.Join(append([]string{d.Checkpoint(1) + partial}, name...)...), Err: syscall.ENOSPC}
	}
	for says, err := range map[string]error{
		"no space left on device":                    file(),
		"write adapter/a: no space left on device":   errors.Join(nil, file("adapter", "a")),
		"write /x: no space left on device":          &fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC},
		file("a").Error() + "\n" + file("b").Error(): errors.Join(file("a"), file("b")),
		"adapter: " + file("a").Error():              fmt.Errorf("adapter: %w", file("a")),
	} {
		got := d.Save(1, func(string) error { return err })
		require.EqualError(t, got, says)
		require.ErrorIs(t, got, syscall.ENOSPC)
	}
}
