package data

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// Filter says which problems of a set to use. Zero fields leave everything in.
type Filter struct {
	MinTests, MaxTests int
	// MinPromptChars and MaxPromptChars bound the statement, in characters.
	MinPromptChars, MaxPromptChars int
	// TruncatePrompts cuts long statements at MaxPromptChars instead of dropping the problem.
	TruncatePrompts bool
	// Sources, if set, are the only sources to use.
	Sources []string
}

// Dropped counts the problems that a filter dropped, by reason.
type Dropped struct {
	FewTests    int `json:"few_tests"`
	ManyTests   int `json:"many_tests"`
	ShortPrompt int `json:"short_prompt"`
	LongPrompt  int `json:"long_prompt"`
	OtherSource int `json:"other_source"`
	// Truncated problems are kept.
	Truncated int `json:"truncated"`
}

// Apply returns the problems that pass, in order; problems itself is not changed.
func (f Filter) Apply(problems []Problem) (kept []Problem, n Dropped, err error) {
	if err := f.check(problems); err != nil {
		return nil, n, err
	}
	for _, p := range problems {
		chars := utf8.RuneCountInString(p.Statement)
		long := f.MaxPromptChars > 0 && chars > f.MaxPromptChars
		switch {
		case len(f.Sources) > 0 && !slices.Contains(f.Sources, p.Source):
			n.OtherSource++
		case p.NumTests < f.MinTests:
			n.FewTests++
		case f.MaxTests > 0 && p.NumTests > f.MaxTests:
			n.ManyTests++
		case chars < f.MinPromptChars:
			n.ShortPrompt++
		case long && !f.TruncatePrompts:
			n.LongPrompt++
		default:
			if long {
				n.Truncated++
				p.Statement = firstChars(p.Statement, f.MaxPromptChars)
			}
			kept = append(kept, p)
		}
	}
	return kept, n, nil
}

// check refuses filters that contradict themselves, and sources that the set does not have: a
// misspelt one would silently leave nothing.
func (f Filter) check(problems []Problem) error {
	for _, v := range []int{f.MinTests, f.MaxTests, f.MinPromptChars, f.MaxPromptChars} {
		if v < 0 {
			return badinput.Errorf("filter: found %d, expected a number of at least 0", v)
		}
	}
	switch {
	case f.MaxTests > 0 && f.MinTests > f.MaxTests:
		return badinput.Errorf("filter: min_problem_tests=%d and max_problem_tests=%d contradict each other", f.MinTests, f.MaxTests)
	case f.MaxPromptChars > 0 && f.MinPromptChars > f.MaxPromptChars:
		return badinput.Errorf("min_prompt_chars=%d and max_prompt_chars=%d contradict each other", f.MinPromptChars, f.MaxPromptChars)
	case f.TruncatePrompts && f.MaxPromptChars == 0:
		return badinput.Errorf("truncate_prompts needs max_prompt_chars, which says where to cut")
	}
	have := map[string]bool{}
	for i := range problems {
		have[problems[i].Source] = true
	}
	for _, s := range f.Sources {
		if !have[s] {
			known := []string{}
			for k := range have {
				known = append(known, k)
			}
			slices.Sort(known)
			return badinput.Errorf("filter: no problem comes from %q; the sources are %s", s, strings.Join(known, ", "))
		}
	}
	return nil
}

func firstChars(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// Blocklist is a list of strings that no completion may contain.
type Blocklist []string

// LoadBlocklist reads one string per line, spaces included; empty lines are passed over. There are
// no comments, as # may well be part of a blocked string.
func LoadBlocklist(path string) (Blocklist, error) {
	text, err := openfile.Read(path)
	if err != nil {
		return nil, badinput.Errorf("blocklist: %w", err)
	}
	if !utf8.Valid(text) {
		return nil, badinput.Errorf("blocklist %s: found bytes that are not UTF-8, expected one string per line", path)
	}
	var b Blocklist
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) { // the byte order mark of some editors
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			b = append(b, line)
		}
	}
	if len(b) == 0 {
		return nil, badinput.Errorf("blocklist %s: no string in it, expected one per line", path)
	}
	return b, nil
}

// Find returns the first blocked string of the list that text contains.
func (b Blocklist) Find(text string) (blocked string, found bool) {
	for _, s := range b {
		if strings.Contains(text, s) {
			return s, true
		}
	}
	return "", false
}

func (d Dropped) String() string {
	return fmt.Sprintf("%d of another source, %d with too few and %d with too many tests, %d too short and %d too long; %d truncated",
		d.OtherSource, d.FewTests, d.ManyTests, d.ShortPrompt, d.LongPrompt, d.Truncated)
}
