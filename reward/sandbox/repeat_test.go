//go:build linux && (amd64 || arm64)

package sandbox

import (
	"maps"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// repeatable are programs that print what normally differs from one start of an interpreter to the next, and must not differ here.
var repeatable = map[string]string{
	"a set of texts":        `print(*{"alpha", "beta", b"gamma", ("delta", 1), frozenset({"a", "b"}), 2.5})`,
	"set operations":        `w = {chr(97 + i) * (i % 5 + 1) for i in range(26)}; print(w - {"a"} | {"z!"}, next(iter(w)))`,
	"a dictionary of a set": `print({word: len(word) for word in {"one", "three", "eleven", "twelve", "hundred"}})`,
	"hashes":                `import datetime; print(hash("grpo"), hash(b"grpo"), hash(datetime.date(2024, 2, 29)), hash(1.5))`,
	"random without a seed": `import random; print(random.random(), random.sample(range(1000), 5), random.choice("abc"))`,
	"random, not imported":  `x = list(range(20)); shuffle(x); print(x, random.getrandbits(64))`,
	"the names that exist":  `print(list(globals()), set(dir()))`,
}

// addressed are programs that print objects in an order that depends on their addresses, because they are hashed by them.
var addressed = map[string]string{
	"a set with None":    `print({None, "a", *range(5)}, hash(None), {(None, i) for i in range(200)})`,
	"a set of classes":   `import builtins; print({x for x in vars(builtins).values() if isinstance(x, type)})`,
	"a set of functions": `import math, os; print([f.__name__ for f in {f for m in (os, math) for f in vars(m).values() if callable(f)}])`,
}

// TestRepeats: a program that is run again prints the same, in another cell or in the same one, whatever ran there
// before.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for _, rung := range testvariants.EveryNth(2, RungFull, RungNamespaces, RungUID, RungLandlock, RungUnsafe) {
		t.Run(rung.String(), func(t *testing.T) {
			t.Parallel()
			programs := maps.Clone(repeatable)
			if out, err := exec.Command("setarch", "-R", "true").CombinedOutput(); err != nil {
				t.Logf("without addresses, which this machine keeps random: %v %s", err, out)
			} else if rung != RungUnsafe { // an ordinary process has random addresses
				maps.Copy(programs, addressed)
			}
			first := printed(t, rung, programs)
			for name, again := range printed(t, rung, programs) {
				if again != first[name] {
					t.Errorf("%s: another pool printed %.300q, the first %.300q", name, again, first[name])
				}
			}
		})
	}
}

// printed runs programs in a fresh pool and returns what they print. It checks that they print the same a second time, and in the long
// form a third.
func printed(t *testing.T, rung Rung, programs map[string]string) map[string]string {
	t.Helper()
	p := openPool(t, rung, 1)
	all := map[string]string{}
	for range 2 + min(full, 1) {
		for name, code := range programs { // in another order each time
			r := runTest(t, p, Program{Code: code}, Input{}, Limits{CPU: 5 * time.Second, Wall: time.Minute})
			if r.Status != OK || strings.TrimSpace(string(r.Stdout)) == "" {
				t.Fatalf("%s ended with %v and printed %q: %s", name, r.Status, r.Stdout, r.Stderr)
			}
			if before, known := all[name]; known && before != string(r.Stdout) {
				t.Errorf("%s printed %.300q, and %.300q before", name, r.Stdout, before)
			}
			all[name] = string(r.Stdout)
		}
	}
	return all
}
