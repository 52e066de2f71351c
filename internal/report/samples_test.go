package report

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A conversation is shown with who said what, and how it ended.
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
