package openai

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/body"
)

// A stop string that is completed only at the end, when the rest of a character becomes U+FFFD, is not shown either.
func TestAStopAtTheVeryEnd(t *testing.T) {
	for stop, want := range map[string]string{"\uFFFD": "ab", "b\uFFFD": "a", "\uFFFDc": "ab\uFFFD"} {
		fields := `"logprobs":true,"seed":3,"return_token_ids":true,"stop":["` + stop + `"]`
		got := ask(t, New(endsInHalf(t), Options{}), fields)
		require.Equal(t, want, got.Choices[0].content(), "%q", stop)
		require.Equal(t, "stop", got.Choices[0].Finish)
		require.Len(t, got.Choices[0].LogProbs.Content, len([]rune(want)))
		require.Equal(t, got.Choices, streamed(t, New(endsInHalf(t), Options{}), fields).Choices, "%q", stop)
		text := continued(t, New(endsInHalf(t), Options{}), `"prompt":"a","stop":["`+stop+`"]`)
		require.Equal(t, want, text.Choices[0].Text)
	}
}

// endsInHalf answers ab and half of a character.
func endsInHalf(t *testing.T) *script {
	s := scripted(t)
	tok := s.Language.Tokenizer
	s.tokens = slices.Concat(tok.Encode("a"), tok.Encode("b"), tok.Encode("👋")[:1])
	require.Len(t, s.tokens, 3, "a case of this test")
	return s
}

// If one token completes several stop strings, the one that comes first in the text counts, in whatever order they were sent.
func TestTheFirstOfSeveralStops(t *testing.T) {
	s := scripted(t, "x print")
	require.Contains(t, tokensAsText(t, s, "x print"), " print", "a case of this test: one token")
	for _, stops := range []string{`["t","r"]`, `["r","t"]`} {
		got := ask(t, New(s, Options{}), `"stop":`+stops)
		require.Equal(t, "x p", got.Choices[0].content(), stops)
		require.Equal(t, "stop", got.Choices[0].Finish)
	}
}

// A token whose text may become part of a stop string is not listed with the text before it.
func TestATokenThatIsHeldIsNotListed(t *testing.T) {
	s := scripted(t)
	tok := s.Language.Tokenizer
	s.tokens = slices.Concat(tok.Encode("a"), tok.Encode("b"), tok.Encode("Y"))
	require.Len(t, s.tokens, 3, "a case of this test")
	fields := `"logprobs":true,"return_token_ids":true,"stop":["aX","bY"]`
	got := ask(t, New(s, Options{}), fields)
	require.Equal(t, "a", got.Choices[0].content())
	require.Len(t, got.Choices[0].LogProbs.Content, 1)
	require.Equal(t, "a", got.Choices[0].LogProbs.Content[0].Token)
	require.Equal(t, 3, got.Usage.Completion, "usage counts the tokens of the stop string")
	require.Equal(t, got.Choices, streamed(t, New(s, Options{}), fields).Choices)
}

// A stop string completed by the last possible token, or by the rest of its character, has stopped the answer.
func TestAStopWithTheLastToken(t *testing.T) {
	s := endsInHalf(t)
	for stop, want := range map[string]string{"\uFFFD": "ab", "b\uFFFD": "a"} {
		got := ask(t, New(s, Options{}), `"max_tokens":3,"stop":["`+stop+`"]`)
		require.Equal(t, want, got.Choices[0].content())
		require.Equal(t, "stop", got.Choices[0].Finish, "%q", stop)
	}
	got := ask(t, New(s, Options{}), `"max_tokens":2,"stop":["\uFFFD"]`)
	require.Equal(t, "length", got.Choices[0].Finish)
}

// tokensAsText are the tokens of a text, as text.
func tokensAsText(t *testing.T, s *script, text string) (list []string) {
	t.Helper()
	for _, id := range s.Language.Tokenizer.Encode(text) {
		piece, ok := s.Language.Tokenizer.Token(id)
		require.True(t, ok)
		list = append(list, piece)
	}
	return list
}

// failingWriter accepts no writes, like a connection whose client was cut off.
type failingWriter struct{ *httptest.ResponseRecorder }

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A stream that cannot be written ends at once, and drawing for it stops, although no disconnect was reported.
func TestAStreamThatNobodyTakes(t *testing.T) {
	s := scripted(t, "a b c")
	s.hang = true
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(with(`"stream":true`)))
	New(s, Options{}).ServeHTTP(failingWriter{httptest.NewRecorder()}, r)
	require.NoError(t, ctx.Err(), "it must end at once, and not wait for the next token")
	<-s.cancelled
}

// A prompt and its completion may have as many tokens together as /v1/models says, and no more.
func TestTheLongestCompletion(t *testing.T) {
	s := scripted(t, "a")
	for most, want := range map[int]int{s.MaxLength - 2: http.StatusOK, s.MaxLength - 1: http.StatusBadRequest} {
		status, text := post(t, New(s, Options{}), "/v1/completions", fmt.Sprintf(`{"model":"tiny","prompt":[5,6],"max_tokens":%d}`, most))
		require.Equal(t, want, status, text)
	}
}

// top_p=0 means greedy for clients, while the sampler takes 0 for all tokens.
func TestTopPOfNothing(t *testing.T) {
	s := scripted(t, "a")
	h := New(s, Options{})
	ask(t, h, `"top_p":0`)
	ask(t, h, `"top_p":0.5`)
	require.Equal(t, float32(math.SmallestNonzeroFloat32), s.asked[0].Params.TopP)
	require.Equal(t, float32(0.5), s.asked[1].Params.TopP)
}

// If token ids are requested and there are none, the list is empty.
func TestNoTokenIDs(t *testing.T) {
	h := New(scripted(t, ""), Options{})
	_, text := post(t, h, "/v1/chat/completions", with(`"return_token_ids":true`))
	require.Contains(t, text, `"token_ids":[]`)
	_, text = post(t, h, "/v1/chat/completions", with(`"return_token_ids":true,"stream":true`))
	list := lines(t, text)
	require.Contains(t, list[len(list)-2], `"token_ids":[],"finish_reason":"stop"`)
	_, text = post(t, h, "/v1/chat/completions", with(""))
	require.NotContains(t, text, "token_ids")
}

// A large body that waits for its turn when the server stops gets an error, and no empty response.
func TestStoppingWhileALargeBodyWaits(t *testing.T) {
	s := New(scripted(t), Options{})
	leave, err := s.turns.Take(t.Context(), "")
	require.NoError(t, err)
	defer leave()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(ShutdownCause())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions",
		strings.NewReader(with(strings.Repeat(" ", body.LargeSize))))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "the server is stopping")
}
