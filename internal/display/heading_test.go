package display

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Names of runs in a headline are replaced only as a whole, not within other words.
func TestNamesInAHeadline(t *testing.T) {
	names := []string{"seed-1", "seed-10", "better", "", "e", "<b>"}
	name := func(text string) HeadingPart { return HeadingPart{text, true} }
	word := func(text string) HeadingPart { return HeadingPart{text, false} }
	require.Equal(t, []HeadingPart{name("seed-10"), word(" does "), name("better"), word(" than "), name("seed-1")},
		Heading("seed-10 does better than seed-1", names))
	require.Equal(t, []HeadingPart{word("No run differs from "), name("<b>"), word(" by more than chance")},
		Heading("No run differs from <b> by more than chance", names))
	require.Equal(t, []HeadingPart{word("two runs")}, Heading("two runs", nil))
}
