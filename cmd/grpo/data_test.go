package main

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const taskLines = `{"id":"add","prompt":"Add two numbers.","level":3,` +
	`"tests":[{"stdin":"1 2\n","stdout":"3\n"},{"stdin":"5 5\n","stdout":"10\n"}]}
{"prompt":"Double.","fn_name":"twice","tests":[{"args":[2],"returns":4}]}
{"prompt":"Nothing to check."}
`

// tasks writes taskLines to a file, with the caches in fresh folders.
func tasks(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("HF_HOME", filepath.Join(dir, "hf"))
	for _, name := range []string{"HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	path := filepath.Join(dir, "tasks.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(taskLines), 0o644))
	return path
}

func TestDataInspect(t *testing.T) {
	path := tasks(t)
	out, errOut, code := shell(t, "", "data", "inspect", path)
	require.Zero(t, code, errOut)
	for _, want := range []string{
		"2 problems, 3 tests", "tasks   call   1         1", "tasks   stdin  1         2",
		"refused rows: 1", "1 × no tests, first " + path + `:3: expected "tests" or "ground_truth"`,
		"columns that are not read: level", "example: add", "──── user", "Add two numbers.",
	} {
		require.Contains(t, out, want)
	}

	t.Setenv("HF_TOKEN_PATH", filepath.Dir(path)) // which cannot be read; for a local file the Hub is not asked
	out, errOut, code = shell(t, "", "data", "inspect", path, "--json")
	require.Zero(t, code, errOut)
	var v struct {
		Problems int
		Refused  []struct{ Where string }
		Summary  struct{ Groups []struct{ Kind string } }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, 2, v.Problems)
	require.Equal(t, path+":3", v.Refused[0].Where)
	require.Equal(t, "stdin", v.Summary.Groups[0].Kind)

	template := filepath.Join(filepath.Dir(path), "p.tmpl")
	require.NoError(t, os.WriteFile(template, []byte("Q: {{.Statement}}"), 0o644))
	out, _, _ = shell(t, "", "data", "inspect", path, "--template", template, "--problem", "add")
	require.Contains(t, out, "──── user\nQ: Add two numbers.\n")

	require.NoError(t, os.WriteFile(path, []byte("{}\n"), 0o644))
	out, _, code = shell(t, "", "data", "inspect", path)
	require.Zero(t, code, "inspect is there to show what is wrong")
	require.Contains(t, out, "no statement")
}

// The fingerprint is the hash of the converted file, and converting that again changes nothing. Control characters in a data set do not
// reach the terminal, nor do those of a prompt shown by --dry-run.
func TestADataSetCannotSteerTheTerminal(t *testing.T) {
	path := tasks(t)
	const evil = `{"id":"a\u001b[31m","prompt":"Add\u001b]0;x\u0007 1.\u202e","tests":[{"stdin":"1","stdout":"2"}],"c\u001b[2J":1}` + "\n"
	require.NoError(t, os.WriteFile(path, []byte(evil), 0o644))
	for _, words := range [][]string{{"data", "inspect", path}, {"--preset", "tiny_smoke", "data=" + path, "test_data=", "eval_every=-1",
		"data_split=all", "--dry-run"}} {
		out, errOut, code := shell(t, "", words...)
		require.Zero(t, code, errOut)
		require.Contains(t, out, "Add␛]0;x␇ 1.")
		require.NotContains(t, out, "\x1b")
		require.NotContains(t, out, "\u202e")
	}
}

// Nor do those quoted in an error.
func TestAnErrorCannotSteerTheTerminal(t *testing.T) {
	_, errOut, code := shell(t, "", "compare", "a\x1b[31m\u202eb", "c")
	require.Equal(t, 2, code)
	require.Contains(t, errOut, "a␛[31m⟨U+202E⟩b: ")
	require.NotContains(t, errOut, "\x1b")
	require.Equal(t, 1, strings.Count(errOut, "\n"))
}

func TestDataConvertAndFingerprint(t *testing.T) {
	path := tasks(t)
	normal := filepath.Join(filepath.Dir(path), "normal.jsonl")
	_, errOut, code := shell(t, "", "data", "convert", path, "--out", normal)
	require.Zero(t, code, errOut)
	require.Contains(t, errOut, "2 problems written, 1 row refused")
	text, err := os.ReadFile(normal)
	require.NoError(t, err)

	out, errOut, code := shell(t, "", "data", "convert", normal)
	require.Zero(t, code, errOut)
	require.Equal(t, string(text), out)

	out, errOut, code = shell(t, "", "data", "fingerprint", path)
	require.Zero(t, code, errOut)
	whole, file := sha256.Sum256(text), sha256.Sum256([]byte(taskLines))
	require.Equal(t, fmt.Sprintf("%x  %s (2 problems, 3 tests)\n%x  %s\n", whole, path, file, path), out)
}

func TestDataRefusesBadInput(t *testing.T) {
	path := tasks(t)
	for _, args := range [][]string{
		{"convert", path + ".none"}, {"fingerprint"}, {"inspect", path, "--nonsense"}, {"inspect", path, "--problem", "nobody"},
		{"inspect", path, "--template", path + ".none"}, {"convert", path, "--out", path + ".parquet"},
	} {
		_, errOut, code := shell(t, "", append([]string{"data"}, args...)...)
		require.Equal(t, exitBadInput, code, "%v: %s", args, errOut)
		require.Equal(t, 1, strings.Count(errOut, "\n"))
	}
}

// A data set of the Hub is downloaded once, and then read without a network.
func TestDataFromTheHub(t *testing.T) {
	tasks(t)
	const commit = "0123456789abcdef0123456789abcdef01234567"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/datasets/us/tasks/revision/main":
			fmt.Fprintf(w, `{"sha":%q,"siblings":[{"rfilename":"README.md"},`, commit)
			fmt.Fprint(w, `{"rfilename":"easy/train-00000-of-00001.jsonl"},{"rfilename":"easy/test-00000-of-00001.jsonl"}]}`)
		case "/datasets/us/tasks/resolve/" + commit + "/easy/train-00000-of-00001.jsonl":
			sum := sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(taskLines), taskLines)))
			w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
			fmt.Fprint(w, taskLines)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	t.Setenv("HF_ENDPOINT", server.URL)

	out, errOut, code := shell(t, "", "data", "fetch", "us/tasks", "--split", "train")
	require.Zero(t, code, errOut)
	snapshot := filepath.Join(os.Getenv("HF_HOME"), "hub/datasets--us--tasks/snapshots", commit)
	require.Equal(t, filepath.Join(snapshot, "easy/train-00000-of-00001.jsonl")+"\n", out)
	require.Regexp(t, `^1/1 us/tasks/easy/train-00000-of-00001.jsonl: \d+ B`, errOut, "downloads are reported on standard error")

	server.Close()
	t.Setenv("HF_HUB_OFFLINE", "1")
	out, errOut, code = shell(t, "", "data", "inspect", "us/tasks")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "easy    stdin  1         2")
	require.Contains(t, out, "us/tasks/easy/train-00000-of-00001.jsonl:3")

	_, errOut, code = shell(t, "", "--preset", "tiny_smoke", "data=us/tasks", "test_data=", "--dry-run")
	require.Zero(t, code, errOut)
	require.Contains(t, errOut, "data=us/tasks: 1 row of 3 is refused, and left out; "+
		"'grpo data inspect --refused --split train us/tasks' lists it")

	_, errOut, code = shell(t, "", "data", "inspect", "us/tasks", "--split", "test")
	require.Equal(t, exitBadInput, code)
	require.Contains(t, errOut, "HF_HUB_OFFLINE")
}

// Ids do not matter: two sets share a problem if its text is in both.
func TestOverlap(t *testing.T) {
	task := `{"id":"%d","prompt":"Print %s.","tests":[{"stdin":"","stdout":"1"}]}` + "\n"
	dir := t.TempDir()
	train := write(t, filepath.Join(dir, "train.jsonl"), fmt.Sprintf(task, 0, "a")+fmt.Sprintf(task, 1, "b")+fmt.Sprintf(task, 2, "c"))
	held := write(t, filepath.Join(dir, "held.jsonl"), fmt.Sprintf(task, 0, " b")+fmt.Sprintf(task, 1, "C")+fmt.Sprintf(task, 2, "d"))
	out, errs, code := shell(t, "", "data", "overlap", train, held)
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	write(t, held, fmt.Sprintf(task, 0, " b")+fmt.Sprintf(task, 1, "C")+fmt.Sprintf(task, 2, "d")+"{}\n")
	again, errs, code := shell(t, "", "data", "overlap", train, held)
	require.Zero(t, code, errs)
	require.Equal(t, out, again)
	require.Equal(t, "1 row of "+held+" refused, and left out; 'grpo data inspect --refused "+held+"' lists it\n", errs)
	require.Equal(t, "0 is 1\n1 is 100 % of 2\nof 3 problems 1 are among the 3 of the other set, and 1 nearly\n", out)
}
