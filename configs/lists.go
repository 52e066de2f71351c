package configs

import (
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// Lists reads a YAML file in which a key may have several values, for several runs. It returns the words for 'grpo sweep':
// key=a,b, with brackets around a value that contains commas. extends is the preset that the file names; "": none.
func Lists(path string) (words []string, extends string, err error) {
	text, err := openfile.Read(path)
	if err != nil {
		return nil, "", badinput.Errorf("--file: %w", err)
	}
	all, err := parseYAML(path, text)
	if err != nil {
		return nil, "", err
	}
	for _, s := range all {
		values := s.value.list
		if !s.value.isList {
			values = []string{s.value.text}
		}
		switch s.key {
		case "version":
		case "extends":
			extends = s.value.text
		default:
			parts := make([]string, len(values))
			for i, v := range values {
				if parts[i] = v; strings.Contains(v, ",") && !strings.HasPrefix(v, "[") {
					parts[i] = "[" + v + "]"
				}
			}
			words = append(words, s.key+"="+strings.Join(parts, ","))
		}
	}
	return words, extends, nil
}

// or joins words: "a, b or c".
func or(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
