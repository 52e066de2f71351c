package precondition

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAll(t *testing.T) {
	var nobody *int
	var none context.Context
	one := 1
	require.NotPanics(t, func() { NotNil("f", "ctx", context.Background(), "p", &one) })
	require.PanicsWithValue(t, "f: the argument p is nil, expected a policy, such as model.Open opens",
		func() { NotNil("f", "ctx", context.Background(), "p", nobody) })
	require.PanicsWithValue(t, "f: the argument ctx is nil, expected a context, such as context.Background()",
		func() { NotNil("f", "ctx", none) })
}

func TestBetween(t *testing.T) {
	require.NotPanics(t, func() { InRange("f", "n", 1, 1, 3); InRange("f", "n", 3, 1, 3) })
	require.PanicsWithValue(t, "f: n is 4, expected 1 to 3", func() { InRange("f", "n", 4, 1, 3) })
	require.PanicsWithValue(t, "f: n is 0, expected 1 to 3", func() { InRange("f", "n", 0, 1, 3) })
}
