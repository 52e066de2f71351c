package hub

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func TestRefusals(t *testing.T) {
	answer := func(code int, header ...string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			return true
		}
	}
	for _, c := range []struct {
		trouble func(http.ResponseWriter, *http.Request) bool
		token   string
		says    []string
	}{
		{answer(401), "", []string{"401", "set HF_TOKEN", "/settings/tokens", "/datasets/o/d"}},
		{answer(401), "wrong", []string{"401", "refuses this HF_TOKEN"}},
		{answer(403), "", []string{"403", "accept the terms"}},
		{answer(401, "X-Error-Code", "GatedRepo"), "", []string{"o/d is gated", "accept its terms at", "/datasets/o/d", "set HF_TOKEN"}},
		{answer(403, "X-Error-Code", "GatedRepo"), "mine", []string{"o/d is gated", "this HF_TOKEN has no access", "/datasets/o/d"}},
		{answer(404, "X-Error-Code", "RepoNotFound"), "", []string{"404", "check the name"}},
		{answer(404), "", []string{"404", "check the name, and HF_ENDPOINT"}},
		{answer(404, "X-Error-Code", "RevisionNotFound"), "", []string{`no revision "main"`}},
	} {
		h := newFakeHub(t)
		client, waits := h.client(t)
		client.Token = c.token
		h.setTrouble(c.trouble)
		_, err := fetch(client, large)
		require.True(t, badinput.Is(err), "%v", err)
		for _, s := range c.says {
			require.ErrorContains(t, err, s)
		}
		require.Empty(t, *waits, "a refusal is not retried")
	}

	h := newFakeHub(t)
	client, _ := h.client(t)
	_, err := fetch(client, "no/such.file")
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, `no file "no/such.file"`)
	_, err = client.Snapshot(context.Background(), Repo{Type: Dataset, ID: "../etc"})
	require.True(t, badinput.Is(err))
}

func TestTooManyRequests(t *testing.T) {
	h := newFakeHub(t)
	c, waits := h.client(t)
	var asked atomic.Int32 // on several connections
	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		n := asked.Add(1)
		if n > 2 {
			return false
		}
		w.Header().Set("Retry-After", []string{"7", time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)}[n-1])
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	_, err := fetch(c, large)
	require.NoError(t, err)
	require.Len(t, *waits, 2)
	require.Equal(t, 7*time.Second, (*waits)[0])
	require.InDelta(t, 90, (*waits)[1].Seconds(), 3)

	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	_, err = fetch(c, large)
	require.ErrorContains(t, err, "24h")
}
