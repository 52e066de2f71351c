package tinker

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hookedBody is a body that calls a function when it was read to its end.
type hookedBody struct {
	io.Reader
	ends func()
}

func (e *hookedBody) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.ends()
	}
	return n, err
}

// A body counts against the limit until it is decoded: bodies waiting for that are bounded together with those being read.
func TestWhatIsNotMadeOfYetIsBounded(t *testing.T) {
	s := serve(t, t.TempDir(), ownerByKey)
	ada := s.as("ada")
	n := ada.connect(t)
	v, err := n.Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	m := train(t, n, 1)
	account := s.server.account("ada")
	data := crossEntropy(weightedDatum(tokens1, 3, 1))
	data.ModelID, data.SeqID = m.ID, 1
	for path, text := range map[string]string{
		"forward_backward": string(data.Append(nil)),
		"asample": `{"sampling_session_id":"` + v.ID + `","seq_id":3,"prompt":{"chunks":[{"type":"encoded_text","tokens":[5]}]},` +
			strings.Repeat(" ", small) + `"sampling_params":{"max_tokens":1}}`,
	} {
		call := func(ends func()) int {
			r := httptest.NewRequest("POST", prefix+path, &hookedBody{strings.NewReader(text), ends})
			r.Header.Set("X-Api-Key", ada.Key)
			r.ContentLength = int64(len(text))
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, r)
			return w.Code
		}
		account.mu.Lock()
		account.reading = maxReading - int64(len(text))
		account.mu.Unlock()
		account.unpacking.Lock()
		come, answered := make(chan bool, 9), make(chan int, 1)
		go func() { answered <- call(func() { come <- true }) }()
		<-come
		require.Equal(t, http.StatusTooManyRequests, call(func() {}), path)
		account.unpacking.Unlock()
		require.Equal(t, http.StatusOK, <-answered, path)
		account.mu.Lock()
		require.Equal(t, maxReading-int64(len(text)), account.reading, path)
		account.mu.Unlock()
	}
}

// A sampling request may be as long as a prompt, and not as long as training data.
func TestAPromptIsNoData(t *testing.T) {
	s := serve(t, t.TempDir(), ownerByKey)
	ada := s.as("ada")
	v, err := ada.connect(t).Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	ask := func(more string) int {
		r := httptest.NewRequest("POST", prefix+"asample", strings.NewReader(`{"sampling_session_id":"`+v.ID+
			`","prompt":{"chunks":[`+more+`{"type":"encoded_text","tokens":[5]}]},"sampling_params":{"max_tokens":1}}`))
		r.Header.Set("X-Api-Key", ada.Key)
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		return w.Code
	}
	context := s.server.bases["tiny"].Context
	require.Equal(t, http.StatusOK, ask(`{"type":"encoded_text","tokens":[5`+strings.Repeat(",5", 8*context)+`]},`),
		"a prompt that is too long is accepted: its future has the error")
	require.Equal(t, http.StatusRequestEntityTooLarge, ask(strings.Repeat("{},", small/3+perToken*context/3)))
}
