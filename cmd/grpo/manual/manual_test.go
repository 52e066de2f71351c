package manual

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

func program() *cobra.Command {
	root := &cobra.Command{Use: "grpo [key=value …]", Short: "Train", RunE: func(*cobra.Command, []string) error { return nil }}
	eval := &cobra.Command{Use: "eval", Short: "Ask", Example: "  grpo eval --run DIR\n  'x'", Run: func(*cobra.Command, []string) {},
		Long: "First.\n.not a macro\n\n\tindented \\n\n\nLast — really."}
	eval.Flags().StringP("run", "r", "", "a `DIR` of a run")
	eval.Flags().Int("k", 4, "samples")
	root.AddCommand(eval, Command())
	return root
}

func TestAPage(t *testing.T) {
	root := program()
	verb, _, err := root.Find([]string{"eval"})
	require.NoError(t, err)
	var page strings.Builder
	require.NoError(t, Write(&page, verb))
	require.Equal(t, strings.Join([]string{
		`.TH "GRPO-EVAL" 1 "" "grpo" "User Commands"`, `.SH NAME`, `grpo\-eval \- Ask`, `.SH SYNOPSIS`, `.B grpo eval [flags]`,
		`.SH DESCRIPTION`, `First.`, `\&.not a macro`, `.PP`, `.nf`, `    indented \en`, `.fi`, `.PP`, `Last \[u2014] really.`,
		`.SH OPTIONS`, `.TP`, `.B \-h, \-\-help`, `help for eval`, `.TP`, `.B \-\-k int`, `samples (default 4)`, `.TP`,
		`.B \-r, \-\-run DIR`, `a DIR of a run`, `.SH EXAMPLES`, `.nf`, `grpo eval \-\-run DIR`, `\&'x'`, `.fi`, ``}, "\n"), page.String())
}

// Only macros begin with a dot, everything is ASCII, and every setting is there.
func TestTheWholeManual(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	root := program()
	root.SetArgs([]string{"manual", "--out", dir})
	require.NoError(t, root.Execute())
	for _, name := range []string{"grpo.1", "grpo-eval.1", "grpo-manual.1"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, ".") {
				require.Regexp(t, `^\.(TH|SH|SS|TP|B|PP|nf|fi)\b`, line)
			}
			require.NotRegexp(t, regexp.MustCompile(`[^\n -~]`), line)
		}
		if name == "grpo.1" {
			for _, f := range configs.Describe() {
				require.Contains(t, string(text), "\n.B "+strings.ReplaceAll(f.Key, "-", `\-`)+"=")
			}
			require.Contains(t, string(text), "grpo\\-eval(1)\nAsk\n")
		}
	}
}

func TestAVerbThatIsNotThere(t *testing.T) {
	root := program()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs([]string{"manual", "evil"})
	require.EqualError(t, root.Execute(), "there is no command evil; see 'grpo --help'")
	root.SetArgs([]string{"manual", "--out", t.TempDir(), "eval"})
	require.EqualError(t, root.Execute(), "--out writes the pages of all verbs; leave eval out")
}
