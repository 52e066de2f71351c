package adapters

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Requests for one name run one after the other, those for different names concurrently, and no state is left.
func TestNames(t *testing.T) {
	var n names
	over, end := context.WithCancel(t.Context())
	end()
	leave, err := n.take(t.Context(), "a")
	require.NoError(t, err)
	for range 64 { // select chooses at random between a free turn and an ended context
		_, err = n.take(over, "a")
		require.ErrorContains(t, err, "nobody waited")
	}
	other, err := n.take(t.Context(), "b")
	require.NoError(t, err)
	other()
	leave()
	again, err := n.take(t.Context(), "a")
	require.NoError(t, err)
	again()
	require.Empty(t, n.busy)
}

// Concurrent requests to load in place of one name all succeed, whether the adapter was loaded before or not.
func TestManyLoadInPlace(t *testing.T) {
	s := serve(t, t.TempDir())
	for round := range 4 {
		var all sync.WaitGroup
		answers := make([]string, 12)
		for i := range answers {
			all.Go(func() {
				if i%4 == 3 {
					s.call("POST", "/v1/unload_lora_adapter", `{"lora_name":"mine"}`)
					return
				}
				answers[i] = s.load(fmt.Sprintf(`{"lora_name":"mine","lora_path":%q,"load_inplace":true}`, []string{"one", "deep/two", "three"}[i%3]))
			})
		}
		all.Wait()
		for i, answer := range answers {
			if i%4 != 3 {
				require.Contains(t, answer, "200 Success", "round %d", round)
			}
		}
	}
}
