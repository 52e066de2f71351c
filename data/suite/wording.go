package suite

import (
	_ "embed"
	"strconv"
	"strings"
)

// The prompts are worded by this project, with the same parts as those of the papers, in the same order.
var (
	//go:embed humaneval.tmpl
	humanEvalChat string
	//go:embed mbpp.tmpl
	mbppChat string
	//go:embed livecodebench.tmpl
	liveCodeBenchCompletion string
)

// wording is the template of the prompt; "": the default template for the kind of problem.
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

// tasks is a prompt of solved tasks and the task to solve, with the [BEGIN] and [DONE] markers of the papers.
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

// answered is a prompt of answered questions and the question to answer.
func answered(shots []Item) string {
	var b strings.Builder
	for _, shot := range shots {
		b.WriteString(literal("Question: " + shot.text + "\nAnswer: " + shot.solution + "\n\n"))
	}
	return b.String() + "Question: {{trim .Statement}}\nAnswer:"
}

// literal escapes a text for a template.
func literal(text string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return "{{" + strconv.Quote(text) + "}}"
}
