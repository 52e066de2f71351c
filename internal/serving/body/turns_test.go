package body

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client has one turn at a time, all together have two; leaving twice counts once.
func TestTurns(t *testing.T) {
	turns := NewTurns()
	over, end := context.WithCancel(t.Context())
	end()
	ada, err := turns.Take(t.Context(), "ada")
	require.NoError(t, err)
	refused := func(who, why string) {
		for range 64 { // select chooses at random between a free turn and an ended context
			_, err := turns.Take(over, who)
			require.ErrorIs(t, err, context.Canceled, why)
		}
	}
	refused("ada", "she has one")
	eve, err := turns.Take(t.Context(), "eve")
	require.NoError(t, err)
	refused("bob", "there are two")
	ada()
	ada()
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bob, err := turns.Take(soon, "bob")
	require.NoError(t, err, "a cancelled client leaves nothing")
	refused("ada", "there are two again")
	eve()
	bob()
	again, err := turns.Take(t.Context(), "ada")
	require.NoError(t, err)
	again()
}
