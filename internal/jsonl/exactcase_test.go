package jsonl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A key in other case is refused, also beside the right one; everything else is as in json.Unmarshal.
func TestExactly(t *testing.T) {
	type inner struct {
		Layers int `json:"num_layers"`
	}
	var v struct {
		inner
		Hidden int `json:"hidden_size,omitempty"`
	}
	require.NoError(t, UnmarshalExactCase([]byte(`{"hidden_size":3,"num_layers":2,"Other":1}`), &v))
	require.Equal(t, 3, v.Hidden)
	require.Equal(t, 2, v.Layers)
	for text, want := range map[string]string{
		`{"Hidden_Size":4}`:                      `found the key "Hidden_Size", expected hidden_size`,
		`{"hidden_size":3,"HIDDEN_SIZE":"four"}`: `found the key "HIDDEN_SIZE", expected hidden_size`,
		`{"Num_layers":4}`:                       `found the key "Num_layers", expected num_layers`,
		`[]`:                                     "cannot unmarshal array",
		`{"hidden_size":"x"}`:                    "cannot unmarshal string",
		`{`:                                      "unexpected end",
	} {
		require.ErrorContains(t, UnmarshalExactCase([]byte(text), &v), want)
	}
	var all map[string]int
	require.NoError(t, UnmarshalExactCase([]byte(`{"A":1}`), &all))
	require.Equal(t, map[string]int{"A": 1}, all)
}
