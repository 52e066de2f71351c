package sandbox

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Arguments that are not JSON are a mistake of whoever calls, and no verdict on the program.
func TestArgumentsThatAreNotJSON(t *testing.T) {
	p := openPool(t, 0, 1)
	prog, results := Program{Code: "def f(x): return x", Call: "f"}, 0
	inputs := []Input{{Args: []json.RawMessage{json.RawMessage("1")}}, {Args: []json.RawMessage{json.RawMessage("{1")}}}
	err := p.Run(t.Context(), t.Name(), prog, inputs, Limits{}, func(int, Result) bool { results++; return true })
	require.ErrorContains(t, err, `sandbox: input 1: argument 0 is "{1", expected a JSON value`)
	require.True(t, badinput.Is(err))
	require.Equal(t, 1, results)
	expectHonest(t, p)
}

// So is a session whose program has no function to call: it is no failure of the machine.
func TestASessionWithoutACall(t *testing.T) {
	s := openPool(t, 0, 1).NewSession(t.Name(), Program{Code: "print(1)"}, SessionLimits{})
	defer s.Close()
	_, err := s.Call(t.Context(), []byte("1"))
	require.ErrorContains(t, err, "the program of the session has no Call")
	require.True(t, badinput.Is(err))
}

func TestRunWithoutACallback(t *testing.T) {
	p := openPool(t, RungUnsafe, 1)
	require.PanicsWithValue(t, "sandbox.Pool.Run: the argument each is nil, expected a function that is called with every result",
		func() { _ = p.Run(t.Context(), "", Program{}, []Input{{}}, Limits{}, nil) })
}
