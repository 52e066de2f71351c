package usage

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Presets given one after the other are those separated by commas.
func TestSeveralPresets(t *testing.T) {
	for want, words := range map[string][]string{
		"":               nil,
		"tiny":           {"--preset", "tiny"},
		"tiny,dapo":      {"--preset", "tiny", "--preset=dapo"},
		"tiny,dapo,gspo": {"--preset", "tiny,dapo", "--preset", "gspo"},
	} {
		var names string
		fl := pflag.NewFlagSet("", pflag.ContinueOnError)
		fl.Var(SeveralPresets(&names), "preset", "")
		require.NoError(t, fl.Parse(words))
		require.Equal(t, want, names)
	}
}
