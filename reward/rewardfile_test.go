package reward

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
)

// rowOf is a loader of tests, with further columns.
type rowOf map[string]json.RawMessage

func (rowOf) LoadTests(context.Context) ([]data.Test, error) {
	return []data.Test{{Stdin: "1", Stdout: "2"}}, nil
}

func (r rowOf) LoadColumns(context.Context) (map[string]json.RawMessage, error) { return r, nil }

// A reward file is given those columns of the row that it has parameters for, on its own interpreter.
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

// A function that takes anything is given everything, and one of two parameters nothing more.
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
