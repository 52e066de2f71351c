// Package doctest finds the commands that pages of documentation tell to type, so that a test can type them. It does not know what
// they do.
//
// Commands stand in indented blocks. What is indented and begins with none of the programs below is what a program prints, or
// another language. A page says in comments, which nobody sees who reads it:
//
//	<!-- has: tasks.jsonl runs/first -->          what its reader has by then
//	<!-- not run, wants a card -->                that the block below is not run, and why
//	<!-- not run, sends something: grpo publish --> the same of those commands of the block that begin like this
package doctest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Page has the commands of a page.
type Page struct {
	Prerequisites []string // what its reader has before the first command
	Commands      []Command
}

// Command is a line of a block, with its continuation lines.
type Command struct {
	Line       int    // in the page, from 1
	Text       string // as for a shell
	SkipReason string // why it is not run; "": it is
}

// programs are the words that a command begins with.
var programs = []string{"grpo", "bin/grpo", "go", "make", "curl", "echo", "export", "duckdb", "cat", "cp", "mkdir", "for", "printf",
	"tail", "awk", "git", "cd", "sudo", "tmux", "nvidia-smi", "ssh", "rsync", "head", "source", "kill", "jq", "ls", "mv", "tar", "man",
	"python3"}

var (
	fileMark = regexp.MustCompile(`^<!-- has: (.*) -->$`)
	notRun   = regexp.MustCompile(`^<!-- not run, ([^:]+?)(?:: (.+))? -->$`)
)

// mark is a comment about commands that are not run.
type mark struct {
	line        int
	why, begins string
	used        bool
}

// Parse parses a page. A mark without a command after it is an error, and so is a block with both commands and other text.
func Parse(text string) (Page, error) {
	var page Page
	var marks []*mark
	for _, b := range parts(text) {
		if !b.indented {
			for i, line := range strings.Split(b.text, "\n") {
				if m := fileMark.FindStringSubmatch(line); m != nil {
					page.Prerequisites = append(page.Prerequisites, strings.Fields(m[1])...)
				} else if m := notRun.FindStringSubmatch(line); m != nil {
					marks = append(marks, &mark{line: b.line + i, why: m[1], begins: m[2]})
				} else if strings.HasPrefix(line, "<!-- not run") || strings.HasPrefix(line, "<!-- has") {
					return Page{}, fmt.Errorf("line %d: %s: expected <!-- has: … --> or <!-- not run, WHY: COMMAND -->", b.line+i, line)
				}
			}
			continue
		}
		commands, err := commandsOf(b)
		if err != nil {
			return Page{}, err
		}
		for i := range commands {
			commands[i].settle(marks)
		}
		if len(commands) > 0 {
			if err := unused(marks); err != nil {
				return Page{}, err
			}
			marks = nil
		}
		page.Commands = append(page.Commands, commands...)
	}
	return page, unused(marks)
}

// settle decides by the marks before it whether a command is run.
func (c *Command) settle(marks []*mark) {
	for _, m := range marks {
		if m.begins == "" || strings.HasPrefix(c.Text, m.begins) {
			m.used = true
			c.SkipReason = m.why
		}
	}
}

func unused(marks []*mark) error {
	for _, m := range marks {
		if !m.used {
			return fmt.Errorf("line %d: not run, %s: no command of the block below begins with %q", m.line, m.why, m.begins)
		}
	}
	return nil
}

// part is a part of a page: an indented block, without its indentation, or the text between two.
type part struct {
	line     int
	text     string
	indented bool
}

// parts splits a page. Blank lines within a block belong to it. A fenced block is no indented one, and neither is an indented line in
// a list, which has no blank line before it.
func parts(text string) (found []part) {
	lines := strings.Split(text, "\n")
	fenced, blank := false, true
	for i := 0; i < len(lines); {
		line := lines[i]
		if !fenced && blank && strings.HasPrefix(line, "    ") {
			end := i
			for j := i; j < len(lines) && (strings.HasPrefix(lines[j], "    ") || lines[j] == ""); j++ {
				if lines[j] != "" {
					end = j + 1
				}
			}
			block := slices.Clone(lines[i:end])
			for j := range block {
				block[j] = strings.TrimPrefix(block[j], "    ")
			}
			found = append(found, part{line: i + 1, text: strings.Join(block, "\n"), indented: true})
			i = end
			continue
		}
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		found = append(found, part{line: i + 1, text: line})
		blank = line == ""
		i++
	}
	return found
}

// commandsOf are the commands of an indented block, if any.
func commandsOf(b part) (commands []Command, err error) {
	line, other := b.line, ""
	for _, s := range statements(b.text) {
		words, err := SplitCommands(s)
		switch {
		case err == nil && len(words) == 0:
		case err == nil && slices.Contains(programs, words[0][0]):
			commands = append(commands, Command{Line: line, Text: s})
		case other == "":
			other = fmt.Sprintf("line %d: %s", line, comment(s))
		}
		line += strings.Count(s, "\n") + 1
	}
	if other != "" && len(commands) > 0 {
		return nil, fmt.Errorf("%s: is no command that is known, beside others: write what is printed into a block of its own", other)
	}
	return commands, nil
}
