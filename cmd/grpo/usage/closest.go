package usage

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/settings"
)

// verbSynonyms maps words of other programs to verbs.
var verbSynonyms = map[string]string{
	"show": "watch", "dashboard": "watch", "ui": "watch", "report": "watch", "list": "watch", "logs": "watch",
	"rollouts": "samples", "completions": "samples", "generate": "sample", "infer": "sample", "test": "eval", "benchmark": "bench",
	"finetune": "sft", "convert": "export-model", "gguf": "export-model", "diff": "compare", "upload": "publish", "api": "serve",
}

// Closest is the verb that a word may be meant as, "" if none is close.
func Closest(cmd *cobra.Command, word string) string {
	var verbs []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			verbs = append(verbs, c.Name())
		}
	}
	word = strings.ToLower(word)
	if near := settings.Nearest(word, verbs); near != "" {
		return near
	}
	if verb := verbSynonyms[word]; slices.Contains(verbs, verb) {
		return verb
	}
	return prefixMatch(word, verbs)
}

// prefixMatch is the known word of which word is a prefix, or the reverse, as in evaluate; at least three letters must agree.
func prefixMatch(word string, known []string) string {
	for _, k := range known {
		if len(word) > 2 && len(k) > 2 && (strings.HasPrefix(word, k) || strings.HasPrefix(k, word)) {
			return k
		}
	}
	return ""
}

// UnknownVerb is the error of a word that is neither a verb nor, where these are accepted, a setting.
func UnknownVerb(cmd *cobra.Command, word string) error {
	path, what, wanted := cmd.CommandPath(), "unknown command or setting", "expected a command or key=value"
	if cmd.HasParent() && cmd.HasAvailableSubCommands() {
		what, wanted = "unknown command", "expected a command of "+path
	}
	if near := Closest(cmd, word); near != "" {
		return badinput.Errorf("%s %q; did you mean %s? type %[4]s %[3]s (see '%[4]s --help')", what, word, near, path)
	}
	return badinput.Errorf("%s %q; %s (see '%s --help')", what, word, wanted, path)
}

// unknownFlag is the error of an unknown flag, with the one that may be meant.
func unknownFlag(cmd *cobra.Command, name string, err error) error {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	near := settings.Nearest(name, names)
	if near == "" {
		near = prefixMatch(name, names)
	}
	if near == "" {
		return badinput.Errorf("%w (see '%s --help')", err, cmd.CommandPath())
	}
	return badinput.Errorf("%w; did you mean --%s? (see '%s --help')", err, near, cmd.CommandPath())
}
