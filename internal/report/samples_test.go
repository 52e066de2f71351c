package report

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A conversation is shown with its speakers, and how it ended.
func TestConversationsAreShown(t *testing.T) {
	var s sample
	require.NoError(t, json.Unmarshal([]byte(`{"text":"all of it","finish_reason":"stop","conversation":{"ending":"max_turns","messages":[`+
		`{"role":"assistant","content":"a <b>"},{"role":"user","content":"no"},{"role":"assistant","content":"c"}]}}`), &s))
	c := show(s, "best")
	require.Equal(t, "── assistant ──\na <b>\n\n── user ──\nno\n\n── assistant ──\nc", c.Text)
	require.Contains(t, c.Note, "ended by max_turns")
	require.NoError(t, json.Unmarshal([]byte(`{"conversation":null}`), &s))
	require.Equal(t, "all of it", show(s, "best").Text)
}

// Groups are chosen by the spread of existing rewards, of any size: a missing one does not count.
func TestGroupsAreChosenByTheirRewards(t *testing.T) {
	var r run
	for group, rewards := range [][]string{{"0.5", "0.5", "null"}, {"0", "1"}, {"null", "null"}, {"-3e9", "-2e9", "null"}, {"0.5", "0.6"}} {
		for _, reward := range rewards {
			s := sample{Group: group, Problem: string(rune('a' + group))}
			require.NoError(t, json.Unmarshal([]byte(`{"score":{"reward":`+reward+`}}`), &s))
			r.samples = append(r.samples, s)
		}
	}
	var chosen string
	for _, g := range r.groups() {
		chosen += g.Problem
	}
	require.Equal(t, "dbea", chosen)
	require.Equal(t, "-2000M", r.groups()[0].Completions[0].Reward)
	require.Equal(t, "none", r.groups()[0].Completions[1].Reward, "an excluded completion has no reward")
}
