package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/doctest"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// The commands on the pages are valid: their verbs, flags and settings exist and accept the values, make has the targets, and a pattern
// of tests matches some.
func TestTheCommandsOfThePages(t *testing.T) {
	race.SkipSerial(t)
	counts := map[string]int{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, c := range append(blockCommands(t, page, string(text)), inSentences(string(text))...) {
			where := fmt.Sprintf("%s: %s", page, strings.Join(c, " "))
			switch {
			case c[0] == "named" && c[1] == "grpo":
				namesOnly(t, where, c[2:])
			case c[0] == "grpo" || c[0] == "bin/grpo":
				requireAccepted(t, where, c[1:])
			case len(c) > 2 && c[0] == "go" && c[1] == "run" && c[2] == "./cmd/grpo":
				requireAccepted(t, where, c[3:])
			case c[0] == "make":
				requireTargets(t, where, c[1:])
			case len(c) > 1 && c[0] == "go" && c[1] == "test":
				findsTests(t, where, c[2:])
			default:
				continue
			}
			counts[strings.TrimPrefix(c[0], "bin/")]++
		}
	}
	require.Greater(t, counts["grpo"], 50, "commands are found in the pages")
	require.Greater(t, counts["make"], 10)
	require.Greater(t, counts["go"], 10)
}

// Invalid commands are found.
func TestCommandsThatCannotBeTyped(t *testing.T) {
	for line, says := range map[string]string{
		"grpo evaluate runs/x":                "evaluate",
		"grpo eval --runs x":                  "--runs",
		"grpo sample":                         "",
		"grpo learning_rat=1 max_steps=2":     "learning_rat",
		"grpo --preset qwen9 data=tasks.json": "qwen9",
	} {
		words, err := doctest.SplitCommands(line)
		require.NoError(t, err)
		err = parseCommand(words[0][1:])
		if says == "" {
			require.NoError(t, err, line)
			continue
		}
		require.ErrorContains(t, err, says, line)
	}
}

// pages are the pages for users.
func pages(t *testing.T) []string {
	docs, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	docs = slices.DeleteFunc(docs, func(p string) bool { return filepath.Base(p) == "log.md" }) // its commands were valid once
	return append(docs, "../../README.md", "../../CONTRIBUTING.md")
}

// quoted matches text between backticks.
var quoted = regexp.MustCompile("`([^`\n]+(?:\n[^`\n]+)?)`")

// blockCommands are the commands in a page's code blocks.
func blockCommands(t *testing.T, path, text string) (commands [][]string) {
	page, err := doctest.Parse(text)
	require.NoError(t, err, path)
	for _, c := range page.Commands {
		words, err := doctest.SplitCommands(c.Text)
		require.NoError(t, err, "%s:%d: %s", path, c.Line, c.Text)
		commands = append(commands, words...)
	}
	return commands
}

// inSentences are the commands quoted in a page's sentences; those of grpo may lack their arguments.
func inSentences(page string) (commands [][]string) {
	for _, span := range quoted.FindAllStringSubmatch(page, -1) {
		found, err := doctest.SplitCommands(span[1])
		if err != nil || strings.Contains(span[1], "…") {
			continue
		}
		for _, c := range found {
			if c[0] = strings.TrimPrefix(c[0], "bin/"); c[0] == "grpo" && len(c) > 1 {
				c = append([]string{"named"}, c...)
			}
			commands = append(commands, c)
		}
	}
	return commands
}

// requireAccepted requires that the program accepts a command line.
func requireAccepted(t *testing.T, where string, words []string) {
	if strings.Contains(strings.Join(words, " "), "…") {
		return // a placeholder, not a command
	}
	assert.NoError(t, parseCommand(words), where)
}

// namesOnly requires that the quoted verb and flags exist.
func namesOnly(t *testing.T, where string, words []string) {
	verb, rest, err := newRoot().Find(words)
	assert.NoError(t, err, where)
	for _, w := range rest {
		if name, long := strings.CutPrefix(w, "--"); long && verb != nil {
			name, _, _ = strings.Cut(name, "=")
			verb.InitDefaultHelpFlag()
			verb.InitDefaultVersionFlag()
			assert.NotNil(t, verb.Flag(name), "%s has no --%s", where, name)
		}
	}
}

// parseCommand parses a command line as far as that is possible without executing it.
func parseCommand(words []string) error {
	root := newRoot()
	verb, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := verb.ParseFlags(rest); err != nil {
		return err
	}
	args := verb.Flags().Args()
	if err := verb.ValidateArgs(args); err != nil || verb != root {
		return err
	}
	return resolves(verb, args)
}

// resolves parses the arguments of a training run; the files that it names need not exist.
func resolves(verb *cobra.Command, words []string) error {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		key, _, _ := strings.Cut(w, "=")
		return key == "resume" || key == "init_from"
	})
	_, err := grpo.Resolve(configs.Source{Preset: verb.Flag("preset").Value.String(), Overrides: words})
	return err
}

func requireTargets(t *testing.T, where string, words []string) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	for _, w := range words {
		if !strings.Contains(w, "=") && regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(w) {
			assert.Regexp(t, `(?m)^`+w+`:`, string(makefile), where)
		}
	}
}

// findsTests requires each alternative of a -run or -bench pattern to match a test of the named packages.
func findsTests(t *testing.T, where string, words []string) {
	var dirs []string
	pattern, kind := "", "Test|Example|Fuzz"
	for i, w := range words {
		switch {
		case w == "." || strings.HasPrefix(w, "./"):
			dirs = append(dirs, w)
		case i > 0 && (words[i-1] == "-run" || words[i-1] == "-bench") && w != "XXX" && w != "^$":
			pattern = w
			if words[i-1] == "-bench" {
				kind = "Benchmark"
			}
		}
	}
	var names []string
	for _, dir := range dirs {
		names = append(names, testsOf(t, where, dir, kind)...)
	}
	for one := range strings.SplitSeq(pattern, "|") {
		first, _, _ := strings.Cut(one, "/")
		found := regexp.MustCompile(first)
		assert.True(t, len(dirs) == 0 || slices.ContainsFunc(names, found.MatchString), "%s: there is no test %s in %v", where, one, dirs)
	}
}

// testsOf are the tests of a package, or of all packages below a folder.
func testsOf(t *testing.T, where, dir, kind string) (names []string) {
	dir, all := strings.CutSuffix(dir, "/...")
	top := filepath.Join("../..", dir)
	function := regexp.MustCompile(`(?m)^func ((?:` + kind + `)\w+)\(`)
	require.NoError(t, filepath.WalkDir(top, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && path != top && !all {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range function.FindAllSubmatch(text, -1) {
				names = append(names, string(m[1]))
			}
		}
		return nil
	}), where)
	return names
}

// The messages that the page of troubles quotes are messages of the program.
func TestTheMessagesOfThePages(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)
	var source strings.Builder
	require.NoError(t, filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	}))
	found := 0
	for line := range strings.Lines(string(page)) {
		row := strings.Split(line, "|")
		if len(row) < 3 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(row[1], -1) {
			for part := range strings.SplitSeq(m[1], "…") {
				if part = strings.TrimSpace(part); len(part) > 2 && !strings.HasPrefix(part, "grpo ") {
					found++
					assert.Contains(t, source.String(), part, "of the message %s", m[1])
				}
			}
		}
	}
	require.Greater(t, found, 20)
}
