package match

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Schemas allocate much that is soon garbage: letting the heap grow is cheaper than collecting it each time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

func TestAnswers(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`
	for _, c := range []struct {
		by              By
		want, text      string
		answered, right bool
	}{
		{Math, "1/2", `So \boxed{\frac{1}{2}}.`, true, true},
		{Math, "1/2", `First \boxed{3}, then \boxed{0.5} it is`, true, true},
		{Math, "3", `\boxed{\{1,2\}} and \boxed{3`, true, false},
		{Math, `\{1,2\}`, `\boxed{\{2,1\}}`, true, true},
		{Math, "1234", "He pays 34.\n#### 1,234", true, true},
		{Math, "42", "The final answer is: $42$.", true, true},
		{Math, "42", "**Answer:** 42", true, true},
		{Math, "42", "It is 41 or rather 42", true, true},
		{Math, "0.5", "Its chance is .5", true, true},
		{Math, "5", "Its chance is $.5", true, false},
		{Math, "5", "See Fig.5", true, true},
		{Math, "0.0015", "It takes 1.5e-3 s", true, true},
		{Math, "-5", "So it is −5.", true, true},
		{Math, "5", "So it is −5.", true, false},
		{Math, "42", "To answer the question: the answer is 42.", true, true},
		{Math, "42", "The answer is 7. No: my answer is **42**", true, true},
		{Math, "42", "I will answer in short.\nIt is 42", true, true},
		{Math, "18", "The answer is 18 dollars.", true, true},
		{Math, "18", "#### 18 dollars.", true, true},
		{Math, "18", "The answer is **$18.00** dollars.", true, true},
		{Math, "1800", `\boxed{1,800 miles}`, true, true},
		{Math, "18", "The answer is 18 dollars less.", true, false},
		{Math, "18", "The answer is 18 or 19 dollars.", true, false},
		{Math, "18", "The answer is 18 thousand.", true, false},
		{Math, "18", "The answer is 18 hours and 5 minutes.", true, false},
		{Math, "18", "The answer is 18,19 dollars.", true, false},
		{Math, "18 hours", "The answer is 18 dollars.", true, false},
		{Math, "42", "<think>\\boxed{42}</think> 41", true, false},
		{Math, "42", "<think> it is 42", false, false},
		{Math, "42", "I do not know.", false, false},
		{Math, "42", "", false, false},
		{Exact, "Paris", " Paris\n", true, true},
		{Exact, "\tParis \n", "Answer: Paris.", true, true},
		{Exact, "Paris", "paris", true, false},
		{Exact, "Paris", "# Final answer\n\n**Paris**", true, true},
		{Exact, "Answer: A", "Answer: A", true, true},
		{Exact, "Paris", "It is so.\n#### Paris\n", true, true},
		{Exact, "Paris", "The answer is Paris.\nAnswer:", true, true},
		{Exact, "x", "", false, false},
		{Regex, `^def \w+`, "def f", true, true},
		{Regex, `(?m)^yes$`, "well\nyes", true, true},
		{Regex, `\d{3}`, "<think>123</think>12", true, false},
		{JSONSchema, schema, "Here:\n```json\n{\"n\": 3}\n```\n", true, true},
		{JSONSchema, schema, `{"n": 3}`, true, true},
		{JSONSchema, schema, `{"n": "3"}`, true, false},
		{JSONSchema, schema, `{"n": 3} `, true, true},
		{JSONSchema, schema, `{"n": 3} and`, false, false},
		{JSONSchema, schema, "```{\"n\": 3}```", true, true},
	} {
		checkMatch(t, c.by, c.want, c.text, c.answered, c.right)
	}
}

// Formats are checked as the schema's draft says, fences inside of a document are part of it, and numbers with too many digits to compute
// with fit no schema.
func TestDocuments(t *testing.T) {
	for _, c := range []struct {
		schema, text string
		right        bool
	}{
		{`{"type": "object"}`, "{\"code\": \"```\"}", true},
		{`{"type": "number"}`, "1e-9999", true},
		{`{"type": "number"}`, "1e-10000", false},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}`, `"2024-02-29"`, true},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}`, `"2023-02-29"`, false},
	} {
		checkMatch(t, JSONSchema, c.schema, c.text, true, c.right)
	}
}

// Values with units, with what is counted, and with sentences after them; and mixed numbers.
func TestAnswersWithMoreThanAValue(t *testing.T) {
	for _, c := range []struct {
		by              By
		want, text      string
		answered, right bool
	}{
		{Math, "42", "Final Answer: The final answer is $42$. I hope it is correct.", true, true},
		{Math, "42", "The answer is **42**. So 7 it is not.", true, true},
		{Math, "x+y", "The answer is x+y. I hope it is correct.", true, true},
		{Math, "4", "The answer is 4. 5 is wrong.", true, false},
		{Math, "42. I hope it is correct", "#### 42", true, true},
		{Math, "3.5", "It is 3 1/2 hours", true, true},
		{Math, "1/2", "It is 3 1/2 hours", true, false},
		{Math, "3.5", "It is 3½ hours", true, true},
		{Math, "3", "It is 3½ hours", true, false},
		{Math, "1/2", "In 2024 1/2", true, true},
		{Math, "-5", "It is –5", true, true},
		{Math, "5", "It is –5", true, false},
		{Math, "5", "It takes 3-5 hours", true, true},
		{Math, "-5", "x=-5", true, true},
		{Math, "72", "The answer is 72 clips.", true, true},
		{Math, "72", "#### 72 hair clips", true, true},
		{Math, "14", "The answer is **14** apples.", true, true},
		{Math, "14", "The answer is $14$ apples.", true, true},
		{Math, "60", "The answer is 60 miles per hour.", true, true},
		{Math, "25", `\boxed{25 square units}`, true, true},
		{Math, "25", `\boxed{25cm^2}`, true, true},
		{Math, "25", `\boxed{25\ units}`, true, true},
		{Math, "25", `\boxed{\text{25 units}}`, true, true},
		{Math, "25", `\boxed{\text{25 or 26}}`, true, false},
		{Math, "25", `\boxed{25 sq. ft}`, true, true},
		{Math, "3/4", "The answer is 3/4 hours.", true, true},
		{Math, `\frac{1}{2}`, "The answer is .5 miles.", true, true},
		{Math, "18", "The answer is 18 dozens.", true, false},
		{Math, "18", "The answer is 18 dozen eggs.", true, false},
		{Math, "18", "The answer is 18 hundred dollars.", true, false},
		{Math, "18", "The answer is 18 not apples.", true, false},
		{Math, "3", "The answer is 3 halves.", true, false},
		{Math, "3", `The answer is \$3 less.`, true, false},
		{Math, "3", `The answer is \$3 bananas.`, true, true},
		{Math, "18", "The answer is 18 minus.", true, false},
		{Math, "72 clips", "The answer is 72 chips.", true, false},
	} {
		checkMatch(t, c.by, c.want, c.text, c.answered, c.right)
	}
}

// Answers in bold, as code, as displayed formulas, and between thoughts.
func TestAnswersAsModelsSetThem(t *testing.T) {
	for _, c := range []struct {
		by         By
		want, text string
		right      bool
	}{
		{Math, "18", "The answer is **18**.", true},
		{Math, "18", "**The answer is *$18* .**", true},
		{Math, "18", "#### **18**.", true},
		{Math, "18", "The answer is **19**.", false},
		{Math, "0.5", "The answer is **.5**.", true},
		{Exact, "Paris", "The answer is **Paris**.", true},
		{Math, "1/2", "**Answer:**\n\n\\[\n\\frac{1}{2}\n\\]\n", true},
		{Math, "1/2", "The answer is\r\n$$ \r\n0.5\r\n$$\r\nas 2 is no answer", true},
		{Math, "18", "The answer is $$18$$", true},
		{Exact, "$$18$$", "Answer: $$18$$", true},
		{Math, "18", "The answer is `18`.", true},
		{Math, "18", "The answer is `19`.", false},
		{Math, "42", "<think>a</think> \\boxed{41}? <think>no</think> It is 42", true},
		{Exact, `\left\{1\right.`, `It is \boxed{\left\{1\right.} {so}`, true},
	} {
		checkMatch(t, c.by, c.want, c.text, true, c.right)
	}
}

func checkMatch(t *testing.T, by By, want, text string, answered, right bool) {
	t.Helper()
	m, err := New(by, want)
	require.NoError(t, err)
	r := m.Match(text)
	assert.Equal(t, [2]bool{answered, right}, [2]bool{r.Answered, r.Right}, "%s %q: %q, took %q", by, want, text, r.Got)
}

// A number with a huge exponent is no answer, and does not stop the program.
func TestHugeNumbersInJSON(t *testing.T) {
	for _, schema := range []string{`{"minimum": 1}`, `{"items": {"multipleOf": 3}}`, `{"type": "integer"}`,
		`{"properties": {"a": {"const": 5}}}`} {
		m, err := New(JSONSchema, schema)
		require.NoError(t, err)
		for _, text := range []string{"1e999999999", "[3, -1e-99999999999999999999]", `{"a": [1E400000]}`} {
			assert.False(t, m.Match(text).Right, "%s: %s", schema, text)
		}
	}
	m, err := New(JSONSchema, `{"minimum": 1e300}`)
	require.NoError(t, err)
	assert.True(t, m.Match("1e301").Right)
}

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	for _, c := range []struct {
		by         By
		want, said string
	}{
		{Regex, "(", "regex: error parsing regexp"},
		{JSONSchema, "{", "json_schema: "},
		{JSONSchema, `{"type": 3}`, "json_schema: not a valid JSON schema: at '/type': value must be one of 'array', 'boolean'"},
		{JSONSchema, `7`, "json_schema: not a valid JSON schema: at '': got number, want boolean or object"},
		{JSONSchema, `{"$ref": "#/none"}`, `json_schema: $ref: found nothing at "#/none" in the schema`},
		{JSONSchema, `{"format": 5}`, "at '/format': got number, want string"},
		{JSONSchema, `{"$ref": "file:///etc/passwd"}`, "other documents are not read"},
		{JSONSchema, `{"$ref": "http://127.0.0.1/x"}`, "other documents are not read"},
		{JSONSchema, `{"multipleOf": 1e9999999}`, "a number with an exponent beyond 10000"},
		{Math, " ", "math: expected an answer"},
		{"words", "x", `found "words", expected one of [exact regex json_schema math]`},
	} {
		_, err := New(c.by, c.want)
		assert.ErrorContains(t, err, c.said, "%s %q", c.by, c.want)
		assert.NotContains(t, err.Error(), "\n", "an error is one line")
	}
}

func FuzzMatch(f *testing.F) {
	f.Add(`\boxed{1} answer is 2 #### 3`, "1")
	f.Add(" ", " ")
	f.Fuzz(func(t *testing.T, text, want string) {
		for _, by := range Names() {
			if m, err := New(by, want); err == nil {
				if r := m.Match(text); r.Right && !r.Answered {
					t.Errorf("%s %q: right, but no answer in %q", by, want, text)
				}
			}
		}
	})
}

// Texts made to keep a grader busy take time proportional to their length.
func TestLongTexts(t *testing.T) {
	m, err := New(Math, "1")
	require.NoError(t, err)
	for _, s := range []string{`\boxed{`, "answer is ", "#### ", "```", "<think>", "1,234"} {
		m.Match(strings.Repeat(s, 1<<18/len(s)))
	}
}

// A schema that doubles its work at each level is stopped, and the answer is not right.
func TestSchemasThatDoubleTheirWork(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for schema, takes := range map[string]bool{
		`{"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}], "not": {}}`:                                                      false,
		`{"$dynamicAnchor": "a", "allOf": [{"items": {"$dynamicRef": "#a"}}, {"prefixItems": [{"$dynamicRef": "#a"}]}]}`:                  true,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{"items": {"$ref": "#"}}, {"contains": {"$ref": "#"}}]}`:        false,
		`{"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"allOf": [{"items": {"$ref": "#/$defs/a"}}, {"items": {"$ref": "#/$defs/a"}}]}}}`: false,
	} {
		m, err := New(JSONSchema, schema)
		require.NoError(t, err)
		assert.False(t, m.Match(deep).Right, schema)
		assert.Equal(t, takes, m.Match("[[[]]]").Right, schema)
	}
	m, err := New(JSONSchema, `{"items": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}`)
	require.NoError(t, err)
	long := "[" + strings.Repeat(`{"n": 1},`, 10_000) + `{"n": 2}]`
	assert.True(t, m.Match(long).Right)
	assert.False(t, m.Match(strings.Replace(long, "2", "2.5", 1)).Right)
}
