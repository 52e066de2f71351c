package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// A verb whose output cannot be written fails, whichever way it prints.
func TestFullOutputs(t *testing.T) {
	race.SkipCovered(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	model := filepath.Join(dir, "tiny")
	require.NoError(t, tiny.Extract(model))
	problems := write("p.jsonl", `{"id":"a","prompt":"Write a program that prints 1.","tests":[{"input":"","output":"1\n"}]}`+"\n")
	record := filepath.Join(dir, "record")
	require.NoError(t, os.Mkdir(record, 0o755))
	write("record/metrics.jsonl", "{\"step\":1}\n")
	write("record/rollouts.jsonl", fmt.Sprintf("{\"step\":1,\"text\":%q}\n", strings.Repeat("x", 1<<17)))
	datums := write("d.jsonl", `{"tokens":[1,2,3],"ob_len":1,"logprobs":[-1,-1],"advantage":1}`+"\n")
	for _, c := range []struct{ line, stdin string }{
		{"tokenize --tokenizer " + model, "{\"text\":\"a\"}\n"},
		{"score --model " + model, "{\"tokens\":[1,2,3]}\n"},
		{"sample --model " + model + " --max-tokens 2 --prompt a", ""},
		{"sample --model " + model + " --max-tokens 2 --prompt a --json", ""},
		{"sample --model " + model + " --max-tokens 2 --prompt a --n 2", ""},
		{"replay --model " + model + " --rank 1 --datums " + datums + " --out " + filepath.Join(dir, "out"), ""},
		{"data inspect " + problems, ""},
		{"data inspect --json " + problems, ""},
		{"data fingerprint " + problems, ""},
		{"data fetch " + problems, ""},
		{"data convert " + problems, ""},
		{"export csv " + record, ""},
		{"export jsonl --table rollouts " + record, ""},
		{"--print-config", ""},
		{"--dry-run run_dir=" + filepath.Join(dir, "run"), ""},
		{"--help", ""},
		{"--version", ""},
	} {
		var errs bytes.Buffer
		code := run(t.Context(), strings.Fields(c.line), strings.NewReader(c.stdin), full, &errs)
		require.Equal(t, exitFailed, code, "%s: %s", c.line, errs.String())
		require.Equal(t, 1, strings.Count(errs.String(), "no space left on device"), c.line)
		require.Equal(t, 1, strings.Count(errs.String(), "grpo: "), errs.String())
	}
}

// If the reader of export-model's output goes away, the model is complete all the same, without partial files.
func TestNobodyReadsWhatAnExportSays(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	folder := t.TempDir()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	cmd := exec.Command(exe, "export-model", "--model", "tiny", "--type", "bf16", "--out", "result")
	cmd.Stdout = writer
	p := startCommand(t, folder, cmd)
	require.NoError(t, writer.Close())
	_, _ = p.end(t)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "result", left[0].Name())
}

// If the reader of a run's output goes away, it trains and saves to the end, and reports that output is missing.
func TestNobodyReadsTheOutput(t *testing.T) {
	o := newFakeSandbox(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	want, _ := o.finish(t, t.TempDir())
	folder := t.TempDir()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	cmd := exec.Command(exe, o.words("run_dir=run")...)
	cmd.Args = append(cmd.Args, "--json")
	cmd.Stdout = writer
	p := startCommand(t, folder, cmd)
	require.NoError(t, writer.Close())
	code, says := p.end(t)
	require.Equal(t, exitFailed, code, says)
	require.Contains(t, says, "standard output: write /dev/stdout: "+syscall.EPIPE.Error())
	requireSameEnd(t, want, runFiles(t, folder))
}
