package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// scale is the size of the synthetic set. GRPO_SCALE=full is that of the largest public set.
type scale struct{ problems, bytes int }

func testScale() (s scale, full bool) {
	switch os.Getenv("GRPO_SCALE") {
	case "full":
		return scale{25_000, 2 << 30}, true
	case "tenth":
		return scale{2_500, 200 << 20}, false
	}
	return scale{250, 4 << 20}, false
}

// synthetic calls fn with every row of the set: tests as a string of JSON, in the three styles of the large collections, of sizes that
// vary by a factor of a hundred.
func synthetic(s scale, fn func(statement, tests string)) {
	rng := rand.New(rand.NewPCG(1, 2))
	statement := bytes.Repeat([]byte("Given n numbers, print their sum. "), 60)
	for i := range s.problems {
		size := s.bytes / s.problems / 2
		if i%10 == 0 { // a tenth of the problems has more than half of the bytes
			size *= 11
		}
		size = size/2 + rng.IntN(size)
		fn(fmt.Sprintf("%d: %s", i, statement), syntheticTests(rng, i%3, size))
	}
}

func syntheticTests(rng *rand.Rand, style, size int) string {
	numbers := func(sep string, n int) string {
		out := make([]byte, 0, n+8)
		for len(out) < n {
			out = append(strconv.AppendInt(out, rng.Int64N(1e9), 10), sep...)
		}
		return string(out[:len(out)-len(sep)])
	}
	var tests any
	switch each := max(size/20, 8); style {
	case 0:
		list := make([]map[string]string, 20)
		for i := range list {
			list[i] = map[string]string{"type": "stdin_stdout", "input": numbers("\n", each), "output": "1\n"}
		}
		tests = list
	case 1:
		var in, out []string
		for range 20 {
			in, out = append(in, numbers(" ", each)), append(out, "2\n")
		}
		tests = map[string][]string{"inputs": in, "outputs": out}
	case 2:
		list := make([]map[string]any, 20)
		for i := range list {
			list[i] = map[string]any{"type": "function_call", "fn_name": "total",
				"input": json.RawMessage("[[" + numbers(", ", each) + "]]"), "output": []int{3}}
		}
		tests = list
	}
	text, err := json.Marshal(tests)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func writeSyntheticLines(t *testing.T, path string, s scale) {
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	enc := json.NewEncoder(w)
	synthetic(s, func(statement, tests string) {
		require.NoError(t, enc.Encode(map[string]string{"problem": statement, "tests": tests}))
	})
	require.NoError(t, w.Flush())
}

func writeSyntheticParquet(t *testing.T, path string, s scale) {
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	w := parquet.NewGenericWriter[parquetRecord](f, parquet.MaxRowsPerRowGroup(1000), parquet.Compression(&parquet.Snappy))
	synthetic(s, func(statement, tests string) {
		_, err := w.Write([]parquetRecord{{Problem: statement, Tests: &tests}})
		require.NoError(t, err)
	})
	require.NoError(t, w.Close())
}

// A set of the full size loads within a minute and a gigabyte, and a step's problems come with their tests in less than 50 ms. These
// limits apply only at full size; at any size every problem must be there.
func TestScale(t *testing.T) {
	race.SkipSerial(t)
	s, full := testScale()
	for name, write := range map[string]func(*testing.T, string, scale){"synthetic.jsonl": writeSyntheticLines,
		"synthetic.parquet": writeSyntheticParquet} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, name), s)
			resetPeak()

			start, cpu := time.Now(), cputime.Used()
			set := open(t, filepath.Join(dir, name), Options{CacheDir: dir})
			first, cpu := time.Since(start), cputime.Used()-cpu
			start = time.Now()
			again := open(t, filepath.Join(dir, name), Options{CacheDir: dir})
			second, peak := time.Since(start), peakMemory()

			require.Equal(t, s.problems, set.Manifest().Problems)
			require.Equal(t, 20*s.problems, set.Manifest().Tests)
			require.Empty(t, set.Manifest().Refused)

			const step = 16
			worst := time.Duration(0)
			for at := 0; at+step <= s.problems; at += max(s.problems/10, step) {
				start = time.Now()
				for i := at; i < at+step; i++ {
					tests, err := again.Problems()[i].Tests(ctx)
					require.NoError(t, err)
					require.Len(t, tests, 20)
				}
				worst = max(worst, time.Since(start))
			}
			t.Logf(
				"%d problems, %d MB of tests: first load %.1fs (%.1fs of processor), next %.1fs, peak %d MB, %d problems with tests %.1fms",
				s.problems, set.Manifest().Payload>>20, first.Seconds(), cpu.Seconds(), second.Seconds(), peak>>20, step,
				float64(worst.Microseconds())/1e3)
			if full {
				require.Less(t, first, time.Minute)
				require.Less(t, peak, int64(1<<30))
				require.Less(t, worst, 50*time.Millisecond)
			}
		})
	}
}

// resetPeak and peakMemory measure the peak memory of the process, if the system counts it.
func resetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200)
}

func peakMemory() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	var kb int64
	fmt.Sscanf(string(after), "%d", &kb)
	return kb << 10
}

// A row larger than the budget of rows in flight is read alone.
func TestABudgetHasRoomForOneRow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := newBudget(10)
	require.NoError(t, b.take(ctx, 100))
	cancel()
	require.ErrorIs(t, b.take(ctx, 1), context.Canceled)
	b.give(100)
	require.NoError(t, b.take(t.Context(), 4))
	require.NoError(t, b.take(t.Context(), 6))
}
