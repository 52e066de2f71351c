package tools

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/race"
)

//go:embed testdata/programs.txt
var programsText string

// hostileProgram is a program that attacks the tracer.
type hostileProgram struct {
	name, code string
	want       []string // one of these is in the trace
}

func hostilePrograms(t testing.TB) (all []hostileProgram) {
	t.Helper()
	for _, text := range strings.Split(programsText, "=== ")[1:] {
		name, rest, _ := strings.Cut(text, "\n")
		want, code, ok := strings.Cut(rest, "\n")
		require.True(t, ok)
		alternatives, ok := strings.CutPrefix(want, "want: ")
		require.True(t, ok, name)
		all = append(all, hostileProgram{name, code, strings.Split(alternatives, "|")})
	}
	require.Greater(t, len(all), 60)
	return all
}

// quick are the programs of the short form: fast ones, each with a different target.
var quick = regexp.MustCompile(`^(repr-hangs|settrace-reset|settrace-by-c|os-exit-by-c|overwrite-the-record|` +
	`builtins-emptied|class-lies|metaclass|generators|exception-str-hangs|key-cycle)$`)

// TestHostilePrograms: whatever a program does to the tracer, the answer comes in time and has a bounded size in every form, and it
// shows what can be known.
func TestHostilePrograms(t *testing.T) {
	t.Parallel()
	j := sharedJudge(t)
	programs := hostilePrograms(t)
	for _, p := range programs {
		if soak == 0 && !quick.MatchString(p.name) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			k := openKit(t, data.Problem{Kind: data.Stdin}, shortLimits(j))
			start := time.Now()
			text := ask(t, k, "trace", map[string]any{"code": p.code})
			require.Less(t, time.Since(start), 2*time.Minute)
			require.True(t, slices.ContainsFunc(p.want, func(w string) bool { return strings.Contains(text, w) }),
				"want %q in:\n%s", p.want, text)
			if soak == 0 {
				return
			}
			require.NotEmpty(t, run(t, k, p.code))
			require.Equal(t, "42", run(t, k, "6 * 7"), "the next call is unharmed")
		})
	}
}

// FuzzRecords: a process can write any record. The reader must accept all, and every trace must be printable.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("[\"o\",[[1,2]]]\n[\"l\",0,1]\n[\"f\",1,\"g\",1,[[\"x\",null,\"1\"]]]\n[\"r\",1,\"2\"]\n[\"c\",0,[[\"a\",null,\"1\"]]]\n"))
	f.Add([]byte("[\"r\",0]\n[\"f\",-5]\n[\"u\",99999999]\n[\"l\",64,-1]\n[\"x\",3]\n[\"y\"]\n[[]]\n\x00"))
	f.Add([]byte("[\"o\",[[1,1],[1,9],[9,1]]]\n[\"l\",0,1]\n[\"l\",0,1]\n[\"f\",0,\"a\"]\n[\"l\",0,9]\n[\"g\",0]\n[\"l\",0,1]\n"))
	f.Fuzz(func(t *testing.T, record []byte) {
		trace := readTrace("a\nb", resultWith(record))
		for _, form := range []Form{LinesForm, TableForm, StoryForm} {
			if text := trace.Text(form, 500); len(text) > 500 {
				t.Fatalf("%d bytes", len(text))
			}
		}
		if _, err := json.Marshal(trace); err != nil {
			t.Fatal(err)
		}
	})
}

// A record may have only exceptions and no lines. Finding that there is no line must take constant time for each.
func TestRecordsWithoutLines(t *testing.T) {
	start := cputime.Used()
	trace := readTrace("a", resultWith([]byte(strings.Repeat("[\"x\",0,1,\"\"]\n", 100_000))))
	require.Len(t, trace.steps, 100_000)
	require.Less(t, cputime.Used()-start, 10*time.Second)
}

// A record may claim more nested loops than a program can have.
func TestARecordOfLoopsWithoutEnd(t *testing.T) {
	race.SkipSerial(t)
	var record bytes.Buffer
	record.WriteString(`["o",[`)
	const n = 10_000
	for i := range n {
		if i > 0 {
			record.WriteByte(',')
		}
		fmt.Fprintf(&record, "[%d,%d]", i+1, n)
	}
	record.WriteString("]]\n")
	for i := range n {
		fmt.Fprintf(&record, "[\"l\",0,%d]\n", i+1)
	}
	start := cputime.Used()
	readTrace("a", resultWith(record.Bytes())).Text(LinesForm, 4000)
	if took := cputime.Used() - start; took > time.Second {
		t.Errorf("it took %v", took)
	}
}
