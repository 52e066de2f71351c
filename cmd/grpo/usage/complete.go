package usage

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/configs"
)

// Settings completes settings for a shell: keys, then the values of a key, or files.
func Settings(_ *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	key, value, has := strings.Cut(typed, "=")
	if !has {
		return settingsLike(key, words), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	all, directive := valuesOf(key, value)
	for _, v := range all {
		if strings.HasPrefix(v, value) {
			out = append(out, key+"="+v)
		}
	}
	return out, directive | cobra.ShellCompDirectiveNoFileComp
}

// settingsLike are the settings with a prefix that are not typed yet, with descriptions.
func settingsLike(prefix string, words []string) (out []cobra.Completion) {
	for _, f := range configs.Describe() {
		if strings.HasPrefix(f.Key, prefix) && configs.Word(words, f.Key) == "" {
			meaning, _, _ := strings.Cut(f.Help, ". ")
			out = append(out, cobra.CompletionWithDesc(f.Key+"=", strings.TrimSuffix(meaning, ".")))
		}
	}
	return out
}

// valuesOf are the possible values of a setting; for a string, the files in the folder typed so far.
func valuesOf(key, value string) ([]string, cobra.ShellCompDirective) {
	at := slices.IndexFunc(configs.Describe(), func(f configs.Field) bool { return f.Key == key })
	if at < 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	switch f := configs.Describe()[at]; {
	case len(f.Values) > 0:
		return f.Values, cobra.ShellCompDirectiveDefault
	case f.Type == "true or false":
		return []string{"true", "false"}, cobra.ShellCompDirectiveDefault
	case f.Type != "text":
		return nil, cobra.ShellCompDirectiveDefault
	}
	dir, _ := filepath.Split(value)
	entries, _ := os.ReadDir(cmp.Or(dir, ".")) // an unreadable folder offers nothing
	var names []string
	for _, e := range entries {
		if name := dir + e.Name(); e.IsDir() {
			names = append(names, name+string(filepath.Separator))
		} else {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoSpace
}

// Presets completes --preset, also after a comma.
func Presets(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	var out []cobra.Completion
	for _, p := range configs.Presets() {
		if strings.HasPrefix(before+p, typed) {
			out = append(out, before+p)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
