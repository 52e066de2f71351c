package suite

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

var humanEval = Suite{
	Name: nameHumanEval, Title: "HumanEval", Source: "openai/openai_humaneval", Split: "test",
	Settings: Settings{K: 1, Temperature: 0.8, TopP: 0.95, MaxTokens: 1024,
		Papers: "Chen et al. 2021: greedy pass@1, and pass@k of 200 samples at temperature 0.8 and top_p 0.95 " +
			"(--samples 200 --k 100)"},
	read: readHumanEval,
}

type assertTest = data.AssertKeys

func readHumanEval(r row, o Options) (*Item, error) {
	prompt, entry := r.text("prompt", true), r.text("entry_point", true)
	about := About{Suite: nameHumanEval}
	if o.Style == Completion {
		about.Prefix = prompt
	}
	test := assertTest{Setup: prompt, Given: codeAbove(prompt, entry), Assert: strings.TrimRight(r.text("test", true), " \n") +
		"\n\ncheck(" + entry + ")\n"}
	canonical := r.text("canonical_solution", false)
	if *r.err != nil {
		return nil, *r.err
	}
	item := &Item{Problem: data.Problem{ID: r.id("task_id"), Source: nameHumanEval, Statement: prompt, FuncName: entry}, Tests: []any{test}}
	switch {
	case canonical != "" && o.Style == Completion:
		item.Canonical = canonical
	case canonical != "":
		item.Canonical = fenced(prompt + canonical)
	}
	var err error
	if item.Metadata, err = json.Marshal(about); *r.err != nil {
		err = *r.err
	}
	return item, err
}

// codeAbove is the part of the prompt above the requested function: imports, and helpers that an answer may omit.
func codeAbove(prompt, entry string) string {
	at := regexp.MustCompile(`(?m)^(async )?def `+regexp.QuoteMeta(entry)+`\b`).FindAllStringIndex(prompt, -1)
	if at == nil {
		return ""
	}
	return strings.TrimSpace(prompt[:at[len(at)-1][0]])
}

func fenced(code string) string { return "```python\n" + strings.TrimRight(code, "\n") + "\n```\n" }

// functionEnds are strings that show that a completion has left the function.
var functionEnds = []string{"\nclass ", "\ndef ", "\n#", "\n@", "\nif ", "\nprint(", "\n```", "\nassert ", "\nimport ", "\nfrom "}

// Stops are the stop strings of completions.
func (s *Suite) Stops() []string {
	switch s.Name {
	case nameMBPP, nameSanitized:
		return []string{"[DONE]"}
	case nameLiveCodeBench:
		return []string{"\n```"}
	case nameGSM8K:
		return []string{"\nQuestion:"}
	}
	return functionEnds
}

// Ended is a completion up to its first stop string.
func (s *Suite) Ended(text string) string {
	for _, stop := range s.Stops() {
		text, _, _ = strings.Cut(text, stop)
	}
	return text
}

// Programs reports whether answers are programs.
func (s *Suite) Programs() bool { return s.Name != nameGSM8K }
