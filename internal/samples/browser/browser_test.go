package browser

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// of is a run whose record has those lines.
func of(t *testing.T, lines ...string) Run {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rollouts.jsonl"), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	return Run{Name: "sweep/one & two", Dir: dir}
}

func completion(step, group, sample int, problem, text string, reward float64) string {
	verdict, correct := "WA", 0
	if reward == 1 {
		verdict, correct = "AC", 1
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"step":%d,"group":%d,"sample":%d,"problem":%q,"prompt":[1],"tokens":[7,8],"logprobs":[-0.01,-3],"text":%s,`+
		`"finish_reason":"stop","score":{"reward":%g,"verdict":%q,"passed":%d,"total":2,"tests":["AC",%q],"components":{"correct":%d}},`+
		`"advantage":%g}`, step, group, sample, problem, quoted, reward, verdict, 1+correct, verdict, correct, reward-0.5)
}

var known = Lookup{
	Problem: func(_, name string) *Problem {
		if name != "plus" {
			return nil
		}
		return &Problem{Statement: "Add <two> numbers.", Tests: []Test{{"0", "0"}, {"1 2\u202e", "3"}}}
	},
	Pieces: func(_ string, tokens []int32) (texts []string) {
		for _, id := range tokens {
			texts = append(texts, fmt.Sprintf("t%d ", id))
		}
		return texts
	},
}

var space = regexp.MustCompile(`\s+`)

// ask returns the page of a view, and its text. It must be well formed, whatever the record has.
func ask(t *testing.T, b *Browser, run Run, query string) (page, read string) {
	t.Helper()
	w := httptest.NewRecorder()
	b.Serve(w, httptest.NewRequest(http.MethodGet, "/samples/x?"+query, nil), run)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	page = w.Body.String()
	d := xml.NewDecoder(strings.NewReader(page))
	for inside := ""; ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err, "%s", query)
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local
		case xml.CharData:
			if inside != "style" && inside != "script" {
				read += string(token)
			}
		}
	}
	_, page, _ = strings.Cut(page, "<body>")
	return page, space.ReplaceAllString(read, " ")
}

// has requires a text in a page, without printing the whole page.
func has(t *testing.T, page, want string) {
	t.Helper()
	require.True(t, strings.Contains(page, want), "%q", want)
}

// plusAndMore is a record of two problems over three steps.
func plusAndMore(t *testing.T) Run {
	return of(t,
		completion(1, 0, 0, "plus", "def f():\n\treturn a - b\n", 0), completion(1, 0, 1, "plus", "no", 0),
		completion(1, 1, 0, "<b>other", "x", 1), completion(1, 1, 1, "<b>other", "y", 1),
		completion(2, 0, 0, "plus", "def f():\n\treturn a + b\nend\n", 1), completion(2, 0, 1, "plus", "def f():\n\treturn a - b\nend\n", 0.25),
		completion(4, 0, 0, "plus", "a\u001b[31mb", 0), completion(4, 0, 1, "plus", "c", 0),
	)
}

func TestViews(t *testing.T) {
	run := plusAndMore(t)
	b := New(known, false)
	defer b.Close()
	page, read := ask(t, b, run, "")
	has(t, read, "8 completions of 3 steps")
	require.Regexp(t, `step 4 ?2 ?0.000 ?1 ?0 ?WA ?step 2 ?2 ?0.500 ?1 ?1 ?AC ?WA ?step 1`, strings.TrimSpace(read), "the latest first")
	has(t, page, `<a href="/samples/sweep/one%20&amp;%20two?step=4&amp;view=groups">`)

	_, read = ask(t, b, run, "view=groups&step=1")
	has(t, read, "Step 1")
	has(t, read, "2 groups.")
	has(t, read, "<b>other")
	_, read = ask(t, b, run, "view=groups&step=3")
	has(t, read, "No completion of this step is recorded; the nearest: 2 and 4.")
	for query, groups := range map[string]int{"verdict=AC": 2, "verdict=WA": 3, "verdict=TLE": 0, "problem=PLU": 3, "outcome=mixed": 1,
		"outcome=all": 1, "outcome=none": 2, "outcome=left": 0, "problem=plus&verdict=AC": 1} {
		page, read = ask(t, b, run, "view=groups&"+query)
		require.Equal(t, groups, strings.Count(page, "view=group\""), query)
		has(t, read, fmt.Sprintf("%d group", groups))
	}

	_, read = ask(t, b, run, "view=problems")
	require.Regexp(t, `plus ?3 ?0.167 ?0.000 ?0.000 ?1 ?1 ?step 4 ?<b>other ?1 ?1.000`, read)
	_, read = ask(t, b, run, "view=problems&outcome=down")
	has(t, read, "1 problem")
	page, read = ask(t, b, run, "view=problem&problem=plus")
	has(t, read, "Add <two> numbers.")
	has(t, page, `aria-label="step 2: 1 of 2 right, solved now"`)
	has(t, page, `aria-label="step 4: 0 of 2 right, not any more"`)

	_, read = ask(t, b, run, "view=flips")
	has(t, read, "2 flips")
	require.Regexp(t, `solved → not ?1 of 2, step 2 ?0 of 2, step 4 ?plus ?not → solved ?0 of 2, step 1 ?1 of 2, step 2`, read)
	page, _ = ask(t, b, run, "view=flips&outcome=up")
	require.Equal(t, 1, strings.Count(page, `<tr><th scope="row">`))
	require.NoError(t, os.WriteFile(filepath.Join(run.Dir, "evaluations.jsonl"),
		[]byte(`{"step":0,"problems":["p","q","r"],"correct":[0,1,1]}`+"\n"+`{"step":4,"problems":["p","q","r"],"correct":[1,0,1]}`+"\n"), 0o644))
	_, read = ask(t, b, run, "view=flips")
	require.Regexp(t, `not → solved p after step 0 and after step 4 ?solved → not q`, read)
	require.NotContains(t, read, " r after")

	run.Name = "x\u202egnp"
	_, read = ask(t, b, run, "")
	require.Equal(t, 2, strings.Count(read, "x⟨U+202E⟩gnp"), "a name does not turn around what follows it")

	w := httptest.NewRecorder()
	b.Serve(w, httptest.NewRequest(http.MethodGet, "/samples/x?view=nothing", nil), run)
	require.Equal(t, http.StatusNotFound, w.Code)
}

func TestAGroupFromNear(t *testing.T) {
	run := plusAndMore(t)
	b := New(known, false)
	defer b.Close()
	page, read := ask(t, b, run, "view=group&step=2&group=0")
	has(t, read, "Step 2, group 0: 1 of 2 right.")
	has(t, read, "Add <two> numbers.")
	require.Regexp(t, `Sample 0 best AC ?reward 1, advantage .0.5, tests 2 of 2, 2 tokens, mean log-probability -1.505`, read)
	require.Regexp(t, `Sample 1 worst WA ?reward 0.25`, read)
	has(t, page, `<span class="line mark">&#43;</span>`)
	has(t, page, `<span class="line mark">-</span>`)
	require.Regexp(t, `Test 2 was the first that failed: WA ?input ?1 2⟨U\+202E⟩ ?expected ?3 ?output ?not recorded`, read)
	has(t, page, `rel="prev"`)
	has(t, page, `step=4`)

	page, _ = ask(t, b, run, "view=group&step=2&group=0&by=probability")
	has(t, page, `<span title="99 %, log-probability -0.010">t7 </span><span class="t p4" title="4.98 %, log-probability -3.000">t8 </span>`)
	page, _ = ask(t, b, run, "view=group&step=2&group=0&by=advantage")
	has(t, page, `<span class="t up3" title="advantage &#43;0.5">t7 t8 </span>`)
	has(t, page, `<span class="t down3" title="advantage -0.25">t7 t8 </span>`)
	_, read = ask(t, b, run, "view=group&step=2&group=0&by=movement")
	has(t, read, "The record does not have the change of each token")
	page, read = ask(t, b, run, "view=group&step=4&group=0")
	has(t, read, "all got the same reward; this is one")
	require.NotContains(t, page, "by=difference", "there is nothing to compare")
	_, read = ask(t, b, run, "view=group&step=4&group=0&by=nothing")
	has(t, read, "a␛[31mb")
	_, read = ask(t, b, run, "view=group&step=4&group=0&sample=1")
	has(t, read, "beside it")
	_, read = ask(t, b, run, "view=group&step=9&group=9")
	has(t, read, "It is not on record; the nearest: 4.")

	_, read = ask(t, b, of(t, completion(0, 0, 0, "p", "x", 1), `{"step":0,"group":0,"sample":1,"problem":"p","text":"\x"}`),
		"view=group&step=0&group=0")
	has(t, read, "1 line of this group is not a completion")

	nobody := New(Lookup{}, false)
	defer nobody.Close()
	_, read = ask(t, nobody, run, "view=group&step=2&group=0&by=probability")
	has(t, read, "The tokens cannot be read without the tokenizer")
	has(t, read, "The record has the prompt as tokens")
	has(t, read, "return a + b")
}

// Conversations are shown as such; only the model's tokens are colored.
func TestConversationsFromNear(t *testing.T) {
	run := of(t, strings.Replace(completion(1, 0, 0, "talk", "", 1), `"advantage"`, `"conversation":{"turns":[{"Start":0,"End":1}],`+
		`"messages":[`+
		`{"role":"assistant","content":"first","tool_calls":[{"type":"function","function":{"name":"run","arguments":{"code":"1"}}}]},`+
		`{"role":"tool","name":"run","content":"out"}],"ending":"over","judged":[{"turn":0,"reward":0.5,"verdict":"RTE"}]},"advantage"`, 1))
	b := New(known, false)
	defer b.Close()
	_, read := ask(t, b, run, "view=group&step=1&group=0&by=nothing")
	require.Regexp(t, `ended by over.*assistant ?RTE, reward 0.5 ?first → run \{"code":"1"\} ?tool run ?out`, read)
	require.Regexp(t, `\b1 tokens, mean log-probability -0.010 `, read, "what was said to the model is not counted")
	_, read = ask(t, b, run, "view=groups")
	require.Regexp(t, `mean tokens ?verdicts ?talk ?1 ?1 of 1 ?1 ?1 ?1 ?AC`, strings.TrimSpace(read))
	page, _ := ask(t, b, run, "view=group&step=1&group=0&by=probability")
	has(t, page, `log-probability -0.010">t7 </span></pre>`)
	require.NotContains(t, page, "t8 ")
	has(t, page, `>out</pre>`)
}

// A run without a record says why; long lists are split into pages.
func TestWhatIsNotThere(t *testing.T) {
	b := New(Lookup{}, false)
	defer b.Close()
	_, read := ask(t, b, Run{Name: "none", Dir: t.TempDir()}, "")
	has(t, read, "it had record_rollouts=none")
	_, read = ask(t, b, Run{Name: "none", Dir: t.TempDir(), GoesOn: true}, "view=flips")
	has(t, read, "The run has written none yet")
	_, read = ask(t, b, of(t, "garbage"), "")
	require.Regexp(t, `Skipped: 1 part of the record ?rollouts.jsonl, byte 0: not a whole line of JSON`, read)
	_, read = ask(t, b, of(t, completion(0, 0, 0, "p", "x", 1), `{"step":`, completion(1, 0, 0, "p", "x", 1)), "view=flips")
	has(t, read, "Skipped: 1 part")
	has(t, read, "No flip in training")
	has(t, read, "No problem flipped between two visits.")
	name := strings.Repeat("é", 150)
	_, read = ask(t, b, of(t, completion(1, 0, 0, name, "x", 1)), "view=groups")
	require.Regexp(t, `(^|[^é])é{100}…`, read)

	var lines []string
	for step := range 2*mostRows + 1 {
		lines = append(lines, completion(step, 0, 0, "p", "x", 1))
	}
	long := of(t, lines...)
	page, read := ask(t, b, long, "")
	has(t, read, "1 to 100 of 201")
	require.Equal(t, mostRows, strings.Count(page, `<tr><th scope="row">`))
	page, _ = ask(t, b, long, "view=steps&from=200")
	require.Equal(t, 1, strings.Count(page, `<tr><th scope="row">`))
	has(t, page, `rel="prev"`)
	_, read = ask(t, b, long, "view=groups&from=-7")
	has(t, read, "1 to 100 of 201")
	for range mostOpen {
		ask(t, b, of(t, lines[0]), "")
	}
	require.Len(t, b.indexes, mostOpen, "the oldest are forgotten")
}

func TestDiffer(t *testing.T) {
	say := func(pieces []piece) (text string) {
		for _, p := range pieces {
			switch p.Class {
			case "line":
				text += "{" + p.Text + "}"
			case "line mark":
				text += "[" + p.Text + "]"
			default:
				text += p.Text
			}
		}
		return text
	}
	for _, c := range [][4]string{
		{"a\nb\nc\n", "a\nb\nc\n", "a\nb\nc\n", "a\nb\nc\n"},
		{"a\nb\nc\n", "a\nc\n", "a\n{b\n}c\n", "a\nc\n"},
		{"x = 1 + 2\n", "x = 1 * 2\n", "{x = 1 }[+]{ 2\n}", "{x = 1 }[*]{ 2\n}"},
		{"", "a", "", "[a]"},
		{"üa\n", "üb\n", "{ü}[a]{\n}", "{ü}[b]{\n}"},
		{"p\nq\nr\ns\n", "p\nz\nr\nt\nu\ns\n", "p\n[q]{\n}r\ns\n", "p\n[z]{\n}r\n{t\n}{u\n}s\n"},
	} {
		left, right := differ(c[0], c[1])
		require.Equal(t, c[2], say(left), "%q", c)
		require.Equal(t, c[3], say(right), "%q", c)
	}
	long := strings.Repeat("line\n", 3000)
	left, right := differ("a\n"+long, long+"b\n")
	whole := func(pieces []piece) (text string) {
		for _, p := range pieces {
			text += p.Text
		}
		return text
	}
	require.Equal(t, "a\n"+long, whole(left), "nothing is lost, however large the difference is")
	require.Equal(t, long+"b\n", whole(right))
}
