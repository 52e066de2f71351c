package samples

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// settled is the complete index, when nothing is being read.
func settled(t *testing.T, x *Index) *View {
	t.Helper()
	v := x.View(t.Context(), time.Hour)
	require.False(t, v.Building)
	return v
}

func open(t *testing.T, dir string) *Index {
	t.Helper()
	x := Open(dir, true)
	t.Cleanup(x.Close)
	return x
}

// counted is a group without its position.
type counted struct {
	step, number                 int
	problem                      string
	samples, right, left, tokens int
	best, worst                  float32
	verdicts                     Verdicts
}

// read counts the groups of lines in the simplest way: the reference.
func read(t *testing.T, lines []byte) (all []counted) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var s Sample
		require.NoError(t, json.Unmarshal(line, &s))
		n := len(all)
		if n == 0 || all[n-1].step != s.Step || all[n-1].number != s.Group {
			all = append(all, counted{step: s.Step, number: s.Group, problem: s.Problem, best: -99, worst: 99})
			n++
		}
		g := &all[n-1]
		g.samples++
		g.tokens += len(s.Tokens)
		g.verdicts |= verdict(s.Score.Verdict)
		if s.Score.Reward == nil {
			g.left++
			continue
		}
		if s.Right() {
			g.right++
		}
		g.best, g.worst = max(g.best, float32(*s.Score.Reward)), min(g.worst, float32(*s.Score.Reward))
	}
	return all
}

func groupsOf(v *View) (all []counted) {
	for _, g := range v.Groups {
		all = append(all, counted{int(g.Step), int(g.Number), v.Name(g), int(g.Samples), int(g.Right), int(g.Left), int(g.Tokens),
			g.Best, g.Worst, g.Verdicts})
	}
	return all
}

// The index counts what a simple reader counts, and returns every completion, packed or plain, and from runs with both files.
func TestTheIndexIsAsAPlainReader(t *testing.T) {
	var lines []byte
	for step := range 6 {
		lines = append(lines, smallRecord.step(step)...)
	}
	want := read(t, lines)
	require.Len(t, want, 18)
	for name, packed := range map[string][2]int{"plain": {}, "packed": {0, 6}, "both": {3, 6}, "both, packed at first": {0, 3}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var plain, frames bytes.Buffer
			for step := range 6 {
				if step < packed[0] || step >= packed[1] {
					plain.Write(smallRecord.step(step))
				} else {
					pack(t, &frames, smallRecord.step(step))
				}
			}
			for i, b := range []bytes.Buffer{plain, frames} {
				if b.Len() > 0 {
					require.NoError(t, os.WriteFile(filepath.Join(dir, files[i]), b.Bytes(), 0o644))
				}
			}
			v := settled(t, open(t, dir))
			require.NoError(t, v.Err)
			require.Equal(t, want, groupsOf(v))
			require.Zero(t, v.Faulty)
			require.Equal(t, v.Total, v.Done)
			require.Equal(t, v.Groups, settled(t, open(t, dir)).Groups, "a second index is the same")
			steps, first := v.Steps()
			require.Equal(t, []int{0, 1, 2, 3, 4, 5}, steps)
			require.Equal(t, 6, first[2])
			require.Len(t, v.Step(4), 3)
			require.Empty(t, v.Step(6))
			var back []byte
			for _, g := range v.Groups {
				all, complete, err := v.Read(g)
				require.NoError(t, err)
				require.True(t, complete)
				require.Len(t, all, 4)
				for i, s := range all {
					require.Equal(t, i, s.Sample)
					back = append(back, smallRecord.line(s.Step, s.Group, s.Sample)...)
				}
			}
			require.Equal(t, lines, back)
		})
	}
}

// Wherever a growing file ends at a look, the index extended later equals one that is built at once.
func TestTheIndexGoesOnWithTheFile(t *testing.T) {
	var plain, frames bytes.Buffer
	for step := range 3 {
		plain.Write(smallRecord.step(step))
		pack(t, &frames, smallRecord.step(step))
	}
	for i, text := range [][]byte{plain.Bytes(), frames.Bytes()} {
		dir := t.TempDir()
		path := filepath.Join(dir, files[i])
		f, err := os.Create(path)
		require.NoError(t, err)
		x := open(t, dir)
		for at := 0; at < len(text); {
			end := min(len(text), at+1+len(text)/23)
			_, err := f.Write(text[at:end])
			require.NoError(t, err)
			at = end
			v := settled(t, x)
			require.Zero(t, v.Faulty)
			require.True(t, slices.IsSortedFunc(v.Groups, func(a, b Group) int { return int(a.Step - b.Step) }))
		}
		require.NoError(t, f.Close())
		require.Equal(t, settled(t, open(t, dir)).Groups, settled(t, x).Groups)
		require.Len(t, settled(t, x).Groups, 9)

		// A run that went back writes other lines, in the end to a longer file: what was read before is discarded.
		other := smallRecord
		other.seed = 2
		var again bytes.Buffer
		for step := range 5 {
			if i == packed {
				pack(t, &again, other.step(step+1))
			} else {
				again.Write(other.step(step + 1))
			}
		}
		require.NoError(t, os.WriteFile(path, again.Bytes(), 0o644))
		require.Equal(t, settled(t, open(t, dir)).Groups, settled(t, x).Groups)
		require.EqualValues(t, 1, settled(t, x).Groups[0].Step)
		old := settled(t, x)
		require.NoError(t, os.WriteFile(path, text, 0o644))
		_, _, err = old.Read(old.Groups[9])
		require.Error(t, err, "a group that moved in the file cannot be read")
	}
}

// Truncated or invalid lines are reported with their positions, and the lines around them are read.
func TestWhatIsNoCompletionIsPassedOver(t *testing.T) {
	dir := t.TempDir()
	good := smallRecord.step(0)
	long := append(append([]byte(`{"step":0,"group":9,"text":"`), bytes.Repeat([]byte("x"), 5<<20)...), "\"}\n"...)
	text := slices.Concat(good, []byte("{\"step\":1,\"gro\n"), make([]byte, 30), []byte("\n\n[1,2]\n{\"step\":1}\n"), long,
		smallRecord.step(2), []byte(`{"st`))
	require.NoError(t, os.WriteFile(filepath.Join(dir, files[0]), text, 0o644))
	v := settled(t, open(t, dir))
	require.Len(t, v.Groups, 7)
	require.Equal(t, 4, v.Faulty)
	at := int64(len(good))
	require.Equal(t, []Fault{{files[0], at, "not a whole line of JSON"}, {files[0], at + 15, "zeros, as a power cut leaves them"},
		{files[0], at + 47, "not a whole line of JSON"}, {files[0], at + 53, "no completion: expected step and group"}}, v.Faults)
	require.Equal(t, v.Total-4, v.Done, "half a line may become a whole one")

	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, files[0]), []byte("garbage\n"), 0o644))
	x := open(t, dir)
	require.Equal(t, 1, settled(t, x).Faulty)
	require.NoError(t, os.WriteFile(filepath.Join(dir, files[0]), slices.Concat([]byte("garbage\n"), good), 0o644))
	v = settled(t, x)
	require.Equal(t, []int{3, 1}, []int{len(v.Groups), v.Faulty}, "a file that had nothing else goes on")

	var frames bytes.Buffer
	pack(t, &frames, good)
	second := frames.Len()
	pack(t, &frames, smallRecord.step(1))
	frames.WriteString("what is this")
	third := frames.Len()
	pack(t, &frames, smallRecord.step(2))
	damaged := frames.Bytes()
	damaged[second+(third-second)/2] ^= 1
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, files[packed]), damaged[:len(damaged)-3], 0o644))
	v = settled(t, open(t, dir))
	require.NoError(t, v.Err)
	steps, _ := v.Steps()
	require.Equal(t, 0, steps[0])
	require.NotContains(t, steps, 2, "the last frame has no end")
	require.GreaterOrEqual(t, v.Faulty, 2)
	require.EqualValues(t, second, v.Faults[0].At)
	require.Contains(t, v.Faults[0].Why, "damaged")
	require.NoError(t, os.WriteFile(filepath.Join(dir, files[packed]), damaged, 0o644))
	steps, _ = settled(t, open(t, dir)).Steps()
	require.Contains(t, steps, 2)
}

// An index that is closed while it reads frames is incomplete, and must not be saved as complete.
func TestAnIndexThatIsClosedIsNotWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), files[packed])
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for step := range 3 {
		pack(t, f, smallRecord.step(step))
	}
	x := open(t, filepath.Dir(path))
	s := &scan{ctx: x.ctx, file: packed, fault: func(Fault) {}, found: func([]Group, int64) {},
		intern: func([]byte) int32 { x.stop(); return 0 }}
	require.ErrorIs(t, s.frames(f, 0, stateOf(path).size), context.Canceled)
}

// Messages to the model within a conversation do not count: neither for its length nor for its log-probabilities.
func TestWhatAConversationDrew(t *testing.T) {
	s := Sample{Tokens: make([]int32, 6), LogProbs: []float32{-9, -1, -3, -9, -5, -9}}
	mean, known := s.MeanLogProb()
	require.Equal(t, []any{6, -6.0, true}, []any{s.Length(), mean, known})
	s.Talk = &Conversation{Turns: []Turn{{1, 3}, {4, 5}, {5, 5}}}
	mean, known = s.MeanLogProb()
	require.Equal(t, []any{3, -3.0, true}, []any{s.Length(), mean, known})
	s.LogProbs = nil
	_, known = s.MeanLogProb()
	require.False(t, known)

	l, why := skim([]byte(`{"step":1,"group":0,"tokens":[1,2,3,4,5,6],"conversation":{"turns":[{"start":1,"end":3},{"start":4,"end":5},` +
		`{"start":5,"end":5}]}}`))
	require.Equal(t, []any{"", int32(3)}, []any{why, l.tokens}, "only the model's own tokens are counted")
}

// A group is mixed if some of its judged completions are right and others wrong; an unknown verdict of a later release counts as other.
func TestWhatCameOfAGroup(t *testing.T) {
	for g, mixed := range map[Group]bool{{Samples: 3}: false, {Samples: 3, Right: 2}: true, {Samples: 3, Right: 3}: false,
		{Samples: 3, Right: 2, Left: 1}: false} {
		require.Equal(t, mixed, g.Mixed(), "%+v", g)
	}
	v := verdict("WA") | verdict("tired")
	require.Equal(t, []string{"WA", "another"}, v.Names())
	require.Equal(t, []bool{true, false, true}, []bool{v.Has("WA"), v.Has("AC"), v.Has("tired")})
}

// A completion with a value of an unexpected type is shown with its other values.
func TestACompletionWithAnOddValueIsShown(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, files[0]), []byte(`{"step":0,"group":0,"text":"x","finish_reason":5}`+"\n"), 0o644))
	v := settled(t, open(t, dir))
	all, whole, err := v.Read(v.Groups[0])
	require.NoError(t, err)
	require.True(t, whole)
	require.Equal(t, "x", all[0].Text)
}
