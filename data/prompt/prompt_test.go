package prompt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func user(t *testing.T, b *Builder, p data.Problem) string {
	t.Helper()
	m, err := b.Messages(&p)
	require.NoError(t, err)
	require.Len(t, m, 1)
	require.Equal(t, "user", m[0].Role)
	return m[0].Content
}

// The parts of the default prompt around the instructions for each kind of problem.
const (
	defaultHead = "You are a careful programmer. Solve the task below in Python 3, correctly for every input that it allows" +
		" and fast enough for the largest.\n\n### Task\n\nDouble {{it}}.\n\n### How to answer\n\n"
	defaultTail = "\n\nPut all of the code into one block, after whatever you want to say about it:\n\n" +
		"```python\n# your code\n```\n\n### Answer\n"

	starter     = "class Solution:\n    def twice(self, n: int) -> int:\n        "
	starterText = "\n\n```python\nclass Solution:\n    def twice(self, n: int) -> int:\n```"
)

var defaultWordings = []struct {
	problem data.Problem
	want    string
}{
	{
		data.Problem{Kind: data.Stdin, StarterCode: " \n"},
		"Write a complete program. It reads the input from standard input and prints the answer to standard output," +
			" and nothing besides.",
	}, {
		data.Problem{Kind: data.Stdin, StarterCode: starter},
		"Write a complete program. It reads the input from standard input and prints the answer to standard output," +
			" and nothing besides. Begin with this code:" + starterText,
	}, {
		data.Problem{Kind: data.Call, FuncName: "twice"},
		"Write a function named twice. It is called with arguments, and what it returns is checked;" +
			" nothing is read from standard input.",
	}, {
		data.Problem{Kind: data.Call, FuncName: "twice", StarterCode: starter},
		"Complete the code below. Keep the names and the parameters as they are: your code is loaded, twice is called" +
			" with arguments, and what it returns is checked." + starterText,
	},
}

// The whole default prompt, letter by letter: it must not change unnoticed, since models were trained on it.
func TestDefaultPrompt(t *testing.T) {
	for _, c := range defaultWordings {
		c.problem.Statement = "\nDouble {{it}}.\n"
		require.Equal(t, defaultHead+c.want+defaultTail, user(t, Default(), c.problem))
	}
}

func load(t *testing.T, text string) (*Builder, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.tmpl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return Load(path)
}

func TestTemplateFile(t *testing.T) {
	b, err := load(t, "{{define \"system\"}}Be brief.{{end}}Q ({{.Kind}}): <{{.Statement}}>\n{{.FuncName}}\n\n")
	require.NoError(t, err)
	got, err := b.Messages(&data.Problem{Kind: data.Call, FuncName: "f", Statement: " a & b "})
	require.NoError(t, err)
	require.Equal(t, []chat.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Q (call): < a & b >\nf\n"}}, got)
}

func TestBadTemplates(t *testing.T) {
	for text, says := range map[string]string{
		"{{.Statement":                             "unclosed action",
		"{{.Statement}} {{.Difficulty}}":           "Difficulty",
		"{{if eq .Kind \"call\"}}{{.Statement}}":   "unexpected EOF",
		"no place for it":                          "{{.Statement}}",
		"{{if .StarterCode}}{{.Statement}}{{end}}": "leaves out the task",
		"\xff{{.Statement}}":                       "UTF-8",
	} {
		_, err := load(t, text)
		require.True(t, badinput.Is(err), "%q: %v", text, err)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "p.tmpl")
	}
	_, err := Load(filepath.Join(t.TempDir(), "none"))
	require.True(t, badinput.Is(err))
}

func TestStatementsAreNotTemplates(t *testing.T) {
	const statement = "{{.ID}} <b> & \"q\""
	text := user(t, Default(), data.Problem{Kind: data.Stdin, Statement: statement})
	require.Equal(t, 1, strings.Count(text, statement))
}

// Problems without a program are not asked for one, and a template that does not handle them is refused with how to.
func TestAnswers(t *testing.T) {
	p := data.Problem{Kind: data.Answer, Match: "math", Statement: "What is 1+1?\n"}
	require.Equal(t, "What is 1+1?\n\nPut the final answer in \\boxed{}.", user(t, Default(), p))
	programs := Default().Fingerprint([]data.Problem{{Kind: data.Stdin}})
	require.NotEqual(t, programs, Default().Fingerprint(nil, []data.Problem{{Kind: data.Stdin}, p}))
	p.Match = "exact"
	require.Equal(t, "What is 1+1?", user(t, Default(), p))

	b, err := load(t, `{{if ne .Kind "answer"}}{{.Statement}}{{end}}{{.Match}}`)
	require.NoError(t, err)
	_, err = b.Messages(&p)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "p.tmpl: for problems of kind answer the user message leaves out the task")
	require.Equal(t, b.Fingerprint(), b.Fingerprint([]data.Problem{p}))
}
