package suite

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// build makes the problems of an excerpt, and reads them as a data set.
func build(t *testing.T, name string, o Options) (*Built, []data.Problem) {
	t.Helper()
	s, err := Find(name)
	require.NoError(t, err)
	if o.Source == "" {
		o.Source = filepath.Join("testdata", name+".jsonl")
	}
	if o.Style == "" {
		o.Style = Chat
	}
	o.CacheDir = t.TempDir()
	b, err := s.Build(t.Context(), o)
	require.NoError(t, err)
	set, err := dataset.Open(t.Context(), b.Tasks, dataset.Options{CacheDir: t.TempDir(), Strict: true})
	require.NoError(t, err)
	t.Cleanup(func() { set.Close() })
	return b, set.Problems()
}

func ids(problems []data.Problem) (ids []string) {
	for i := range problems {
		ids = append(ids, problems[i].ID)
	}
	return ids
}

func testsOf(t *testing.T, p data.Problem) []data.Test {
	t.Helper()
	tests, err := p.Tests(t.Context())
	require.NoError(t, err)
	return tests
}

func day(text string) time.Time {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return at
}

// Both kinds of tests, public and private, plain and packed by each version of pickle that writes a text.
func TestLiveCodeBench(t *testing.T) {
	_, problems := build(t, "livecodebench", Options{})
	require.Equal(t, []string{"lamp_a", "jar_b", "mir_c", "stp_d"}, ids(problems))
	tests := testsOf(t, problems[1])
	require.Equal(t, []data.Test{{Stdin: "7 2\n", Stdout: "2\n", Public: true}, {Stdin: "2 7\n", Stdout: "2\n"},
		{Stdin: "10 10\n", Stdout: "0\n"}, {Stdin: "0 1000000000000\n", Stdout: "500000000000\n"}}, tests)
	p := problems[2]
	require.Equal(t, []any{data.Call, "mirror", "leetcode", 3}, []any{p.Kind, p.FuncName, p.Source, p.NumTests})
	require.Equal(t, []json.RawMessage{json.RawMessage(`"abc"`), json.RawMessage("2")}, testsOf(t, p)[2].Args)
	about := Of(&p)
	require.Equal(t, []string{"hard", "2025-02-01", "2025-02"}, []string{about.Difficulty, about.Date, about.Month()})

	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{From: day("2024-08-01"), To: day("2025-02-01")}, []string{"jar_b", "mir_c"}},
		{Options{From: day("2025-02-02")}, []string{"stp_d"}},
		{Options{To: day("2024-07-31")}, []string{"lamp_a"}},
		{Options{Difficulty: "medium"}, []string{"jar_b", "stp_d"}},
		{Options{First: 1, From: day("2024-08-01")}, []string{"jar_b"}},
	} {
		_, problems := build(t, "livecodebench", c.o)
		require.Equal(t, c.want, ids(problems))
	}
}

func TestHumanEval(t *testing.T) {
	_, problems := build(t, "humaneval", Options{})
	p := problems[1]
	require.Equal(t, []any{"HumanEval/1", data.Assert, "unshift_words"}, []any{p.ID, p.Kind, p.FuncName})
	tests := testsOf(t, p)
	require.Len(t, tests, 1)
	require.True(t, strings.HasSuffix(tests[0].Assert, "\n\ncheck(unshift_words)\n"))
	require.Equal(t, p.Statement, tests[0].Setup)
	require.True(t, strings.HasPrefix(tests[0].Given, "def shift_words") && !strings.Contains(tests[0].Given, "unshift_words"))
	require.Equal(t, "from typing import List", testsOf(t, problems[0])[0].Given)
	b, problems := build(t, "humaneval", Options{Style: Completion})
	require.Equal(t, problems[0].Statement, Of(&problems[0]).Prefix)
	require.Equal(t, "{{.Statement}}", b.Prompt)
	require.Equal(t, "    return 1", b.Suite.Ended("    return 1\ndef g(): pass"))
}

func TestMBPP(t *testing.T) {
	b, problems := build(t, "mbpp", Options{Style: Completion, Shots: 3})
	require.Equal(t, []string{"mbpp/11", "mbpp/12", "mbpp/13", "mbpp/14"}, ids(problems))
	require.Equal(t, []string{"drop_last", "sum_squares", "depth", "of_type"},
		[]string{problems[0].FuncName, problems[1].FuncName, problems[2].FuncName, problems[3].FuncName})
	require.Equal(t, data.Test{Assert: "assert depth(root) == 2", Setup: "root = Knot(1) \r\nroot.left = Knot(2)",
		Calls: []string{"depth", "Knot"}}, testsOf(t, problems[2])[0])
	require.Equal(t, 3, problems[0].NumTests)
	require.Equal(t, 3, strings.Count(b.Prompt, "[DONE]"))
	require.Less(t, strings.Index(b.Prompt, "two tuples"), strings.Index(b.Prompt, "largest"))
	_, problems = build(t, "mbpp-sanitized", Options{})
	require.Equal(t, []string{"mbpp-sanitized/11", "mbpp-sanitized/20"}, ids(problems))
	require.Equal(t, "import math", testsOf(t, problems[1])[0].Setup)
	require.Equal(t, []string{"f"}, outermost("assert set(f(1)) == {2}"))
}

func TestGSM8K(t *testing.T) {
	_, problems := build(t, "gsm8k", Options{})
	require.Equal(t, []string{"gsm8k/1", "gsm8k/2"}, ids(problems))
	require.Equal(t, data.Answer, problems[1].Kind)
	require.Equal(t, "1500", testsOf(t, problems[1])[0].Match.Want)
	dir := t.TempDir() // in the layout of the Hub
	for name, from := range map[string]string{"test": "gsm8k", "train": "gsm8k"} {
		text, err := os.ReadFile(filepath.Join("testdata", from+".jsonl"))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "main"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main", name+"-00000-of-00001.jsonl"), text, 0o644))
	}
	b, problems := build(t, "gsm8k", Options{Source: dir, Style: Completion, Shots: 2})
	require.Len(t, problems, 2)
	require.True(t, strings.HasSuffix(b.Prompt, "1,500 lamps.\n#### 1,500\n\nQuestion: {{trim .Statement}}\nAnswer:"), b.Prompt)
	require.Equal(t, " 5", b.Suite.Ended(" 5\nQuestion: next"))
}

// The same rows give the same files from Parquet, where lists are lists, and dates may be timestamps.
func TestParquetIsTheSame(t *testing.T) {
	type full struct {
		TaskID    int32    `parquet:"task_id"`
		Text      string   `parquet:"text"`
		Code      string   `parquet:"code"`
		TestList  []string `parquet:"test_list,list"`
		TestSetup string   `parquet:"test_setup_code"`
	}
	var rows []full
	text, err := os.ReadFile("testdata/mbpp.jsonl")
	require.NoError(t, err)
	for l := range strings.Lines(string(text)) {
		var r struct {
			TaskID    int32    `json:"task_id"`
			Text      string   `json:"text"`
			Code      string   `json:"code"`
			TestList  []string `json:"test_list"`
			TestSetup string   `json:"test_setup_code"`
		}
		require.NoError(t, json.Unmarshal([]byte(l), &r))
		rows = append(rows, full(r))
	}
	path := filepath.Join(t.TempDir(), "mbpp.parquet")
	require.NoError(t, parquet.WriteFile(path, rows))
	lines, _ := build(t, "mbpp", Options{})
	table, _ := build(t, "mbpp", Options{Source: path})
	want, err := os.ReadFile(lines.Tasks)
	require.NoError(t, err)
	got, err := os.ReadFile(table.Tasks)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))

	type dated struct {
		ID      string    `parquet:"question_id"`
		Content string    `parquet:"question_content"`
		Date    time.Time `parquet:"contest_date,timestamp(microsecond)"`
		Public  string    `parquet:"public_test_cases"`
		Level   string    `parquet:"difficulty"`
	}
	path = filepath.Join(t.TempDir(), "lcb.parquet")
	tests := `[{"input":"","output":"1","testtype":"stdin"}]`
	require.NoError(t, parquet.WriteFile(path, []dated{{"a", "x", day("2024-08-01"), tests, "easy"}}))
	_, problems := build(t, "livecodebench", Options{Source: path})
	require.Equal(t, "2024-08-01", Of(&problems[0]).Date)
}

// A pickle that is more than a text is not executed, and refused by the name of its opcode.
func TestPickles(t *testing.T) {
	pack := func(p string) string {
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		w.Write([]byte(p))
		w.Close()
		return base64.StdEncoding.EncodeToString(b.Bytes())
	}
	_, err := contestTests(pack("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00\x8c\x02[]\x94."))
	require.NoError(t, err)
	for p, says := range map[string]string{
		"cos\nsystem\n(S'true'\ntR.":                      "opcode 0x63",
		"\x80\x04\x8c\x05posix\x8c\x06system\x93.":        "more than one string",
		"\x80\x04\x8c\x02[]\x94\x85R.":                    "opcode 0x85",
		"\x80\x04\x8c\x02[":                               "ends too early",
		"\x80\x04.":                                       "is not of one string",
		"\x80\x04\x8c\x02[].more":                         "is not of one string",
		"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff[].": "ends too early",
		"X\x02\x00\x00\x00\xff\xfe.":                      "not UTF-8",
		"X\x02\x00\x00\x00{}.":                            "no list of tests",
		"":                                                "ends too early",
	} {
		_, err := contestTests(pack(p))
		require.ErrorContains(t, err, says, "%q", p)
		require.True(t, badinput.Is(err))
	}
	for text, says := range map[string]string{"no base64!": "expected a list of tests", "AAAA": "but not of zlib data"} {
		_, err := contestTests(text)
		require.ErrorContains(t, err, says)
	}
}

func FuzzPickledText(f *testing.F) {
	f.Add([]byte("\x80\x04\x8c\x02[]\x94."))
	f.Add([]byte("X\x02\x00\x00\x00[]q\x00."))
	f.Fuzz(func(t *testing.T, p []byte) {
		if text, err := pickledText(p); err == nil && !bytes.Contains(p, text) {
			t.Fatal("a text that is not in the pickle")
		}
	})
}

func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		suite string
		row   string
		o     Options
		says  string
	}{
		{"humaneval", `{"task_id":"a","prompt":"def f(): pass"}`, Options{}, `:1: "entry_point": found nothing`},
		{"humaneval", `{"task_id":"a","prompt":"x","entry_point":1,"test":"x"}`, Options{}, `"entry_point": found 1, expected text`},
		{"mbpp", `{"text":"t"}`, Options{}, `"task_id": found nothing, expected a whole number`},
		{"mbpp", `{"task_id":"x","text":"t"}`, Options{}, `"task_id": found "x", expected a whole number`},
		{"mbpp", `{"task_id":11,"text":"t","code":"","test_list":[]}`, Options{}, "found no test"},
		{"mbpp", `{"task_id":11,"text":"t","code":"","test_list":["assert 1"]}`, Options{}, "found no call of a function"},
		{"mbpp", `{"task_id":700,"text":"t","code":"","test_list":["assert f()"]}`, Options{}, "none of the problems is asked"},
		{"mbpp", `{"task_id":2,"text":"t","code":"x","test_list":["assert f()"]}`, Options{Shots: 3, Style: Completion}, "type --shots 1"},
		{"gsm8k", `{"question":"q","answer":"42"}`, Options{}, "ends with #### and a number"},
		{"livecodebench", `{"question_id":"a","contest_date":"soon","public_test_cases":"[]"}`, Options{}, "expected a date"},
		{"livecodebench", `{"question_id":"a","question_content":"x","contest_date":"2024-01-01","public_test_cases":"[]"}`, Options{},
			"found no test"},
		{"livecodebench", `{"question_id":"a","question_content":"x","contest_date":"2024-01-01","metadata":"{}",` +
			`"public_test_cases":"[{\"input\":\"1\",\"output\":\"1\",\"testtype\":\"functional\"}]"}`, Options{}, "no func_name"},
		{"humaneval", `{}`, Options{From: day("2024-01-01")}, "have no dates"},
		{"livecodebench", `{}`, Options{Difficulty: "harsh"}, "expected easy, medium or hard"},
		{"livecodebench", `{}`, Options{From: day("2024-02-01"), To: day("2024-01-01")}, "it is before"},
		{"humaneval", `{}`, Options{Shots: 2}, "without examples"},
		{"gsm8k", `{}`, Options{Style: Completion}, "type --shots 8"},
		{"gsm8k", `{}`, Options{Style: "song"}, "expected chat or completion"},
	} {
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(c.row+"\n"), 0o644))
		s, err := Find(c.suite)
		require.NoError(t, err)
		c.o.Source, c.o.CacheDir = path, t.TempDir()
		if c.o.Style == "" {
			c.o.Style = Chat
		}
		_, err = s.Build(t.Context(), c.o)
		require.ErrorContains(t, err, c.says, c.row)
		require.NotContains(t, err.Error(), c.o.CacheDir, "a file with an internal name")
		require.True(t, badinput.Is(err), "%v", err)
	}
	_, err := Find("humanevil")
	require.ErrorContains(t, err, "type one of livecodebench, humaneval, mbpp, mbpp-sanitized, gsm8k")
}

// Built problems are reused; damaged ones, or those of other rows, are built again.
func TestBuiltOnce(t *testing.T) {
	s, _ := Find("gsm8k")
	path, cache := filepath.Join(t.TempDir(), "rows.jsonl"), t.TempDir()
	write := func(answer string) *Built {
		require.NoError(t, os.WriteFile(path, []byte(`{"question":"q","answer":"#### `+answer+`"}`+"\n"), 0o644))
		b, err := s.Build(t.Context(), Options{Source: path, CacheDir: cache, Style: Chat})
		require.NoError(t, err)
		return b
	}
	require.NoError(t, os.MkdirAll(filepath.Join(cache, ".suite.making-12", "half"), 0o755)) // by a process that was killed
	first := write("1")
	left, err := filepath.Glob(filepath.Join(cache, ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
	info, err := os.Stat(first.Tasks)
	require.NoError(t, err)
	again := write("1")
	require.Equal(t, first, again)
	same, err := os.Stat(again.Tasks)
	require.NoError(t, err)
	require.True(t, os.SameFile(info, same))
	require.NotEqual(t, first.Tasks, write("2").Tasks)
	require.NoError(t, os.Remove(first.Tasks)) // as when a cache is cleared of large files
	require.FileExists(t, write("1").Tasks)
}

// If every problem is refused, the error names the first one by its position, and not by an internal file.
func TestAllRefused(t *testing.T) {
	row := map[string]any{"question_id": "a", "question_content": "x", "contest_date": "2024-08-10", "metadata": `{"func_name": "f"}`,
		"public_test_cases":  `[{"input": "1", "output": "1", "testtype": "stdin"}]`,
		"private_test_cases": `[{"input": "1", "output": "1", "testtype": "functional"}]`}
	text, err := json.Marshal(row)
	require.NoError(t, err)
	source := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(source, text, 0o644))
	_, err = liveCodeBench.Build(t.Context(), Options{Source: source, Style: Chat, CacheDir: t.TempDir()})
	require.True(t, badinput.Is(err), "%v", err)
	require.ErrorContains(t, err,
		"--suite livecodebench: no problem is left to ask; the first of 1 refused: problem 1: "+string(dataset.MixedKinds))
}
