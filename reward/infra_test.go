package reward

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// A failure of the sandbox is not a score of 0: the completion is excluded, nothing is cached, and too many
// failures stop the run.
func TestInfra(t *testing.T) {
	f := newFake()
	f.broken = 1
	rules := correct(t)
	rules.InfraLimit = 3
	j := NewJudge(rules, f, nil, nil)
	c := Completion{Problem: echoProblem("p", 2), Text: fenced("echo")}
	s := grade(t, j, c)
	require.Equal(t, ExcludedInfra, s.Excluded)
	require.Equal(t, INFRA, s.Verdict)
	require.Contains(t, s.Note, "the cell is gone")
	require.Equal(t, 1.0, grade(t, j, c).Reward, "a failure of the machine is not cached")

	f.broken = 1000
	c.Problem = echoProblem("q", 3)
	for range 2 {
		require.Equal(t, ExcludedInfra, grade(t, j, c).Excluded)
	}
	for range 2 {
		_, err := j.Grade(t.Context(), c)
		var stop *InfraError
		require.ErrorAs(t, err, &stop)
		require.Equal(t, 4, stop.Failed)
		require.ErrorContains(t, err,
			"for 4 of the last 5 completions, most recently: sandbox failed 3 times in a row: the cell is gone; run 'grpo doctor'")
	}
	require.EqualValues(t, 4, j.Stats().Infra)
}

// If both the sandbox and the reward file fail on a completion, the machine is to blame, as its failure may be the cause of the file's. A
// failure of a file that has no weight in the reward stops nothing.
func TestTheSandboxIsToBlameBeforeTheRewardFile(t *testing.T) {
	f, file := newFake(), newFake() // which has no compute_reward
	rules := Rules{Weights: Weights{Correct: 1, Custom: 1}, InfraLimit: 1}
	j := NewJudge(rules, f, nil, file)
	c := Completion{Problem: echoProblem("p", 2), Text: fenced("echo")}
	f.broken = 2
	s := grade(t, j, c)
	require.Equal(t, ExcludedInfra, s.Excluded)
	require.Contains(t, s.Note, "the cell is gone")
	_, err := j.Grade(t.Context(), c)
	require.ErrorAs(t, err, new(*InfraError))

	rules.Weights.Custom = 0
	j = NewJudge(rules, f, nil, file)
	for range 5 {
		s = grade(t, j, c)
		require.Equal(t, []any{Exclusion(""), 1.0, "reward file: CE no such program"}, []any{s.Excluded, s.Reward, s.Note})
	}
}

// A call of compute_rewards has the time limit of all its completions together.
func TestTheTimeOfCompletionsAskedAboutTogether(t *testing.T) {
	file := newFake()
	file.programs[rewardsWithColumns] = func(in sandbox.Input) sandbox.Result { return returns("[1, 2, 3]") }
	rules := Rules{Weights: Weights{Custom: 1}, Timeout: 2 * time.Second}
	j := NewJudge(rules, newFake(), nil, file)
	j.custom.takes.Whole = true
	var group []Completion
	peers, p := NewPeers(3), echoProblem("p", 1)
	for place := range 3 {
		group = append(group, Completion{Problem: p, Peers: peers, Place: place})
	}
	scores, err := All(t.Context(), j, group)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2, 3}, []float64{scores[0].Reward, scores[1].Reward, scores[2].Reward})
	require.Equal(t, []sandbox.Limits{{CPU: 6 * time.Second}}, file.limits)
}

// Occasional failures over a long run do not stop it.
func TestInfraFarApart(t *testing.T) {
	w := infraWatch{limit: 1}
	for i := range 40 * infraWindow {
		require.NoError(t, w.note(i%infraWindow == 0, "x"))
	}
	require.NoError(t, w.note(true, "x"), "an older failure has left the window")
	stop := w.note(true, "x")
	require.Error(t, stop)
	require.Equal(t, stop, w.note(true, "of another that was under way"))
	require.Equal(t, stop, w.stopped())
}

func TestTestsThatCannotBeFetched(t *testing.T) {
	p := data.Problem{ID: "p", Kind: data.Stdin}.WithLoader(1, brokenLoader{})
	_, err := NewJudge(correct(t), newFake(), nil, nil).Grade(t.Context(), Completion{Problem: &p, Text: fenced("echo")})
	require.EqualError(t, err, "problem p: disk gone")

	for _, takes := range []columns{{}, {Whole: true, Names: []string{"ground_truth"}}} {
		j := NewJudge(Rules{Weights: Weights{Custom: 1}}, newFake(), nil, newFake())
		j.custom.takes = takes
		_, err = j.Grade(t.Context(), Completion{Problem: &p, Text: "no program"})
		require.EqualError(t, err, "problem p: disk gone", "the reward file is not asked")
	}
	p = data.Problem{ID: "p", Kind: data.Stdin, Metadata: json.RawMessage(`{"ground_truth":"1"}`)}.WithLoader(1, brokenColumns{})
	for _, whole := range []bool{false, true} {
		j := NewJudge(Rules{Weights: Weights{Custom: 1}}, newFake(), nil, newFake())
		j.custom.takes = columns{Whole: whole, Names: []string{"level"}}
		_, err = j.Grade(t.Context(), Completion{Problem: &p, Text: "no program"})
		require.EqualError(t, err, "problem p: columns gone", "the reward file is not asked without them")
	}

	p = data.Problem{ID: "p", Kind: data.Stdin}.WithLoader(1, emptyLoader{})
	_, err = NewJudge(correct(t), newFake(), nil, nil).Grade(t.Context(), Completion{Problem: &p, Text: fenced("echo")})
	require.EqualError(t, err, "problem p has no tests")
}

type emptyLoader struct{}

type brokenLoader struct{}

type brokenColumns struct{ emptyLoader }

func (brokenColumns) LoadColumns(context.Context) (map[string]json.RawMessage, error) {
	return nil, errors.New("columns gone")
}
