package usage

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("data", 0o755))
	require.NoError(t, os.WriteFile("data/tasks.jsonl", nil, 0o644))
	for typed, want := range map[string][]string{
		"adam_beta":     {"adam_beta1=", "adam_beta2="},
		"schedule=":     {"schedule=constant", "schedule=linear", "schedule=cosine"},
		"schedule=l":    {"schedule=linear"},
		"deterministic": {"deterministic="},
		"refill=t":      {"refill=true"},
		"data=d":        {"data=data/"},
		"data=data/":    {"data=data/tasks.jsonl"},
		"data=none/":    nil,
		"max_steps=":    nil,
		"nothing=":      nil,
	} {
		got, _ := Settings(nil, nil, typed)
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], "\t")
		}
		require.Equal(t, want, got, typed)
	}
	again, _ := Settings(nil, []string{"adam_beta1=0.9"}, "adam_beta")
	require.Len(t, again, 1, "completion does not repeat a typed setting")

	got, directive := Presets(nil, nil, "tiny,da")
	require.Equal(t, []string{"tiny,dapo"}, got)
	require.Equal(t, cobra.ShellCompDirectiveNoFileComp, directive)
}
