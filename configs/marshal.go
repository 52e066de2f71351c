package configs

import (
	"bytes"
	"fmt"
	"strings"
)

// Marshal writes the configuration as YAML that Load reads back unchanged: every setting, in order, with its help as a
// comment.
func (c *Config) Marshal() []byte {
	var out bytes.Buffer
	section := ""
	for i, f := range fields() {
		if f.Section != section {
			section = f.Section
			fmt.Fprintf(&out, "\n# ── %s\n", section)
		}
		out.WriteByte('\n')
		for _, line := range wrap(f.help(), lineWidth) {
			fmt.Fprintf(&out, "# %s\n", line)
		}
		fmt.Fprintf(&out, "%s: %s\n", f.Key, quoteField(c, i))
	}
	return bytes.TrimLeft(out.Bytes(), "\n")
}

const lineWidth = 98

// help is the help text, with the allowed values if they are few.
func (f Field) help() string {
	if len(f.Values) == 0 {
		return f.Help
	}
	return f.Help + " (" + or(f.Values) + ")"
}

// quoteField is field i as YAML.
func quoteField(c *Config, i int) string {
	if s, ok := c.pointer(i).(*string); ok {
		return quote(*s)
	}
	return c.text(i)
}

// wrap wraps a text at width bytes.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
