package warmup

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

// Rows that are too long are truncated or left out, and counted.
func TestRowsTooLong(t *testing.T) {
	path := rowsFile(t, configs.SFT, 4)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	for _, where := range []string{"prompt", "completion"} {
		row := map[string]string{"prompt": "a", "completion": "b", "input": " ", where: strings.Repeat("long ", 200)}
		require.NoError(t, json.NewEncoder(f).Encode(row))
	}
	require.NoError(t, f.Close())
	l := &listener{}
	trainer, err := open(t, configs.SFT, l, "data="+path, "held_out=0", "row_tokens=60", "run_dir="+filepath.Join(t.TempDir(), "r"))
	require.NoError(t, err)
	defer trainer.Close()
	require.Equal(t, []int{5, 60, 1, 1}, []int{trainer.set.train, trainer.set.longest, trainer.set.cut, trainer.set.empty})
	require.Len(t, l.warned, 2)
}

// Unused columns beside a prompt are reported.
func TestAnInputIsNotRead(t *testing.T) {
	path, l := filepath.Join(t.TempDir(), "a.jsonl"), &listener{}
	require.NoError(t, os.WriteFile(path, []byte(`{"instruction": "Double it.", "input": "4", "output": "8"}`+"\n"), 0o644))
	trainer, err := open(t, configs.SFT, l, "data="+path, "held_out=0", "run_dir="+filepath.Join(t.TempDir(), "r"))
	require.NoError(t, err)
	defer trainer.Close()
	require.Equal(t, []string{"the column input of 1 row is not read; write it into the prompt, or take it out"}, l.warned)
}

// Empty answers are trained on, and reported: more often than not they are holes in the data.
func TestEmptyAnswersAreToldOf(t *testing.T) {
	for method, rows := range map[string]string{
		configs.SFT: `{"prompt": "a", "completion": " "}` + "\n" + `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]}`,
		configs.DPO: `{"prompt": "a", "chosen": "", "rejected": "b"}` + "\n" + `{"prompt": "a", "chosen": "b", "rejected": ""}`,
	} {
		path, l := rowsFile(t, method, 2), &listener{}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = f.WriteString(rows + "\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
		trainer, err := open(t, method, l, "data="+path, "held_out=0", "run_dir="+filepath.Join(t.TempDir(), "r"))
		require.NoError(t, err)
		require.Equal(t, 4, trainer.set.train)
		require.NoError(t, trainer.Close())
		require.Equal(t, []string{"an answer of 2 rows is empty, the first of " + path + ":3: the model learns to say nothing there; take it " +
			"out unless that is meant"}, l.warned)
	}
}

// Rows that are in both the training and the held-out data are reported.
func TestRowsOnBothSidesAreToldOf(t *testing.T) {
	path, run := rowsFile(t, configs.SFT, 3), filepath.Join(t.TempDir(), "r")
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	first = first[:bytes.IndexByte(first, '\n')+1]
	other := filepath.Join(t.TempDir(), "other.jsonl")
	require.NoError(t, os.WriteFile(other, append([]byte(`{"prompt": "a", "completion": "b"}`+"\n"), first...), 0o644))
	for held, says := range map[string][]string{
		path:  {"3 rows held out are also among the training rows (" + path + ":1 is " + path + ":1): what they show may be memorised"},
		other: {"1 row held out is also among the training rows (" + other + ":2 is " + path + ":1): what it shows may be memorised"},
	} {
		l := &listener{}
		trainer, err := open(t, configs.SFT, l, "data="+path, "test_data="+held, "run_dir="+run)
		require.NoError(t, err)
		require.NoError(t, trainer.Close())
		require.Equal(t, says, l.warned)
	}
}
