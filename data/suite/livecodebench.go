package suite

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

var liveCodeBench = Suite{
	Name: nameLiveCodeBench, Title: "LiveCodeBench, code generation", Dated: true, Unsolved: true,
	Source: "livecodebench/code_generation_lite", Split: "all",
	Settings: Settings{Samples: 10, K: 5, Temperature: 0.2, TopP: 0.95, MaxTokens: 2000,
		Papers: "Jain et al. 2024: pass@1 of 10 samples at temperature 0.2 and top_p 0.95, 2,000 tokens"},
	read: readLiveCodeBench,
}

// contestTest is a test as the set writes it; the data set reader knows this shape.
type contestTest struct {
	Input    string `json:"input"`
	Output   string `json:"output"`
	TestType string `json:"testtype"`
	Public   bool   `json:"public,omitempty"`
}

// mostTests is the maximum size in bytes of the unpacked tests of one problem.
const mostTests = 2 << 30

func readLiveCodeBench(r row, o Options) (*Item, error) {
	about := About{Suite: nameLiveCodeBench, Difficulty: strings.ToLower(r.text("difficulty", false)), Date: r.day("contest_date")}
	if *r.err != nil {
		return nil, *r.err
	}
	if wanted, err := o.wants(about); err != nil || !wanted {
		return nil, err // decided before the tests are unpacked, which takes most of the time
	}
	public, err := contestTests(r.text("public_test_cases", true))
	if err != nil {
		return nil, refuse(`"public_test_cases": %w`, err)
	}
	for i := range public {
		public[i].Public = true
	}
	var private []contestTest
	if text := r.text("private_test_cases", false); strings.TrimSpace(text) != "" {
		if private, err = contestTests(text); err != nil {
			return nil, refuse(`"private_test_cases": %w`, err)
		}
	}
	item := &Item{Problem: data.Problem{ID: r.id("question_id"), Source: r.text("platform", false),
		Statement: r.text("question_content", true), StarterCode: r.text("starter_code", false)}}
	for _, t := range append(public, private...) {
		item.Tests = append(item.Tests, t)
		if t.TestType == "functional" && about.FuncName == "" {
			if about.FuncName = funcName(r.text("metadata", false)); about.FuncName == "" {
				return nil, refuse(`"metadata": found no func_name, and the tests call a function`)
			}
		}
	}
	if *r.err == nil && len(item.Tests) == 0 {
		return nil, refuse(`"public_test_cases", "private_test_cases": found no test`)
	}
	item.Metadata, err = json.Marshal(about)
	if *r.err != nil {
		err = *r.err
	}
	return item, err
}

func funcName(metadata string) string {
	var m struct {
		FuncName string `json:"func_name"`
	}
	_ = json.Unmarshal([]byte(metadata), &m) // other metadata has no function name
	return m.FuncName
}

// contestTests reads a list of tests: as JSON, or as JSON that was pickled, compressed by zlib and encoded as base64.
func contestTests(text string) (tests []contestTest, err error) {
	if json.Unmarshal([]byte(text), &tests) == nil {
		return tests, nil
	}
	packed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, refuse("found %.30q, expected a list of tests as JSON, or packed as base64", text)
	}
	unpack, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, refuse("found base64, but not of zlib data")
	}
	pickled, err := io.ReadAll(io.LimitReader(unpack, mostTests+1))
	if err != nil {
		return nil, refuse("unpack: %w", err)
	}
	if len(pickled) > mostTests {
		return nil, refuse("found more than %d bytes in it", mostTests)
	}
	inside, err := pickledText(pickled)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(inside, &tests); err != nil {
		return nil, refuse("found text that is no list of tests: %w", err)
	}
	return tests, nil
}
