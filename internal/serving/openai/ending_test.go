package openai

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/body"
)

// A stop string that the end of an answer alone completes, when what is left of a character becomes U+FFFD, is not shown either.
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

// endsInHalf says ab and half of a character.
func endsInHalf(t *testing.T) *script {
	s := scripted(t)
	tok := s.Language.Tokenizer
	s.tokens = slices.Concat(tok.Encode("a"), tok.Encode("b"), tok.Encode("👋")[:1])
	require.Len(t, s.tokens, 3, "a case of this test")
	return s
}

// Where token ids are asked for and there are none, there is an empty list.
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

// Who waits for a turn with a large body when the server stops is told that, and gets no empty answer.
func TestStoppingWhileALargeBodyWaits(t *testing.T) {
	s := New(scripted(t), Options{})
	leave, err := s.turns.Take(t.Context(), "")
	require.NoError(t, err)
	defer leave()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(Stopping())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(with(strings.Repeat(" ", body.Large))))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "the server is stopping")
}
