package suite

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

var mbppSettings = Settings{K: 1, Temperature: 0.8, TopP: 0.95, MaxTokens: 1024, Shots: 3,
	Papers: "Austin et al. 2021: the tasks 11 to 510, three examples (2, 3, 4) for models that go on with a text; " +
		"greedy pass@1 as reported since"}

var mbpp = Suite{
	Name: nameMBPP, Title: "MBPP", Source: "google-research-datasets/mbpp", Split: "all", Collection: "full", Shots: true,
	Settings: mbppSettings, read: func(r row, o Options) (*Item, error) { return readMBPP(nameMBPP, r, o) },
}

var mbppSanitized = Suite{
	Name: nameSanitized, Title: "MBPP, sanitized", Source: "google-research-datasets/mbpp", Split: "all", Collection: "sanitized",
	Shots: true, Settings: mbppSettings, read: func(r row, o Options) (*Item, error) { return readMBPP(nameSanitized, r, o) },
}

// The tasks of the test split, and the preferred few-shot examples.
const firstTask, lastTask = 11, 510

var exampleTasks = []int{2, 3, 4}

// readMBPP reads a row of the full set (text, test_setup_code) or of the sanitized one (prompt, test_imports).
func readMBPP(name string, r row, o Options) (*Item, error) {
	task := r.number("task_id")
	if *r.err != nil {
		return nil, *r.err
	}
	isShot := slices.Contains(exampleTasks, task) || task < firstTask
	if !isShot && task > lastTask {
		return nil, nil
	}
	statement := "text"
	if !r.has(statement) {
		statement = "prompt"
	}
	tests, code := r.list("test_list"), r.text("code", false)
	setup := strings.Join(append(r.list("test_imports"), r.text("test_setup_code", false)), "\n")
	// The further assertions in challenge_test_list are left out, as in published results.
	calls := definedNames(code, strings.Join(append(slices.Clone(tests), setup), "\n"))
	text := r.text(statement, true)
	switch {
	case *r.err != nil:
		return nil, *r.err
	case len(tests) == 0:
		return nil, refuse(`"test_list": found no test`)
	}
	if len(calls) == 0 { // without a solution, take the function from the first test
		calls = outermost(tests[0])
	}
	if len(calls) == 0 {
		return nil, refuse(`"test_list": found no call of a function in %.60q`, tests[0])
	}
	item := &Item{Problem: data.Problem{ID: name + "/" + r.id("task_id"), Source: name, Statement: strings.TrimSpace(text),
		StarterCode: strings.Join(tests, "\n"), FuncName: calls[0]}, shot: isShot, text: strings.TrimSpace(text), solution: code}
	for _, t := range tests { // the prompt shows all of them
		item.Tests = append(item.Tests, assertTest{Assert: t, Setup: strings.TrimSpace(setup), Calls: calls})
	}
	if item.Canonical = code; o.Style == Chat {
		item.Canonical = fenced(code)
	}
	var err error
	item.Metadata, err = json.Marshal(About{Suite: name})
	return item, err
}

var (
	defined = regexp.MustCompile(`(?m)^(?:def|class)\s+([A-Za-z_]\w*)`)
	words   = regexp.MustCompile(`[A-Za-z_]\w*`)
	callee  = regexp.MustCompile(`([A-Za-z_]\w*)\s*\(`)
)

// definedNames lists the names that code defines and tests use, in the order of their use: functions before classes, because the task is to
// write a function.
func definedNames(code, tests string) (names []string) {
	var classes []string
	has := map[string]string{}
	for _, m := range defined.FindAllStringSubmatch(code, -1) {
		has[m[1]] = m[0]
	}
	for _, word := range words.FindAllString(tests, -1) {
		switch how := has[word]; {
		case how == "" || slices.Contains(names, word) || slices.Contains(classes, word):
		case strings.HasPrefix(how, "class"):
			classes = append(classes, word)
		default:
			names = append(names, word)
		}
	}
	return append(names, classes...)
}

// pythonBuiltins are functions that assertions apply to the result of a call.
var pythonBuiltins = []string{"abs", "all", "any", "bool", "dict", "float", "int", "isclose", "isinstance", "len", "list", "max", "min",
	"round", "set", "sorted", "str", "sum", "tuple", "frozenset", "not", "assert"}

// outermost is the first function called in an assertion that is not a builtin.
func outermost(test string) []string {
	for _, m := range callee.FindAllStringSubmatch(test, -1) {
		if !slices.Contains(pythonBuiltins, m[1]) {
			return m[1:2]
		}
	}
	return nil
}
