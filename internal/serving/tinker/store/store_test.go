package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

func newRun(t *testing.T) (*Store, *Run) {
	t.Helper()
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r, err := s.Create(ModelInfo{ID: "s-1:train:0", Base: "b"})
	require.NoError(t, err)
	return s, r
}

func records(t *testing.T, r *Run) (all []Record, err error) {
	t.Helper()
	j, err := r.Journal(func(rec Record) { all = append(all, rec) })
	if err == nil {
		require.NoError(t, j.Close())
	}
	return all, err
}

// If a partial record cannot be cut off, the journal is not written to any more: records after it would be lost.
func TestAJournalThatCannotBeCut(t *testing.T) {
	_, r := newRun(t)
	path := filepath.Join(r.dir, "journal")
	require.NoError(t, os.WriteFile(path, []byte("half"), 0o644))
	defer func() { disk.Observer = nil }()
	disk.Observer = func(op disk.Op) {
		if op.Kind == disk.Synced {
			require.NoError(t, os.Rename(r.dir, r.dir+"-away"))
		}
	}
	j, err := r.Journal(func(Record) {})
	require.Error(t, err)
	require.Nil(t, j)
}

// A journal that was closed for idleness continues where it was, but not if its file was changed meanwhile.
func TestAJournalThatRests(t *testing.T) {
	_, r := newRun(t)
	j, err := r.Journal(func(Record) {})
	require.NoError(t, err)
	want := []Record{{Kind: "optim_step", Seq: 1, Body: []byte("a")}, {Kind: "optim_step", Seq: 2, Body: []byte("b")}}
	for _, rec := range want {
		require.NoError(t, j.Append(rec))
		require.NoError(t, j.CloseIdle())
		require.NoError(t, j.Sync())
	}
	got, err := records(t, r)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, os.Remove(j.path))
	require.ErrorIs(t, j.Append(want[0]), ErrUnwritten)
	require.ErrorIs(t, j.Rewrite(want), ErrUnwritten)
}

// A journal that is truncated anywhere has its whole records, and continues from there. One that is damaged before its last record is
// refused.
func TestAJournalThatIsCut(t *testing.T) {
	_, r := newRun(t)
	j, err := r.Journal(func(Record) { t.Fatal("there is nothing in it") })
	require.NoError(t, err)
	want := []Record{{Kind: "optim_step", Seq: 1, Sum: "x", Body: []byte("a\nb")}, {Kind: Done, Seq: 1, Status: "ok", Body: []byte("{}")}}
	var ends []int64
	for _, rec := range want {
		require.NoError(t, j.Append(rec))
		ends = append(ends, j.Size)
	}
	require.NoError(t, j.Close())
	path := filepath.Join(r.dir, "journal")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for n := range len(whole) + 1 {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o644))
		got, err := records(t, r)
		require.NoError(t, err)
		kept := 0
		for _, end := range ends {
			if int64(n) >= end {
				kept++
			}
		}
		require.Equal(t, append([]Record(nil), want[:kept]...), got, n)
		after, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, append([]int64{0}, ends...)[kept], after.Size())
	}
	for at := range ends[0] {
		damaged := append([]byte{}, whole...)
		damaged[at] ^= 1
		require.NoError(t, os.WriteFile(path, damaged, 0o644))
		_, err := records(t, r)
		require.ErrorContains(t, err, "the record at byte 0 is damaged")
	}

	require.NoError(t, os.WriteFile(path, append(whole[:len(whole):len(whole)], make([]byte, 20)...), 0o644))
	j, err = r.Journal(func(Record) {})
	require.NoError(t, err)
	require.NoError(t, j.Rewrite(want[1:]))
	require.NoError(t, j.Append(want[0]))
	require.NoError(t, j.Close())
	got, err := records(t, r)
	require.NoError(t, err)
	require.Equal(t, []Record{want[1], want[0]}, got)

	// The length of the last record may be on disk before its text.
	for at := head; at < len(whole)-int(ends[0]); at++ {
		damaged := bytes.Clone(whole)
		damaged[int(ends[0])+at] ^= 1
		require.NoError(t, os.WriteFile(path, damaged, 0o644))
		got, err := records(t, r)
		require.NoError(t, err)
		require.Equal(t, want[:1], got)
	}
}

// A journal that was rewritten may be closed for idleness, too.
func TestAJournalOfOtherRecordsRests(t *testing.T) {
	_, r := newRun(t)
	j, err := r.Journal(func(Record) {})
	require.NoError(t, err)
	want := []Record{{Kind: Done, Seq: 7, Body: []byte("a")}, {Kind: Done, Seq: 8, Body: []byte("b")}}
	require.NoError(t, j.Append(Record{Kind: "optim_step", Seq: 1, Body: []byte("longer than what is to be in place of it")}))
	require.NoError(t, j.Rewrite(want[:1]))
	require.NoError(t, j.CloseIdle())
	require.NoError(t, j.Append(want[1]))
	require.NoError(t, j.Close())
	got, err := records(t, r)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A record for which there was no room is removed again: records added later can be read.
func TestAHalfRecordIsTakenBack(t *testing.T) {
	_, r := newRun(t)
	j, err := r.Journal(func(Record) {})
	require.NoError(t, err)
	want := []Record{{Kind: "optim_step", Seq: 1, Body: make([]byte, 1<<20)}, {Kind: "optim_step", Seq: 2, Body: []byte("b")}}
	require.NoError(t, j.Append(want[0])) // so large that nobody else needs the space meanwhile

	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(j.Size) + 20, Max: was.Max}))
	err = j.Append(want[1])
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	require.ErrorIs(t, err, ErrUnwritten)
	require.ErrorIs(t, err, syscall.EFBIG)

	require.NoError(t, j.Append(want[1]))
	require.NoError(t, j.Close())
	got, err := records(t, r)
	require.NoError(t, err)
	require.True(t, slices.EqualFunc(want, got, func(a, b Record) bool { return a.Seq == b.Seq && bytes.Equal(a.Body, b.Body) }))
}

func write(text string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, "adapter"), []byte(text), 0o644) }
}

func TestCheckpoints(t *testing.T) {
	_, r := newRun(t)
	c := Checkpoint{Kind: Weights, Name: "a", Seq: 3, Time: time.Now()}
	require.NoError(t, r.Save(c, false, write("one")))
	require.NoError(t, r.Save(c, false, write("again, after a kill")))
	found, err := r.Find(Weights, "a")
	require.NoError(t, err)
	require.EqualValues(t, 3, found.Size)
	c.Seq = 4
	require.ErrorIs(t, r.Save(c, false, write("other")), ErrTaken)
	require.NoError(t, r.Save(c, true, write("other")))
	_, err = r.Change(found, func(*Checkpoint) error { return nil })
	require.ErrorIs(t, err, os.ErrNotExist, "the checkpoint was replaced")
	found, err = r.Find(Weights, "a")
	require.NoError(t, err)
	require.EqualValues(t, 5, found.Size)

	full := errors.New("no space")
	c.Seq = 5
	require.ErrorIs(t, r.Save(c, true, func(string) error { return full }), full)
	still, err := r.Find(Weights, "a")
	require.NoError(t, err)
	require.Equal(t, found, still, "what could not be replaced is there")

	past := time.Now().Add(-time.Second)
	expire := func(c *Checkpoint) error { c.Expires = &past; return nil }
	_, err = r.Change(found, expire)
	require.NoError(t, err)
	_, err = r.Find(Weights, "a")
	require.ErrorContains(t, err, "there is no checkpoint")
	all, err := r.Checkpoints()
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = r.expire()
	require.NoError(t, err)
	require.NoDirExists(t, found.Dir)
	_, err = r.Change(found, expire)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, r.Delete(found), os.ErrNotExist)
	require.NoError(t, os.MkdirAll(found.Dir, 0o755)) // as after a kill in the middle
	require.NoError(t, os.WriteFile(filepath.Join(found.Dir, "rest"), nil, 0o644))
	require.NoError(t, r.Save(c, false, write("new")))

	for _, name := range []string{"..", ".a", "a/b", "a\x00", "", "ä"} {
		c.Name = name
		require.ErrorContains(t, r.Save(c, false, write("")), "path: found", name)
		_, err := r.Find(Weights, name)
		require.Error(t, err)
	}
	_, err = r.Find("state", "3")
	require.Error(t, err)
}

// Expired checkpoints do not block their names, and lists are in the order of saving, with the bytes of all files.
func TestCheckpointsOfOneName(t *testing.T) {
	_, r := newRun(t)
	over := time.Now().Add(-time.Hour)
	require.NoError(t, r.Save(Checkpoint{Kind: Sampler, Name: "over", Seq: 1, Expires: &over}, false, write("x")))
	require.NoError(t, r.Save(Checkpoint{Kind: Sampler, Name: "over", Seq: 2}, false, func(dir string) error {
		return errors.Join(write("yy")(dir), os.WriteFile(filepath.Join(dir, "more"), []byte("zzz"), 0o644))
	}), "an expired checkpoint can be replaced")
	again, err := r.Find(Sampler, "over")
	require.NoError(t, err)
	require.EqualValues(t, 5, again.Size)
	require.ErrorContains(t, again.SetTTL(new(int64)), "ttl_seconds: found 0, expected 1 to")
	require.NoError(t, r.Save(Checkpoint{Kind: Weights, Name: "b", Seq: 3, Time: time.Now().Add(-time.Hour)}, false, write("x")))
	inOrder, err := r.Checkpoints()
	require.NoError(t, err)
	require.Equal(t, []string{"over", "b"}, []string{inOrder[0].Name, inOrder[1].Name},
		"checkpoints are listed in the order in which they were saved")
}

// The remains of killed saves are removed when the store is opened again, and nothing else.
func TestRemainsOfKills(t *testing.T) {
	s, r := newRun(t)
	require.NoError(t, r.Save(Checkpoint{Kind: Weights, Name: "a", Seq: 3, Time: time.Now()}, false, write("one")))
	moment, err := r.SaveUnnamed(4, 2, write("x"))
	require.NoError(t, err)
	require.NoError(t, r.Snapshot(5, write("x")))
	for _, kind := range []string{Weights, Sampler, moments, states} {
		require.NoError(t, os.MkdirAll(filepath.Join(r.dir, kind, ".7.123"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, kind, ".7.123", "half"), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "runs", "notes"), nil, 0o600)) // belongs to no model
	runs, _, err := s.Runs()
	require.NoError(t, err)
	require.Len(t, runs, 1)
	remains, err := filepath.Glob(filepath.Join(r.dir, "*", ".*"))
	require.NoError(t, err)
	require.Empty(t, remains)
	_, err = runs[0].Find(Weights, "a")
	require.NoError(t, err)
	require.DirExists(t, moment)
	seq, _, err := runs[0].State()
	require.NoError(t, err)
	require.EqualValues(t, 5, seq)
}

// The number of unnamed sampling weights is limited; the last used are kept.
func TestMoments(t *testing.T) {
	_, r := newRun(t)
	for seq := range int64(5) {
		_, err := r.SaveUnnamed(seq, 2, write("x"))
		require.NoError(t, err)
		if seq > 0 {
			time.Sleep(5 * time.Millisecond)
			_, err = r.UnnamedDir(0)
			require.NoError(t, err, seq)
			time.Sleep(5 * time.Millisecond)
		}
	}
	_, err := r.UnnamedDir(4)
	require.NoError(t, err)
	_, err = r.UnnamedDir(2)
	require.ErrorContains(t, err, "save them with a name")
}

func TestSnapshots(t *testing.T) {
	s, r := newRun(t)
	seq, _, err := r.State()
	require.NoError(t, err)
	require.EqualValues(t, -1, seq)
	for _, seq := range []int64{9, 10} {
		require.NoError(t, r.Snapshot(seq, write("x")))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(r.dir, states, "8"), 0o755)) // as after a kill
	seq, dir, err := r.State()
	require.NoError(t, err)
	require.EqualValues(t, 10, seq)
	require.FileExists(t, filepath.Join(dir, "adapter"))
	require.NoDirExists(t, filepath.Join(filepath.Dir(dir), "9"))

	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "runs", "halfway"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "runs", "damaged"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "runs", "damaged", "run.json"), []byte("{"), 0o644))
	runs, bad, err := s.Runs()
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Len(t, bad, 1)
	require.ErrorContains(t, s.Put("sessions", "../x", 1), "does not exist")
}

// A store whose creation was killed is completed by the next server; other hidden .tmp files are not touched.
func TestAStoreThatWasHardlyMade(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	left := filepath.Join(dir, ".secret.1490126072.tmp")
	require.NoError(t, os.Rename(filepath.Join(dir, "secret"), left))
	s, err = Open(dir)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoFileExists(t, left)

	foreign := t.TempDir()
	mine := filepath.Join(foreign, ".letter.1.tmp")
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	_, err = Open(foreign)
	require.ErrorContains(t, err, `is no store: it has ".letter.1.tmp" in it`)
	require.FileExists(t, mine)
}
