package jinja

import (
	"encoding/json"
	"os"
	"testing"
	"unicode/utf8"
)

// FuzzTemplate requires that every template ends, with a text or an error, and that the tracked texts are parts of the output.
func FuzzTemplate(f *testing.F) {
	data, err := os.ReadFile("testdata/dialect.json")
	if err != nil {
		f.Fatal(err)
	}
	var file struct {
		Vars  json.RawMessage
		Cases []struct{ Template string }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		f.Fatal(err)
	}
	for _, c := range file.Cases {
		f.Add(c.Template)
	}
	f.Fuzz(func(t *testing.T, source string) {
		text, err := render(source, string(file.Vars))
		if err != nil {
			return
		}
		at := 0
		for _, d := range text.Data {
			if d.Start < at || d.End <= d.Start || d.End > len(text.S) {
				t.Fatalf("words at %v in %d bytes", text.Data, len(text.S))
			}
			at = d.End
			if utf8.ValidString(source) && !utf8.ValidString(text.S[d.Start:d.End]) {
				t.Fatalf("words are cut within a character: %q", text.S[d.Start:d.End])
			}
		}
	})
}
