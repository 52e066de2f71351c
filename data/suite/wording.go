package suite

import (
	_ "embed"
	"strconv"
	"strings"
)

// The wordings are this project's own: they have the parts that papers' have, in their order.
var (
	//go:embed humaneval.tmpl
	humanEvalChat string
	//go:embed mbpp.tmpl
	mbppChat string
	//go:embed livecodebench.tmpl
	liveCodeBenchCompletion string
)

// wording is the template of the prompt; "" is the project's own for problems of the kind.
func (s *Suite) wording(o Options, shots []Item) string {
	switch {
	case s.Name == nameHumanEval && o.Style == Completion:
		return "{{.Statement}}"
	case s.Name == nameHumanEval:
		return strings.TrimSuffix(humanEvalChat, "\n")
	case s.Name == nameLiveCodeBench && o.Style == Completion:
		return strings.TrimSuffix(liveCodeBenchCompletion, "\n")
	case s.Name == nameLiveCodeBench:
		return ""
	case s.Name == nameGSM8K && o.Style == Chat && len(shots) == 0:
		return ""
	case s.Name == nameGSM8K:
		return answered(shots)
	case o.Style == Completion:
		return tasks(shots)
	}
	text := strings.TrimSuffix(mbppChat, "\n")
	for i := len(shots) - 1; i >= 0; i-- {
		tests := "\nTests:\n```python\n" + shots[i].StarterCode + "\n```\nAnswer:\n"
		text = literal("Task: "+shots[i].text+tests+fenced(shots[i].solution)+"\n") + text
	}
	return text
}

// tasks is what a model goes on with after solved tasks, each of them marked as papers mark them.
func tasks(shots []Item) string {
	task := func(text, tests string) string {
		return "Task: " + text + "\nThe code has to pass these tests:\n" + tests + "\n[BEGIN]\n"
	}
	var b strings.Builder
	for _, shot := range shots {
		b.WriteString(literal(task(shot.text, shot.StarterCode) + strings.TrimSpace(shot.solution) + "\n[DONE]\n\n"))
	}
	b.WriteString(task("{{trim .Statement}}", "{{.StarterCode}}"))
	return b.String()
}

// answered is a question after answered ones.
func answered(shots []Item) string {
	var b strings.Builder
	for _, shot := range shots {
		b.WriteString(literal("Question: " + shot.text + "\nAnswer: " + shot.solution + "\n\n"))
	}
	return b.String() + "Question: {{trim .Statement}}\nAnswer:"
}

// literal is a text that a template writes as it is.
func literal(text string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return "{{" + strconv.Quote(text) + "}}"
}
