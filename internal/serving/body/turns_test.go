package body

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// One has one turn at a time, all have two; who leaves twice leaves once.
func TestTurns(t *testing.T) {
	turns := NewTurns()
	over, end := context.WithCancel(t.Context())
	end()
	ada, err := turns.Take(t.Context(), "ada")
	require.NoError(t, err)
	_, err = turns.Take(over, "ada")
	require.ErrorIs(t, err, context.Canceled, "she has one")
	eve, err := turns.Take(t.Context(), "eve")
	require.NoError(t, err)
	_, err = turns.Take(over, "bob")
	require.ErrorIs(t, err, context.Canceled, "there are two")
	ada()
	ada()
	bob, err := turns.Take(t.Context(), "bob")
	require.NoError(t, err, "one whom nobody waited for has left nothing behind")
	_, err = turns.Take(over, "ada")
	require.ErrorIs(t, err, context.Canceled)
	eve()
	bob()
	again, err := turns.Take(t.Context(), "ada")
	require.NoError(t, err)
	again()
}
