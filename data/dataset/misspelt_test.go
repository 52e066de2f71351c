package dataset

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A column whose name is similar to a known one is reported, unless the row has that one, too.
func TestMisspeltColumnsAreNamed(t *testing.T) {
	path := write(t, t.TempDir(), "p.jsonl",
		`{"id":"a","prompt":"p","tolerence":1,"level":3,"tests":[{"stdin":"","stdout":"1","time_limit":5}]}`+"\n"+
			`{"id":"b","prompt":"q","tolerance":1,"chekcer":"x","checker":"y","Memory_Limit_MB":5,"tests":[{"stdin":"","stdout":"1"}]}`+"\n"+
			`{"id":"c","prompt":"r","tolernace":null,"tests":[{"stdin":"","stdout":"1"}]}`+"\n")
	set, err := Open(t.Context(), path, Options{CacheDir: t.TempDir(), Strict: true})
	require.NoError(t, err)
	defer set.Close()
	m := set.Manifest()
	require.Equal(t, []string{"Memory_Limit_MB (did you mean memory_limit_mb?)", "tests[].time_limit (did you mean tests[].time_limit_ms?)",
		"tolerence (did you mean tolerance?)", "tolernace (did you mean tolerance?)"}, m.Misspellings())
}

// The additional columns of public sets are not reported.
func TestFurtherColumnsAreNoSlips(t *testing.T) {
	for name, near := range map[string]string{"chekcer": "checker", "time_limit": "time_limit_ms", "timeLimitMs": "time_limit_ms",
		"time_limit_s": "time_limit_ms", "startercode": "starter_code", "public_test": "public_tests", "Tolerance": "tolerance"} {
		require.Equal(t, near, nearOf(name, optionalColumns))
	}
	for _, name := range []string{"level", "difficulty", "solution", "solutions", "type", "url", "name", "test", "text", "title", "tags",
		"course", "resource", "subset", "split", "index", "task_id", "problem_id", "question_id", "data_source", "reward_model", "extra_info",
		"ability", "domain", "entry_point", "canonical_solution", "test_list", "code", "language", "private_tests",
		"generated_tests", "private_test_cases", "public_test_cases", "input_format", "verification_info", "gold_standard_solution",
		"editorial", "contest_id", "rating", "examples", "note", "answers", "questions", "messages", "in_source_id", "synthetic_1"} {
		require.Empty(t, nearOf(name, optionalColumns), name)
	}
}
