package export

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

const someMetrics = `{"kind":"evaluation","step":0,"pass@1_greedy":0.25,"pass@1_greedy_ci":[0,0.5],"k":2}
{"step":1,"mean_reward":1e-05,"verdicts":{"AC":3},"updated":true,"note":null}
{"step":2,"mean_reward":0.5,"verdicts":{"AC":3,"CE":1},"refilled":9,"updated":false}
{"kind":"evaluation","step":2,"pass@1_greedy":0.5,"pass@1_greedy_ci":[0.2,0.7],"k":2}
{"step":3,"mean_reward":0.5,"verd` // is being written

// recorded is a run whose record has the completions of steps 1 and 3 in one file, those of step 2 in the other.
func recorded(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var packed bytes.Buffer
	f, err := jsonl.NewFrame(&packed)
	require.NoError(t, err)
	require.NoError(t, f.Append(json.RawMessage(`{"step":2,"tokens":[5],"text":"=1+1","score":{"reward":1,"verdict":"AC"}}`)))
	require.NoError(t, f.Close())
	for name, text := range map[string]string{
		"metrics.jsonl":   someMetrics,
		"train_log.jsonl": `{"step":1,"total_s":0.5}` + "\n",
		"rollouts.jsonl": `{"step":1,"tokens":[1,2],"text":" a,\"b\"\n\u003cé\r\n","score":{"reward":null}}` + "\n" +
			`{"step":3,"tokens":[],"text":"","score":{"reward":0}}` + "\n",
		"rollouts.jsonl.zst": packed.String(),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

func exported(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.Execute()
	return out.String(), err
}

// A warm-up has no samples, and holds rows out: the message about an empty table does not blame settings that only other runs have.
func TestWhyAWarmUpHasNoRows(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"metrics.jsonl": `{"step":1,"loss":2}` + "\n", "config.json": `{"method":"dpo"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for table, want := range map[string]string{
		"rollouts":    "has no rollouts on record: it is a warm-up, which samples nothing; it has steps, evaluations and timing",
		"evaluations": "has no evaluations on record yet; eval_every, held_out and test_data say when there are some",
	} {
		_, err := exported(t, "csv", dir, "--table", table)
		require.EqualError(t, err, dir+" "+want)
	}
}

// A packed run has no record of the clock; other tables can be exported all the same.
func TestARunWithoutAClock(t *testing.T) {
	dir, out := recorded(t), t.TempDir()
	require.NoError(t, os.Remove(filepath.Join(dir, trainLogFile)))
	_, err := exported(t, "csv", dir, "--table", "timing")
	require.EqualError(t, err, dir+" has no timing on record yet")
	says, err := exported(t, "parquet", dir, "--out", out)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(says, ".parquet: "), says)
}

// A truncated line, or two that were joined, are reported as damage in the record of the clock, as in every other.
func TestADamagedClock(t *testing.T) {
	dir := recorded(t)
	for _, line := range []string{`{"step":1,"total_s":0.5`, `{"step":1}{"step":2}`, "[1,2]", "null"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, trainLogFile), []byte(line+"\n"+`{"step":3}`+"\n"), 0o644))
		_, err := exported(t, "csv", dir, "--table", "timing")
		require.ErrorContains(t, err, filepath.Join(dir, trainLogFile)+":1: ")
		require.True(t, badinput.Is(err))
	}
}

// If a run goes back while its record is read, the columns may change: no value is written under another's name.
func TestARecordThatIsWrittenAnew(t *testing.T) {
	dir := recorded(t)
	for _, format := range []string{"csv", "parquet"} {
		table, err := source{dir, "steps"}.read()
		require.NoError(t, err)
		anew := strings.ReplaceAll(someMetrics, "mean_reward", "other_"+format)
		require.NoError(t, os.WriteFile(filepath.Join(dir, metricsFile), []byte(anew), 0o644))
		require.ErrorContains(t, table.write(format, io.Discard), dir+" was replaced while it was read; type the same command again")
	}
}

func TestTablesOfARunThatGoesOn(t *testing.T) {
	dir := recorded(t)
	for args, want := range map[string]string{
		"csv": "step,mean_reward,verdicts.AC,verdicts.CE,refilled,updated,note\r\n1,1e-05,3,,,true,\r\n2,0.5,3,1,9,false,\r\n",
		"csv --table evaluations": "step,pass@1_greedy,pass@1_greedy_ci.0,pass@1_greedy_ci.1,k\r\n0,0.25,0,0.5,2\r\n" +
			"2,0.5,0.2,0.7,2\r\n",
		"csv --table rollouts": "step,tokens,text,score.reward,score.verdict\r\n1,\"[1,2]\",\" a,\"\"b\"\"\n<é\r\n\",,\r\n" +
			"2,[5],=1+1,1,AC\r\n3,[],,0,\r\n",
		"csv --table timing": "step,total_s\r\n1,0.5\r\n",
		"jsonl": `{"step":1,"mean_reward":1e-05,"verdicts.AC":3,"updated":true,"note":null}` + "\n" +
			`{"step":2,"mean_reward":0.5,"verdicts.AC":3,"verdicts.CE":1,"refilled":9,"updated":false}` + "\n",
		"jsonl --table rollouts": `{"step":1,"tokens":[1,2],"text":" a,\"b\"\n\u003cé\r\n","score.reward":null}` + "\n" +
			`{"step":2,"tokens":[5],"text":"=1+1","score.reward":1,"score.verdict":"AC"}` + "\n" +
			`{"step":3,"tokens":[],"text":"","score.reward":0}` + "\n",
	} {
		got, err := exported(t, append(strings.Fields(args), dir)...)
		require.NoError(t, err, args)
		require.Equal(t, want, got, args)
		if strings.HasPrefix(args, "csv") { // other programs read it, too
			_, err := csv.NewReader(strings.NewReader(got)).ReadAll()
			require.NoError(t, err)
		}
		file := filepath.Join(t.TempDir(), "table")
		says, err := exported(t, append(strings.Fields(args), dir, "--out", file)...)
		require.NoError(t, err, args)
		require.Contains(t, says, file+": ")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

func TestMistakesAreAnswered(t *testing.T) {
	dir, bare := recorded(t), t.TempDir()
	checkpoint := filepath.Join(dir, "checkpoints", "step_000002")
	require.NoError(t, os.MkdirAll(checkpoint, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(checkpoint, "state.json"), nil, 0o644))
	for args, says := range map[string]string{
		"":                                      "type grpo export csv RUN",
		"csv":                                   "type grpo export csv RUN",
		"csv a b":                               "one run; type grpo export csv RUN",
		dir:                                     "jsonl, parquet, tensorboard, wandb or mlflow; type grpo export csv " + dir,
		dir + " jsonl":                          "the format comes first; type grpo export jsonl " + dir,
		"xlsx " + dir:                           `found "xlsx", expected csv, jsonl, parquet, tensorboard, wandb or mlflow`,
		"csv " + bare:                           bare + ": found no metrics.jsonl there",
		"csv " + checkpoint:                     "is a checkpoint; type the directory of its run, " + dir,
		"csv --table tokens " + dir:             `--table: found "tokens", expected steps, evaluations, timing or rollouts`,
		"csv --out " + bare + " " + dir:         "found a directory, expected a file; type --out " + filepath.Join(bare, "steps.csv"),
		"csv --out " + bare + "/a/b.csv " + dir: "there is no folder " + bare + "/a; make it first",
		"jsonl --out " + dir + "/metrics.jsonl " + dir: dir + " is a run, and its files stay as they are",
		"parquet " + dir: "type grpo export parquet " + dir + " --out DIR, or --out steps.parquet",
		"parquet --out " + dir + "/tables " + dir: dir + " is a run, and its files stay as they are",
		"tensorboard " + dir:                      "type grpo export tensorboard " + dir + " --out DIR",
		"wandb --table steps --out x " + dir:      "--table: wandb has them all; leave it out",
		"mlflow --out " + dir + "/mlruns " + dir:  dir + " is a run, and its files stay as they are",
	} {
		out, err := exported(t, strings.Fields(args)...)
		require.ErrorContains(t, err, says, args)
		require.True(t, badinput.Is(err), args)
		require.Empty(t, out)
	}
	require.NoError(t, os.WriteFile(filepath.Join(bare, "metrics.jsonl"), nil, 0o644))
	for table, says := range map[string]string{
		"steps": "has no steps on record yet", "evaluations": "eval_every and test_data", "rollouts": "record_rollouts",
	} {
		_, err := exported(t, "csv", bare, "--table", table)
		require.ErrorContains(t, err, says)
	}
	require.NoError(t, os.WriteFile(filepath.Join(bare, "metrics.jsonl"), []byte("{\"step\":1}\n{\"step\":\n{}\n"), 0o644))
	_, err := exported(t, "csv", bare)
	require.ErrorContains(t, err, "metrics.jsonl:2: ")
}

// A list in the record of the clock has a column for each element.
func TestListsOfTiming(t *testing.T) {
	dir := recorded(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "train_log.jsonl"), []byte(`{"step":1,"waits_s":[0.5,2]}`+"\n"), 0o644))
	out, err := exported(t, "csv", dir, "--table", "timing")
	require.NoError(t, err)
	require.Equal(t, "step,waits_s.0,waits_s.1\r\n1,0.5,2\r\n", out)
}

// Each table becomes a file, with columns of the same types in all runs; with --table, only that table.
func TestTypedTables(t *testing.T) {
	dir, out := recorded(t), filepath.Join(t.TempDir(), "tables")
	says, err := exported(t, "parquet", dir, "--out", out)
	require.NoError(t, err)
	require.Equal(t, out+"/steps.parquet: 2 rows, 7 columns\n"+out+"/evaluations.parquet: 2 rows, 5 columns\n"+
		out+"/timing.parquet: 1 row, 2 columns\n", says)
	type step struct {
		Step    int64   `parquet:"step,optional"`
		Mean    float64 `parquet:"mean_reward,optional"`
		Right   *int64  `parquet:"verdicts.AC,optional"`
		Wrong   *int64  `parquet:"verdicts.CE,optional"`
		Updated bool    `parquet:"updated,optional"`
	}
	read, err := parquet.ReadFile[step](filepath.Join(out, "steps.parquet"))
	require.NoError(t, err)
	three, one := int64(3), int64(1)
	require.Equal(t, []step{{1, 1e-5, &three, nil, true}, {2, 0.5, &three, &one, false}}, read)

	file := filepath.Join(t.TempDir(), "completions.parquet")
	says, err = exported(t, "parquet", dir, "--table", "rollouts", "--out", file)
	require.NoError(t, err)
	require.Equal(t, file+": 3 rows, 5 columns\n", says)
	type completion struct {
		Tokens []int64 `parquet:"tokens,optional,list"`
		Text   string  `parquet:"text,optional"`
	}
	texts, err := parquet.ReadFile[completion](file)
	require.NoError(t, err)
	require.Equal(t, []completion{{[]int64{1, 2}, " a,\"b\"\n<é\r\n"}, {[]int64{5}, "=1+1"}, {[]int64{}, ""}}, texts)
}

// A folder of tables belongs to one run: a table left by another run that this one does not have is refused, and if a table cannot be
// written, the others stay unchanged.
func TestTablesOfTwoRunsAreNotMixed(t *testing.T) {
	dir, out := recorded(t), filepath.Join(t.TempDir(), "tables")
	_, err := exported(t, "parquet", dir, "--out", out)
	require.NoError(t, err)
	before := map[string][]byte{}
	look := func(into map[string][]byte) {
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		for _, e := range entries {
			into[e.Name()], err = os.ReadFile(filepath.Join(out, e.Name()))
			require.NoError(t, err)
		}
	}
	look(before)
	require.Len(t, before, 3)
	unchanged := func() {
		now := map[string][]byte{}
		look(now)
		require.Equal(t, before, now)
	}

	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "metrics.jsonl"), []byte(`{"step":1,"mean_reward":0.5}`+"\n"), 0o644))
	_, err = exported(t, "parquet", other, "--out", out)
	require.EqualError(t, err, "--out "+out+": found evaluations.parquet there, but "+other+" has no evaluations, "+
		"so that file is of another run; choose another folder, or remove that file")
	require.True(t, badinput.Is(err))
	unchanged()

	steps, err := source{other, "steps"}.read()
	require.NoError(t, err)
	broken := &content{source: source{dir, "evaluations"}, rows: 2} // its record has none of the columns
	require.ErrorContains(t, writeTables([]*content{steps, broken}, out, io.Discard), "was replaced")
	unchanged()

	_, err = exported(t, "parquet", other, "--table", "steps", "--out", out)
	require.NoError(t, err, "a table that was named is exported by itself")
	says, err := exported(t, "parquet", dir, "--table", "timing", "--out", t.TempDir())
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(says, ".parquet: "), "only the named table is written")
}

// A run with evaluations but no steps has no tables.
func TestTablesOfARunWithoutSteps(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	evaluation, _, _ := strings.Cut(someMetrics, "\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, metricsFile), []byte(evaluation+"\n"), 0o644))
	_, err := exported(t, "parquet", dir, "--out", out)
	require.EqualError(t, err, dir+" has no steps on record yet")
}

// A run exported in another program's format says which program reads it, and is the same when it is exported again.
func TestWholeRuns(t *testing.T) {
	t.Setenv("WANDB_PROJECT", "p")
	dir := recorded(t)
	for form, reads := range map[string]string{"tensorboard": "tensorboard --logdir OUT",
		"wandb":  "wandb sync OUT/offline-run-19700101_000000-",
		"mlflow": "mlflow ui --backend-store-uri OUT"} {
		out := filepath.Join(t.TempDir(), "a", "b")
		for range 2 {
			says, err := exported(t, form, dir, "--out", out)
			require.NoError(t, err)
			require.Contains(t, says, out+": "+strings.ReplaceAll(reads, "OUT", out))
		}
	}
}

// Other programs read the original texts from CSV, whatever characters they have.
func TestTextsComeBackFromCSV(t *testing.T) {
	texts := []string{`say "a"`, `"`, "a,b", "two\nlines", "a\rb", " before", "behind\t", "", "plain"}
	var out bytes.Buffer
	w := csvRows{Writer: bufio.NewWriter(&out)}
	w.line(texts)
	require.NoError(t, w.Flush())
	got, err := csv.NewReader(&out).Read()
	require.NoError(t, err)
	require.Equal(t, texts, got)
	out.Reset()
	w.line([]string{" a", "b ", "c\rd"})
	require.NoError(t, w.Flush())
	require.Equal(t, "\" a\",\"b \",\"c\rd\"\r\n", out.String(), "some readers take spaces off that stand in no quotes, or end a line with CR")
}

// A table ends at the row where its columns were determined, though the run goes on.
func TestATableEndsWhereItWasRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "metrics.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"step":1,"updated":false,"loss":0,"x":1}`+"\n"), 0o644))
	table, err := source{dir, "steps"}.read()
	require.NoError(t, err)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"step":2,"updated":true,"loss":3,"more":1}` + "\n")
	require.NoError(t, errors.Join(err, f.Close()))
	var out bytes.Buffer
	require.NoError(t, table.write("csv", &out))
	require.Equal(t, "step,updated,x\r\n1,false,1\r\n", out.String(), "and a step without an update has no loss")
}
