package given

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAll(t *testing.T) {
	var nobody *int
	var none context.Context
	one := 1
	require.NotPanics(t, func() { All("f", "ctx", context.Background(), "p", &one) })
	require.PanicsWithValue(t, "f: the argument p is nil, expected a policy, such as model.Open opens",
		func() { All("f", "ctx", context.Background(), "p", nobody) })
	require.PanicsWithValue(t, "f: the argument ctx is nil, expected a context, such as context.Background()",
		func() { All("f", "ctx", none) })
}
