package sessions

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/body"
)

// Large bodies are parsed one at a time, small ones at once; the turn is returned, whatever the error.
func TestLargeBodiesTakeTurns(t *testing.T) {
	s, n := idleServer(t, Options{})
	mux := http.NewServeMux()
	s.Register(mux)
	post := func(ctx context.Context, path, text string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(text)))
		return w
	}
	over, end := context.WithCancel(t.Context())
	end()
	many := `{"step":1,"problems":[{}` + strings.Repeat(",{}", body.LargeSize/3) + `]}`
	for path, wrong := range map[string]string{
		"/v1/sessions":                          strings.Replace(many, `"step":1,`, "", 1),
		"/v1/sessions/" + n.ID + "/sample":      strings.Replace(many, `"step":1`, `"n":0`, 1),
		"/v1/sessions/" + n.ID + "/train_step":  many,
		"/v1/sessions/" + n.ID + "/train_step#": strings.Replace(many, "{}", "{]", 1),
	} {
		path = strings.TrimSuffix(path, "#")
		leave, err := s.turns.Take(t.Context(), "")
		require.NoError(t, err)
		require.Contains(t, post(over, path, wrong).Body.String(), "nobody waited", path)
		require.NotContains(t, post(over, path, `{"nothing":1}`).Body.String(), "nobody waited", path)
		leave()
		require.Equal(t, http.StatusBadRequest, post(t.Context(), path, wrong).Code, path)
		leave, err = s.turns.Take(t.Context(), "")
		require.NoError(t, err)
		leave()
	}
}
