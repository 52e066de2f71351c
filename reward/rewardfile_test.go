package reward

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// rowOf is a loader of tests and further columns.
type rowOf map[string]json.RawMessage

func (rowOf) LoadTests(context.Context) ([]data.Test, error) {
	return []data.Test{{Stdin: "1", Stdout: "2"}}, nil
}

func (r rowOf) LoadColumns(context.Context) (map[string]json.RawMessage, error) { return r, nil }

// A reward file gets the columns of the row that it has parameters for, and runs with its own interpreter.
func TestRewardFileTakesColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.py")
	write(t, path, "def compute_reward(completion, ground_truth, level, *, prompt, bonus=0):\n"+
		"    assert prompt == 'Double.' and ground_truth.startswith('[')\n    return level + bonus + len(completion)\n")
	j, err := Open(t.Context(), Config{File: path, FilePython: "python3", Answers: true, Slots: 1})
	require.NoError(t, err)
	defer j.Close()
	base := data.Problem{ID: "p", Kind: data.Stdin, Statement: "Double."}
	row := base.WithLoader(1, rowOf{"level": json.RawMessage("0.5"), "other": json.RawMessage(`"x"`)})
	require.NoError(t, j.Try(t.Context(), &row))
	require.Equal(t, 2.5, grade(t, j, Completion{Problem: &row, Text: "ab"}).Reward)
	more := base.WithLoader(1, rowOf{"level": json.RawMessage("1"), "bonus": json.RawMessage("4")})
	require.Equal(t, 5.0, grade(t, j, Completion{Problem: &more}).Reward)

	none := base.WithLoader(1, rowOf{})
	s := grade(t, j, Completion{Problem: &none, Text: "ab"})
	require.Equal(t, ExcludedCustom, s.Excluded)
	require.Contains(t, s.Note, "missing 1 required positional argument: 'level'")

	_, err = Open(t.Context(), Config{File: path, FilePython: "/no/python", Answers: true})
	require.ErrorContains(t, err, "reward_python: python \"/no/python\": not found")
}

// A byte order mark is accepted, as by Python. A file that is not UTF-8 is refused, since its letters would silently become others.
func TestLettersOfARewardFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.py")
	p := data.Problem{ID: "p", Kind: data.Stdin, Statement: "Double."}
	p = p.WithLoader(1, rowOf{})
	cfg := Config{File: path, FilePython: "python3", Answers: true, Slots: 1}
	write(t, path, "\ufeffdef compute_reward(completion, ground_truth):\r\n    return completion.count('é')\r\n")
	j, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, 2.0, grade(t, j, Completion{Problem: &p, Text: "éaé"}).Reward)
	require.NoError(t, j.Close())

	write(t, path, "def compute_reward(completion, ground_truth):\n    return completion.count('\xe9')\n")
	_, err = Open(t.Context(), cfg)
	require.EqualError(t, err, "reward_file="+path+" is not UTF-8; save it as UTF-8")
	require.True(t, badinput.Is(err))
}

// A function with **columns gets all columns, one with two parameters none.
func TestColumnsThatAreTaken(t *testing.T) {
	row := data.Problem{ID: "p", Source: "s", Statement: "x"}.WithLoader(1, rowOf{"level": json.RawMessage("1"), "completion": nil})
	all, err := columns{All: true}.of(t.Context(), &row)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"id": "p", "source": "s", "prompt": "x", "level": json.RawMessage("1")}, all)
	require.False(t, columns{}.some())
	some, err := columns{Names: []string{"level", "hint"}}.of(t.Context(), &row)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"level": json.RawMessage("1")}, some)
}

// compute_rewards is called once with all completions of a problem, in order, without those that are not to be
// judged.
func TestRewardFileOfAGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.py")
	write(t, path, "def compute_rewards(completions, ground_truth, level=1, **more):\n"+
		"    assert ground_truth == '42' and more['prompt'] == 'Double.' and 'completions' not in more\n"+
		"    if 'short' in completions: return [1]\n"+
		"    if 'loud' in completions: __import__('sys').stderr.write('heard once\\n')\n"+
		"    if 'odd' in completions: return [float('inf' if c == 'odd' else 1) for c in completions]\n"+
		"    return [None if c == 'none' else level * (10 * i + len(set(completions))) for i, c in enumerate(completions)]\n")
	j, err := Open(t.Context(), Config{File: path, Answers: true, Slots: 1, OnTruncated: MaskTruncated})
	require.NoError(t, err)
	defer j.Close()
	require.True(t, j.Whole())
	base := data.Problem{ID: "p", Kind: data.Stdin, Statement: "Double.", Metadata: json.RawMessage(`{"ground_truth":"42"}`)}
	row := base.WithLoader(1, rowOf{"level": json.RawMessage("0.5"), "completions": json.RawMessage("1")})
	require.NoError(t, j.Try(t.Context(), &row))
	group := func(texts ...string) (all []Completion) {
		peers := NewPeers(len(texts))
		for i, text := range texts {
			all = append(all, Completion{Problem: &row, Text: text, Truncated: text == "cut", Peers: peers, Place: i})
		}
		return all
	}
	scores, err := All(t.Context(), j, group("a", "cut", "b", "none", "a"))
	require.NoError(t, err)
	require.Equal(t, []Exclusion{"", ExcludedTruncated, "", ExcludedCustom, ""},
		[]Exclusion{scores[0].Excluded, scores[1].Excluded, scores[2].Excluded, scores[3].Excluded, scores[4].Excluded})
	require.Equal(t, []float64{1.5, 6.5, 16.5}, []float64{scores[0].Reward, scores[2].Reward, scores[4].Reward})
	require.Contains(t, scores[3].Note, "compute_rewards returned None for completion 2, expected a finite number")

	scores, err = All(t.Context(), j, group("a", "odd"))
	require.NoError(t, err)
	require.Equal(t, []any{Exclusion(""), 1., ExcludedCustom}, []any{scores[0].Excluded, scores[0].Reward, scores[1].Excluded})
	require.Contains(t, scores[1].Note, "compute_rewards returned inf for completion 1, expected a finite number")

	scores, err = All(t.Context(), j, group("a", "short"))
	require.NoError(t, err)
	require.Contains(t, scores[0].Note+scores[1].Note, "compute_rewards returned [1.0], expected a list of 2 numbers")
	require.Equal(t, 0.5, grade(t, j, Completion{Problem: &row, Text: "alone"}).Reward, "a completion without a group is scored alone")
	j.Warnings()
	_, err = All(t.Context(), j, group("loud", "a", "b"))
	require.NoError(t, err)
	require.Equal(t, []string{"reward_file=" + path + " writes to standard error: heard once"}, j.Warnings(),
		"one call for the group gives one warning")
	require.Positive(t, j.Stats().CustomSeconds)

	write(t, path, "def compute_rewards(c): pass\ndef compute_reward(c, g): pass\n")
	_, err = Open(t.Context(), Config{File: path, Answers: true, Slots: 1})
	require.ErrorContains(t, err, "found compute_reward and compute_rewards; keep one")
}

// A completion that waits for peers that never come stops waiting when its context ends.
func TestPeersThatDoNotCome(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewPeers(2).judge(ctx, 0, "a", nil)
	require.ErrorIs(t, err, context.Canceled)
}

// A file that takes too long to load for a cell is found when it is tried, and the error blames the file, not the machine.
func TestARewardFileLoadsInTheTimeOfACell(t *testing.T) {
	cfg, f := Config{File: filepath.Join(t.TempDir(), "r.py")}, &fake{}
	write(t, cfg.File, "def compute_reward(completion, ground_truth):\n    return 1\n")
	_, _, err := cfg.openFile(t.Context(), sandbox.Options{}, f)
	require.ErrorContains(t, err, "cannot be loaded in the sandbox")
	require.Equal(t, sandbox.ReadyTimeout, f.limits[0].Wall)
	require.LessOrEqual(t, f.limits[0].CPU, sandbox.ReadyTimeout)
}

// Opening a pool with a slow preload can be cancelled, as by ^C, and the next caller opens the pool.
func TestOpeningAPoolIsBrokenOff(t *testing.T) {
	t.Parallel()
	l := &lazyPool{options: sandbox.Options{Slots: 1, Preload: "import time\ntime.sleep(.5)\n"}}
	defer l.Close()
	asked, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := l.open(asked)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	pool, err := l.open(t.Context())
	require.NoError(t, err)
	again, err := l.open(asked)
	require.NoError(t, err)
	require.Same(t, pool, again)
}
