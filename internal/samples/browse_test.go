package samples

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// sizes of a record, by the names in make browse.
var sizes = map[string]int64{"": 20 << 20, "tenth": 200 << 20, "full": 2 << 30}

// A record of any size is indexed in one pass, is shown meanwhile, and opens at once afterwards; any step is found at once, in memory
// that does not grow with the file. Processor time is bounded, since a wall clock depends on other programs.
func TestBrowse(t *testing.T) {
	size, known := sizes[os.Getenv("GRPO_BROWSE")]
	require.True(t, known, "GRPO_BROWSE: expected tenth or full")
	if race.Enabled { // a pass takes ten times as long, and has the same goroutines
		size /= 10
	}
	r := record{problems: 500, groups: 16, samples: 8, tokens: 400, seed: 3}
	for _, name := range files {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		steps := r.write(t, path, size)
		info, err := os.Stat(path)
		require.NoError(t, err)

		x := open(t, dir)
		spent, began := cputime.Used(), time.Now()
		first := x.View(t.Context(), 50*time.Millisecond)
		for len(first.Groups) == 0 {
			first = x.View(t.Context(), 50*time.Millisecond)
		}
		toFirst, shown := time.Since(began), len(first.Groups)
		v := settled(t, x)
		pass := cputime.Used() - spent
		require.NoError(t, v.Err)
		require.Len(t, v.Groups, steps*r.groups)
		t.Logf("%s of %d bytes, %d of lines: %v of processor time in one pass, %v of the clock; %d groups after %v", name, info.Size(), size,
			pass, time.Since(began), shown, toFirst)
		require.Less(t, pass, time.Second+time.Duration(size)*10, "10 ns a byte is 0.1 GB in a second")

		// With the saved index, nothing is read again.
		_, err = os.Stat(filepath.Join(dir, File))
		require.Equal(t, info.Size() >= savedFrom, err == nil)
		x.Close()
		if err == nil {
			spent, began = cputime.Used(), time.Now()
			again := open(t, dir)
			require.Nil(t, again.look(), "there is nothing to read")
			require.Equal(t, v.Groups, again.view().Groups)
			require.Equal(t, v.Problems, again.view().Problems)
			took := cputime.Used() - spent
			t.Logf("opened with its index: %v of processor time, %v", took, time.Since(began))
			require.Less(t, took, 2*time.Second)
			v = again.view()
		}
		for _, step := range []int{0, steps / 2, steps - 1} {
			jump(t, r, v, step)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		t.Logf("%d MB in memory", m.HeapAlloc>>20)
		require.Less(t, m.HeapAlloc, uint64(64<<20)+uint64(len(v.Groups))*300)
		require.NoError(t, os.Remove(path), "disks are small")

	}
}

// jump reads the last group of a step.
func jump(t *testing.T, r record, v *View, step int) {
	t.Helper()
	spent, began := cputime.Used(), time.Now()
	g, ok := v.Find(step, r.groups-1)
	require.True(t, ok)
	all, complete, err := v.Read(g)
	took := cputime.Used() - spent
	require.NoError(t, err)
	require.True(t, complete)
	var want Sample
	require.NoError(t, json.Unmarshal(r.line(step%4, r.groups-1, r.samples-1), &want))
	want.Step = step
	require.Equal(t, want, all[r.samples-1])
	t.Logf("step %d: %v of processor time, %v", step, took, time.Since(began))
	require.Less(t, took, 300*time.Millisecond)
}

// A damaged index, or one of another file, is built again silently.
func TestAnIndexThatIsNoneIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, files[0])
	require.NoError(t, os.WriteFile(path, smallRecord.step(0), 0o644))
	x := open(t, dir)
	want := settled(t, x).Groups
	x.save()
	kept, err := os.ReadFile(filepath.Join(dir, File))
	require.NoError(t, err)
	require.Nil(t, open(t, dir).look(), "a saved index is used")
	for at := 0; at < len(kept); at += 1 + len(kept)/29 {
		for _, text := range [][]byte{kept[:at], append(append(bytes.Clone(kept[:at]), kept[at]^4), kept[at+1:]...)} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, File), text, 0o644))
			again := open(t, dir)
			require.NotNil(t, again.look(), "byte %d", at)
			require.Equal(t, want, settled(t, again).Groups)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, File), kept, 0o644))
	require.NoError(t, os.WriteFile(path, smallRecord.step(3), 0o644))
	require.EqualValues(t, 3, settled(t, open(t, dir)).Groups[0].Step, "a file of another size or time is indexed anew")
	require.NoError(t, os.WriteFile(path, append(smallRecord.step(0), smallRecord.step(1)...), 0o644))
	require.Len(t, settled(t, open(t, dir)).Groups, 6, "a longer file that begins differently is indexed anew")
	require.NoError(t, os.Remove(path))
	require.Empty(t, settled(t, open(t, dir)).Groups)
}

// Nor is an index used whose groups have no valid problem, file or position.
func TestGroupsOfNothingAreNotTaken(t *testing.T) {
	taken := func(g Group, more ...byte) bool {
		text, err := binary.Append(nil, binary.LittleEndian, []Group{g})
		require.NoError(t, err)
		_, ok := (&sidecar{Problems: []string{`"a"`, `"b"`}, Groups: [2]int{0, 1}}).parts(append(text, more...))
		return ok
	}
	require.True(t, taken(Group{File: packed, Problem: 1}))
	require.False(t, taken(Group{File: packed, Problem: 1}, 0))
	for _, g := range []Group{{File: packed, Problem: -1}, {File: packed, Problem: 2}, {}, {File: packed, At: -1}, {File: packed, Size: -1},
		{File: packed, Frame: -1}} {
		require.False(t, taken(g), "%+v", g)
	}
}
