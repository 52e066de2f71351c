package overlap

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

func problem(id, statement string) data.Problem {
	return data.Problem{ID: id, Statement: statement, Kind: data.Stdin}
}

// randomStatement is a random statement of n words.
func randomStatement(r *rand.Rand, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("w%d", r.IntN(5000))
	}
	return strings.Join(words, " ")
}

func TestIdsOnlyName(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	long := randomStatement(r, 80)
	changed := strings.Fields(long)
	changed[40] = "other"
	half := strings.Join(append(strings.Fields(long)[:40:40], strings.Fields(randomStatement(r, 40))...), " ")
	other := problem("o", "Add.")
	other.FuncName = "add"
	others := []data.Problem{problem("0", "Print a + b."), problem("1", long), other}
	set := []data.Problem{
		problem("0", "Print a - b, then c."), // the same id
		problem("x", " Print a\n+ b."),       // the same task
		problem("y", strings.Join(changed, " ")), problem("z", half), problem("u", "print  A + B!"), problem("v", "Add."),
	}
	got := Find(others, set)
	require.Equal(t, []int{-1, 0, -1, -1, -1, -1}, got.Same)
	require.Equal(t, []int{-1, 0, 1, -1, 0, -1}, got.Near)
	require.InDelta(t, 1-8.0/73, got.Like[2], 1e-9)
}

// Starter code is part of a problem's text.
func TestStarterCodeIsPartOfATask(t *testing.T) {
	begun := problem("0", "Complete the class.")
	begun.StarterCode = "class Stack:\n    pass"
	same, other := begun, begun
	same.StarterCode, other.StarterCode = "class Stack:\n\tpass\n", "class Queue:\n    pass"
	require.Equal(t, []int{0, -1}, Find([]data.Problem{begun}, []data.Problem{same, other}).Same)
}

// A statement of 30 words is compared by its runs of eight; of equally similar problems the first is reported.
func TestTheFirstOfThoseThatAreAsLike(t *testing.T) {
	words := strings.Fields(randomStatement(rand.New(rand.NewPCG(5, 6)), 30))
	asked := problem("x", strings.Join(words, " "))
	words[2] = "other"
	var others []data.Problem
	for i := range 40 {
		others = append(others, problem(fmt.Sprint(i), strings.Join(words, " ")))
	}
	for range 10 { // they are compared in parallel, in any order
		got := Find(others, []data.Problem{asked})
		require.Equal(t, []int{0}, got.Near)
		require.InDelta(t, 20.0/23, got.Like[0], 1e-9)
	}
	again := problem("again", strings.Repeat(asked.Statement+" ", 3))
	require.Equal(t, []float64{1}, Find([]data.Problem{again}, []data.Problem{asked}).Like, "repetition does not change similarity")
}

// Words that hundreds of problems of the set share do not make a statement similar to any.
func TestWordsOfHundredsTellNothing(t *testing.T) {
	phrase := randomStatement(rand.New(rand.NewPCG(7, 8)), 40)
	var set []data.Problem
	for i := range 257 {
		set = append(set, problem(fmt.Sprint(i), fmt.Sprint(phrase, " case ", i)))
	}
	others := []data.Problem{problem("o", phrase)}
	for _, near := range Find(others, set).Near {
		require.Equal(t, -1, near)
	}
	for _, near := range Find(others, set[:256]).Near {
		require.Equal(t, 0, near)
	}
}

// Common phrases make no two problems similar, and large sets are compared in seconds.
func TestLargeSetsAreComparedInSeconds(t *testing.T) {
	n := testvariants.Limit(10_000, 25_000)
	if race.Enabled {
		n /= 5
	}
	phrase := strings.Repeat("the first line of the input has one integer and the next line has others ", 2)
	r := rand.New(rand.NewPCG(3, 4))
	sets := [2][]data.Problem{}
	for s := range sets {
		for i := range []int{n, n / 10}[s] {
			sets[s] = append(sets[s], problem(fmt.Sprint(i), randomStatement(r, 150)+" "+phrase))
		}
	}
	sets[1][77].Statement = sets[0][n/2].Statement + " And one sentence more."
	began := cputime.Used()
	got := Find(sets[0], sets[1])
	took := cputime.Used() - began
	require.Less(t, took, 60*time.Second)
	t.Logf("%d and %d problems: %v", n, n/10, took)
	for i, near := range got.Near {
		want := -1
		if i == 77 {
			want = n / 2
		}
		require.Equal(t, want, near)
		require.Equal(t, -1, got.Same[i])
	}
}
