package reward

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/match"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward/referee"
)

// The judge model's score is a component like others. It is asked once about equal completions, and a completion without a score has
// no reward.
func TestRefereeIsAComponent(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Messages []struct{ Content string } }
		json.NewDecoder(r.Body).Decode(&q)
		asked.Add(1)
		score := "0.5"
		if strings.Contains(q.Messages[0].Content, "mumble") {
			score = "hm"
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"%s"}}]}`, score)
	}))
	defer server.Close()
	open := func(prompt string) *Judge {
		j, err := Open(t.Context(), Config{Weights: "correct=1,judge=2", Answers: true, InfraLimit: 2, OnTruncated: MaskTruncated,
			Judge: referee.Config{URL: server.URL, Model: "m", Prompt: prompt}})
		require.NoError(t, err)
		t.Cleanup(func() { j.Close() })
		return j
	}
	j := open("{{.Completion}} {{.GroundTruth}}")
	p := data.Problem{ID: "p", Kind: data.Answer, Match: match.Exact}.WithTests(data.Test{Match: data.Match{By: match.Exact, Want: "a"}})
	require.NoError(t, j.Try(t.Context(), &p))
	for range 2 {
		s := grade(t, j, Completion{Problem: &p, Text: "a"})
		require.Equal(t, 2.0, s.Reward)
		require.Equal(t, Components{Correct: 1, Fraction: 1, Judge: 0.5}, s.Components)
	}
	require.EqualValues(t, 2, asked.Load())
	require.Equal(t, ExcludedTruncated, grade(t, j, Completion{Problem: &p, Text: "b", Truncated: true}).Excluded)
	require.EqualValues(t, 2, asked.Load(), "the judge is not asked about excluded completions")

	for range 2 {
		s := grade(t, j, Completion{Problem: &p, Text: "mumble"})
		require.Equal(t, ExcludedJudge, s.Excluded)
		require.Equal(t, `judge: found no score in the answer "hm"`, s.Note)
		require.True(t, s.Excluded.Failed())
		require.Equal(t, []string{`the judge gave no score to 1 completion; the first time: found no score in the answer "hm"`}, j.Warnings())
	}
	require.Empty(t, j.Warnings())
	require.EqualValues(t, 4, asked.Load(), "a missing score is requested again")
	_, err := j.Grade(t.Context(), Completion{Problem: &p, Text: "mumble"})
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "the judge gave no score to 3 of the last 5 completions")

	err = open("mumble {{.Completion}}").Try(t.Context(), &p)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "judge_url: the judge fails on a trial completion of problem p: found no score")
	for says, cfg := range map[string]Config{
		"but no judge_url= names":  {Weights: "judge=1", Answers: true},
		"no weight uses the judge": {Answers: true, Judge: referee.Config{URL: "http://x"}},
	} {
		_, err = Open(t.Context(), cfg)
		require.ErrorContains(t, err, says)
	}
}

// The judge model is not asked about a completion that is excluded anyway, or whose problem cannot be loaded.
func TestWhatNoRefereeIsAskedAbout(t *testing.T) {
	f := newFake()
	f.broken = 1
	j := NewJudge(Rules{Weights: Weights{Judge: 1}}, f, nil, nil)
	var err error
	j.referee, err = newRefereed(referee.Config{URL: "http://nowhere.invalid", Prompt: "{{.Completion}} {{.GroundTruth}}"})
	require.NoError(t, err)
	require.Equal(t, ExcludedInfra, grade(t, j, Completion{Problem: echoProblem("q", 1), Text: fenced("echo")}).Excluded)
	lost := data.Problem{ID: "p", Kind: data.Stdin}.WithLoader(1, brokenLoader{})
	_, err = j.Grade(t.Context(), Completion{Problem: &lost, Text: "no program"})
	require.ErrorContains(t, err, "problem p: disk gone", "a failure to load the problem is an error, not a score")
	require.Zero(t, j.referee.referee.Sent())
}
