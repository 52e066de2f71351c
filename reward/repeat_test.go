package reward

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// unpredictable are statements with an unpredictable value.
var unpredictable = map[string]string{
	"time":          "import time; x = time.time_ns()",
	"date":          "import datetime; x = datetime.datetime.now().isoformat()",
	"used":          "import time; x = repr(time.process_time_ns() + time.perf_counter_ns())",
	"urandom":       "import os; x = os.urandom(16).hex()",
	"secrets":       "import secrets; x = secrets.token_hex(16)",
	"uuid":          "import uuid; x = uuid.uuid4()",
	"uuid1":         "import uuid; x = uuid.uuid1()",
	"seeded by now": "import random; random.seed(); x = random.random()",
	"own generator": "import random; x = random.Random().random()",
	"SystemRandom":  "import random; x = random.SystemRandom().random()",
	"address":       "x = object()",
	"id":            "x = id([])",
	"process":       "import os; x = repr((os.getpid(), os.getppid(), 'process'))",
	"tempfile":      "import tempfile; x = tempfile.mktemp()",
	"order":         "class A: pass\nx = [a.__hash__() for a in {A() for _ in range(100)}]",
}

// TestEqualVerdicts: a program gets the same verdict again, also from another judge with other cells. Unpredictable values
// change no verdict if the answer does not depend on them, and are a wrong answer every time if they are printed.
func TestEqualVerdicts(t *testing.T) {
	t.Parallel()
	const answer = "print(sum(map(int, input().split())))\n"
	var completions []Completion
	var names []string
	var want []Verdict
	add := func(name, code string, v Verdict) {
		completions = append(completions, Completion{Problem: sumProblem(), Text: fenced(code)})
		names, want = append(names, name), append(want, v)
	}
	for name, code := range unpredictable {
		add(name+" beside the answer", "import sys\n"+code+"\nprint(x, file=sys.stderr)\n"+answer, AC)
		add(name+" after the answer", answer+code+"\nprint(x)", WA)
	}
	drawn := len(want)
	// Programs that draw at random get the same verdict every time: the seeds of hashes and of random are fixed.
	const coin = "n = sum(map(int, input().split()))\nprint(n if %s else -n)"
	for i := range testvariants.Limit(5, 10) {
		add(fmt.Sprint("coin ", i), fmt.Sprintf(coin, fmt.Sprintf("hash('coin %d') %% 2", i)), "")
		add(fmt.Sprint("draw ", i), fmt.Sprintf(coin, fmt.Sprintf("[random.random() for _ in range(%d)][-1] < 0.5", i+1)), "")
	}
	for range 2 {
		j := NewJudge(correct(t), localPool(t), nil, nil) // with an empty cache
		scores, err := All(t.Context(), j, completions)
		require.NoError(t, err)
		for i, s := range scores {
			if want[i] == "" {
				want[i] = s.Verdict
			}
			require.Equal(t, want[i], s.Verdict, "%s: %s", names[i], s.Note)
		}
	}
	require.Contains(t, want[drawn:], WA)
	require.Contains(t, want[drawn:], AC)
}
