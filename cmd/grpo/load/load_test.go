package load

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels/device"
)

// millis is a moment of a test, in milliseconds.
func millis(ms int) time.Time { return time.UnixMilli(int64(ms)) }

// Decoding rates count tokens while all answers are being drawn, total rates from the first request to the last token.
func TestRates(t *testing.T) {
	all := answers{
		{asked: millis(0), came: []time.Time{millis(100), millis(200), millis(300), millis(400)}},
		{asked: millis(50), came: []time.Time{millis(250), millis(350), millis(450)}},
	}
	require.InEpsilon(t, 3/0.150, all.rate(), 1e-9, "300, 350 and 400 are after 250")
	require.InEpsilon(t, 7/0.450, all.whole(), 1e-9)
	require.InEpsilon(t, 2/0.5, answers{{asked: millis(0), came: []time.Time{millis(100)}},
		{asked: millis(0), came: []time.Time{millis(500)}}}.rate(), 1e-9)
	require.Equal(t, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}, all.firsts())
	l := latencies(all.firsts(), append(all.gaps(), 7*time.Second))
	require.Equal(t, Latencies{Answers: 2, First: 200, First99: 200, Between: 100, Between99: 7000, BetweenMax: 7000}, *l)
}

// Other servers are called by OpenAI's API. Their answers are checked to have the requested number of tokens.
func TestAnotherServer(t *testing.T) {
	says := 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if says == 0 {
			http.Error(w, "no such model", http.StatusNotFound)
			return
		}
		for range says {
			fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
		}
		fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", says)
	}))
	defer server.Close()
	l := Load{Model: bench.Model{Runs: 1}, URL: server.URL, Name: "m", Clients: 2, Prompt: 4, Completion: 3}
	r, err := l.Run(t.Context())
	require.NoError(t, err)
	require.Len(t, r.Served, 1)
	require.Equal(t, 2, r.Short.Answers)
	require.Nil(t, r.Long)
	require.Len(t, r.AtOnce.Most, 1)
	require.Nil(t, r.AloneAtOnce)
	says = 2
	_, err = l.Run(t.Context())
	require.ErrorContains(t, err, "3 tokens says that there are 2")
	says = 0
	_, err = l.Run(t.Context())
	require.ErrorContains(t, err, "404 Not Found: no such model")
	for _, wrong := range []Load{{Clients: 0}, {URL: "http://a"}, {URL: "localhost:8000", Name: "m"}, {Long: -1}} {
		l := Load{Model: bench.Model{Runs: 1}, URL: wrong.URL, Name: wrong.Name, Clients: 1, Prompt: 4, Completion: 3, Long: wrong.Long}
		if wrong.URL == "" && wrong.Long == 0 {
			l.Clients = 0
		}
		_, err := l.Run(t.Context())
		require.True(t, badinput.Is(err), "%v", err)
	}
}

// Our own server is measured beside the sampler and the decoder, and with long prompts; every token of its vocabulary has a text.
func TestOurOwnServer(t *testing.T) {
	l := Load{Model: bench.Model{Open: device.Open, Device: "cpu", Shape: "tiny/1", Runs: 1}, Clients: 2, Prompt: 8, Completion: 12, Long: 60,
		Temperature: 1}
	r, err := l.Run(t.Context())
	require.NoError(t, err)
	for _, rate := range []float64{r.Served[0], r.Alone[0], r.Decoded[0], r.Ratio, r.OfDecode, r.MixedRate} {
		require.Positive(t, rate)
	}
	require.Equal(t, 6, r.Mixed.Answers)
	require.Contains(t, r.Report().Rows[1][0], "beside prompts of 60")
	require.Equal(t, 3, strings.Count(r.Report().Below, " completions were "), "%s", r.Report().Below)
	l.Long = 5000
	_, err = l.Run(t.Context())
	require.ErrorContains(t, err, "4096 positions")

	tok, err := madeUpTokenizer(700)
	require.NoError(t, err)
	require.Equal(t, 700, tok.VocabSize())
	require.Equal(t, "A awaa\n", tok.Decode([]int32{'A', 572, '\n'}, false))
}
