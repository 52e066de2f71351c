// Package manual writes man pages from the commands and settings.
package manual

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
)

// Command is grpo manual.
func Command() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "manual [VERB …]",
		Short: "Print the manual page of grpo or of a command, or write all of them",
		Long: `Prints the page in the format of man(1); the page of grpo itself has every setting. With --out, writes the pages of grpo and of
all commands into a folder; man looks for yours in ~/.local/share/man/man1.`,
		Example: `  grpo manual | man -l -
  grpo manual bench decode | man -l -
  grpo manual --out ~/.local/share/man/man1 && man grpo-eval`,
		RunE: func(cmd *cobra.Command, words []string) error {
			if out != "" {
				if len(words) > 0 {
					return badinput.Errorf("--out writes the pages of all verbs; leave %s out", strings.Join(words, " "))
				}
				if err := (destination.Place{Flag: "--out", Path: out, IsDir: true}).Check(); err != nil {
					return err
				}
				return writeAll(cmd.Root(), out)
			}
			verb, rest, err := cmd.Root().Find(words)
			if err != nil || len(rest) > 0 {
				return badinput.Errorf("there is no command %s; see '%s --help'", strings.Join(words, " "), cmd.Root().Name())
			}
			return Write(cmd.OutOrStdout(), verb)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the pages of grpo and of every command into this `folder`")
	return cmd
}

// writeAll writes the page of a command, and of its subcommands.
func writeAll(cmd *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return badinput.Errorf("--out: %w", err)
	}
	var page strings.Builder
	if err := Write(&page, cmd); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, title(cmd)+".1"), []byte(page.String())); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := writeAll(sub, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func title(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Write writes the page of a command.
func Write(w io.Writer, cmd *cobra.Command) error {
	cmd.InitDefaultHelpFlag()
	p := &page{}
	p.line(".TH %q 1 \"\" \"grpo\" \"User Commands\"", strings.ToUpper(title(cmd)))
	p.section("NAME")
	p.text(title(cmd) + " - " + cmd.Short)
	p.section("SYNOPSIS")
	p.line(".B %s", escape(cmd.UseLine()))
	if cmd.Long != "" {
		p.section("DESCRIPTION")
		p.text(cmd.Long)
	}
	p.flags(cmd)
	p.verbs(cmd)
	if !cmd.HasParent() {
		p.settings()
	}
	if cmd.Example != "" {
		p.section("EXAMPLES")
		p.block(cmd.Example)
	}
	if !cmd.HasParent() {
		p.section("EXIT STATUS")
		p.text("0 it did what was asked; 1 the machine failed; 2 the input was wrong; 130 it was interrupted.")
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// page is a page in the macros of man(7).
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }
func (p *page) section(name string)             { p.line(".SH %s", name) }

// text adds paragraphs; indented ones are kept as they are.
func (p *page) text(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			p.line(".PP")
		}
		if strings.HasPrefix(paragraph, "\t") || strings.HasPrefix(paragraph, "  ") {
			p.block(paragraph)
		} else {
			p.line("%s", escape(paragraph))
		}
	}
}

// block adds lines as they are.
func (p *page) block(text string) {
	p.line(".nf")
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		p.line("%s", escape(strings.TrimPrefix(line, "  ")))
	}
	p.line(".fi")
}

func (p *page) item(name, text string) {
	p.line(".TP\n.B %s", escape(name))
	p.line("%s", escape(text))
}

func (p *page) flags(cmd *cobra.Command) {
	p.section("OPTIONS")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, help := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			help += " (default " + f.DefValue + ")"
		}
		p.item(name, help)
	})
}

func (p *page) verbs(cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	p.section("COMMANDS")
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			p.item(title(sub)+"(1)", sub.Short)
		}
	}
}

func (p *page) settings() {
	p.section("SETTINGS")
	p.text("Words of the form key=value, of a training run.")
	section := ""
	for _, f := range configs.Describe() {
		if f.Section != section {
			section = f.Section
			p.line(".SS %s", escape(section))
		}
		p.item(f.Key+"="+f.Default, f.Help)
	}
}

// escape escapes a text for troff, and characters that are not ASCII.
func escape(text string) string {
	var b strings.Builder
	begins := true // of a line
	for _, r := range text {
		switch {
		case begins && (r == '.' || r == '\''):
			fmt.Fprintf(&b, `\&%c`, r)
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\t':
			b.WriteString("    ")
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
		begins = r == '\n'
	}
	return b.String()
}
