// Package usage words the libraries' errors about the command line like the program's own.
package usage

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Errors about combinations of flags are only available as text.
var (
	requiredNotSet    = regexp.MustCompile(`^required flag\(s\) (.+) not set$`)
	oneRequired       = regexp.MustCompile(`^at least one of the flags in the group \[(.+)\] is required$`)
	mutuallyExclusive = regexp.MustCompile(`^if any flags in the group \[.+\] are set none of the others can be; \[(.+)\] were all set$`)
	requiredTogether  = regexp.MustCompile(`^if any flags in the group \[(.+)\] are set they must all be set; missing \[(.+)\]$`)
)

// Explain words errors about flags that exclude or require each other.
func Explain(cmd *cobra.Command, err error) error {
	if m := requiredNotSet.FindStringSubmatch(err.Error()); m != nil {
		names := strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", ")
		return badinput.Errorf("%s required; type %s %s (see '%[2]s --help')",
			list(names, "and", "is", "are"), cmd.CommandPath(), typed(cmd, names))
	}
	if m := oneRequired.FindStringSubmatch(err.Error()); m != nil {
		names := strings.Fields(m[1])
		return badinput.Errorf("%s required; type %s %s (see '%[2]s --help')",
			list(names, "or", "is", "is"), cmd.CommandPath(), typed(cmd, names[:1]))
	}
	if m := mutuallyExclusive.FindStringSubmatch(err.Error()); m != nil {
		return badinput.Errorf("%s not go together; leave one of them out", list(strings.Fields(m[1]), "and", "does", "do"))
	}
	if m := requiredTogether.FindStringSubmatch(err.Error()); m != nil {
		missing := strings.Fields(m[2])
		given := slices.DeleteFunc(strings.Fields(m[1]), func(name string) bool { return slices.Contains(missing, name) })
		return badinput.Errorf("%s --%s, too; type %s",
			list(given, "and", "wants", "want"), strings.Join(missing, " and --"), typed(cmd, missing))
	}
	return err
}

// list is the beginning of a sentence about flags, up to the verb.
func list(names []string, word, one, many string) string {
	last := len(names) - 1
	if last == 0 {
		return "--" + names[0] + " " + one
	}
	return "--" + strings.Join(names[:last], ", --") + " " + word + " --" + names[last] + " " + many
}

// typed are flags with values, as a user would type them.
func typed(cmd *cobra.Command, names []string) string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = "--" + name
		if f := cmd.Flags().Lookup(name); f != nil {
			words[i] += " " + value(f)
		}
	}
	return strings.Join(words, " ")
}

// value is a placeholder for the value of a flag.
func value(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	switch name {
	case "int", "uint":
		return "N"
	case "float":
		return "NUMBER"
	case "string", "strings", "stringArray":
		return "TEXT"
	}
	return strings.ToUpper(name)
}

// BadFlag words the error of an unknown flag or a wrong value. Settings are often typed as flags.
func BadFlag(cmd *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	var none *pflag.ValueRequiredError
	switch {
	case errors.As(err, &bad) && errors.Is(err, strconv.ErrRange):
		return badinput.Errorf("--%s: found %s, which is too large; expected %s nearer to 0",
			bad.GetFlag().Name, bad.GetValue(), kind(bad.GetFlag()))
	case errors.As(err, &bad):
		return badinput.Errorf("--%s: found %q, expected %s (see '%s --help')", bad.GetFlag().Name, bad.GetValue(), kind(bad.GetFlag()),
			cmd.CommandPath())
	case errors.As(err, &none):
		return badinput.Errorf("--%s: its value is missing; type %s (see '%s --help')", none.GetFlag().Name,
			typed(cmd, []string{none.GetFlag().Name}), cmd.CommandPath())
	}
	_, name, ok := strings.Cut(err.Error(), "unknown flag: --")
	if !ok {
		return badinput.Errorf("%w (see '%s --help')", err, cmd.CommandPath())
	}
	if cmd.Flags().Lookup("preset") != nil {
		// A word before it that is no setting is an unknown verb, and the flag would belong to that.
		if words := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(words) > 0 && Closest(cmd, words[0]) != "" {
			return UnknownVerb(cmd, words[0])
		}
		if key := configs.Key(name); key != "" {
			return badinput.Errorf("--%s is a setting, not a flag; type %s=VALUE", name, key)
		}
		if instead := configs.Habit(name, ""); instead != "" {
			return badinput.Errorf("--%s: %s", name, instead)
		}
	}
	return unknownFlag(cmd, name, err)
}

// kind is the type of a flag's values, in words.
func kind(f *pflag.Flag) string {
	switch t := f.Value.Type(); {
	case strings.HasPrefix(t, "int"):
		return "a whole number"
	case strings.HasPrefix(t, "uint"):
		return "a whole number, 0 or more"
	case strings.HasPrefix(t, "float"):
		return "a number"
	case t == "bool":
		return "true or false"
	default:
		return "a " + t
	}
}

// Args requires arguments with these names.
func Args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, words []string) error {
		path := cmd.CommandPath()
		usage := strings.Join(append([]string{path}, names...), " ")
		switch n := len(names); {
		case len(words) < n:
			return badinput.Errorf("%s is missing; type %s (see '%s --help')", names[len(words)], usage, path)
		case len(words) > n && cmd.HasAvailableSubCommands():
			return UnknownVerb(cmd, words[n])
		case len(words) > n && n == 0:
			return badinput.Errorf("unknown command or word %q; %s takes flags alone (see '%[2]s --help')", words[n], path)
		case len(words) > n:
			return badinput.Errorf("found %q, which is one word too many; type %s (see '%s --help')", words[n], usage, path)
		}
		return nil
	}
}

// CheckFlags refuses absurdly large counts, whose products could overflow, and empty names.
func CheckFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if n, wrong := cmd.Flags().GetInt(f.Name); wrong == nil && n > math.MaxInt32 && err == nil {
			err = badinput.Errorf("--%s: found %d, expected at most %d", f.Name, n, math.MaxInt32)
		} else if wrong == nil && f.Name == "step" && n < -1 && err == nil {
			err = badinput.Errorf("--step: found %d, expected 0 or more", n)
		}
		if err == nil && f.Value.String() == "" && names(f) {
			err = badinput.Errorf("--%s: found an empty name; type one, or leave --%[1]s out", f.Name)
		}
	})
	return err
}

// names reports whether a flag is the name of something to read or write. An empty name, such as that of an unset shell variable,
// would mean something else than intended. Only a page may be "".
func names(f *pflag.Flag) bool {
	what, _ := pflag.UnquoteUsage(f)
	return f.Value.Type() == "string" && f.Name != "page" &&
		slices.Contains([]string{"directory", "file", "place", "data", "model", "preset", "problems", "completions", "tokenizer"},
			cmp.Or(map[string]string{"string": f.Name}[what], what))
}

// AddHelpers adds the library's own verbs, with errors like ours.
func AddHelpers(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, words []string) error {
				verb, rest, err := root.Find(words)
				if len(rest) > 0 && Closest(verb, rest[0]) != "" {
					return badinput.Errorf("help %s: %s has no verb %s; did you mean %s? type %[2]s %[4]s --help", strings.Join(words, " "),
						verb.CommandPath(), rest[0], Closest(verb, rest[0]))
				}
				if err != nil || len(rest) > 0 {
					return badinput.Errorf("help %s: %s has no verb %s; type %[2]s --help", strings.Join(words, " "), verb.CommandPath(),
						strings.Join(rest, " "))
				}
				return nil
			}
		case "completion":
			c.Args = func(c *cobra.Command, words []string) error {
				if len(words) == 0 {
					return nil
				}
				return badinput.Errorf("completion: found %q, expected bash, zsh, fish or powershell; type %s bash", words[0], c.CommandPath())
			}
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			for _, shell := range c.Commands() {
				shell.Args = Args()
			}
		}
	}
}

// CheckBefore makes a verb call check before anything else, such as downloading a model.
func CheckBefore(cmd *cobra.Command, check func(args []string) error) {
	verb := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(args); err != nil {
			return err
		}
		return verb(cmd, args)
	}
}

// HideFlags hides and refuses flags that a verb shares with others but has no use for.
func HideFlags(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		if err := cmd.Flags().MarkHidden(flag); err != nil {
			panic(err)
		}
	}
	CheckBefore(cmd, func([]string) error {
		for _, flag := range flags {
			if cmd.Flags().Changed(flag) {
				return badinput.Errorf("--%s: %s does not use it; leave it out", flag, cmd.CommandPath())
			}
		}
		return nil
	})
}

// CheckTemplateFlags refuses flags about the model's chat template if that is not used, or they are invalid.
func CheckTemplateFlags(typed *pflag.FlagSet, renderer string) error {
	for _, flag := range []string{"chat-date", "chat-vars"} {
		if typed.Changed(flag) && renderer != "" && renderer != "auto" {
			return badinput.Errorf("--%s is for the model's own template, but renderer %s is another; leave it out, or type --renderer auto",
				flag, renderer)
		}
	}
	day := typed.Lookup("chat-date").Value.String()
	if _, err := time.Parse(time.DateOnly, day); err != nil && day != "" {
		return badinput.Errorf("--chat-date: found %q, expected a day such as 2024-07-26, or \"\" for none", day)
	}
	return nil
}
