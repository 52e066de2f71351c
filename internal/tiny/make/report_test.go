package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// The report separates trained families from the others: here the greedy completion and one of 64 samples are right for each problem of
// a trained family, and none for the others.
func TestTheReportCountsKindsApart(t *testing.T) {
	train, heldOut, err := tiny.Problems()
	require.NoError(t, err)
	trained := map[string]bool{}
	for _, p := range train {
		trained[string(p.Metadata)] = true
	}
	var lines strings.Builder
	known := 0
	for _, p := range heldOut {
		verdict := "WA"
		if trained[string(p.Metadata)] {
			verdict = "AC"
			known++
		}
		fmt.Fprintf(&lines, `{"problem":%q,"sample":0,"temperature":0,"verdict":%q}`+"\n", p.ID, verdict)
		for i := range 64 {
			fmt.Fprintf(&lines, `{"problem":%q,"sample":%d,"temperature":1,"verdict":%q}`+"\n", p.ID, i, verdict)
			verdict = "WA"
		}
	}
	path := filepath.Join(t.TempDir(), "seed-7.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o644))
	var out bytes.Buffer
	require.NoError(t, report(&out, []string{path}))
	share := fmt.Sprintf("%.3f", float64(known)/float64(len(heldOut)))
	rows := strings.Split(out.String(), "\n")
	require.Equal(t, []string{"seed-7", share, fmt.Sprintf("%.3f", float64(known)/float64(len(heldOut))/64)}, strings.Fields(rows[2])[:3])
	require.Equal(t, share, strings.Fields(rows[2])[5], "pass@64")
	require.Equal(t, strings.Fields("seed-7 1.000 0.016 0.062 0.250 1.000"), strings.Fields(rows[6]))
	require.Equal(t, strings.Fields("seed-7 0.000 0.000 0.000 0.000 0.000"), strings.Fields(rows[10]))

	first, rest, _ := strings.Cut(lines.String(), "\n")
	require.NoError(t, os.WriteFile(path, []byte(rest[strings.Index(rest, heldOut[1].ID)-12:]), 0o644))
	require.ErrorContains(t, report(&out, []string{path}), "found no completion of "+heldOut[0].ID, first)
	require.ErrorContains(t, report(&out, []string{path + "x"}), "grpo eval --out")
	require.ErrorContains(t, report(&out, nil), "type -report FILE")
}
