package sessions

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"context"
)

func TestZZFailedThenOther(t *testing.T) {
	s, n := quiet(t, Options{Poll: time.Millisecond})
	now := make(chan bool)
	close(now)
	j := put(t, n, "step 1", now, errors.New("x"))
	<-j.over
	_, err := n.join(&job{key: "step 1", sum: "other", over: make(chan struct{}), run: func(context.Context) ([]byte, error) { return nil, nil }})
	fmt.Println(err)
	_ = s
}

func TestZZDeleted(t *testing.T) {
	s, n := quiet(t, Options{Poll: time.Hour})
	at := make(chan bool)
	put(t, n, "a", at, nil)
	at <- true
	var wg sync.WaitGroup
	wg.Go(func() {
		w := httptest.NewRecorder()
		err := n.do(w, httptest.NewRequest("POST", "/", nil), "b", "", func(context.Context) ([]byte, error) { return nil, n.ctx.Err() })
		fmt.Println("waits:", refusal.Of(err).Status, err)
	})
	time.Sleep(50 * time.Millisecond)
	wg.Go(func() { fmt.Println(s.delete(httptest.NewRecorder(), nil, n)) })
	time.Sleep(50 * time.Millisecond)
	w := httptest.NewRecorder()
	err := n.do(w, httptest.NewRequest("POST", "/", nil), "c", "", nil)
	fmt.Println("late:", refusal.Of(err).Status, err)
	close(at)
	wg.Wait()
}

func TestZZAgainWhileRemoved(t *testing.T) {
	s := newServer(t)
	begin := func() string {
		r := httptest.NewRequest("POST", "/v1/sessions", strings.NewReader(`{}`))
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		s.answered(s.create)(w, r)
		return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))[:100]
	}
	fmt.Println(begin())
	n := s.sessions[idOf("", "k")]
	at := make(chan bool)
	put(t, n, "a", at, nil)
	at <- true
	var wg sync.WaitGroup
	wg.Go(func() { fmt.Println(s.call("DELETE", "/v1/sessions/"+n.ID, "")) })
	time.Sleep(100 * time.Millisecond)
	fmt.Println("again:", begin())
	close(at)
	wg.Wait()
	fmt.Println(begin())
}

func TestZZFinishAgain(t *testing.T) {
	s := newServer(t)
	r, err := grpo.OpenRemote(t.Context(), grpo.RemoteOptions{URL: s.web.URL, Problems: problems()})
	require.NoError(t, err)
	at := "/v1/sessions/" + r.ID
	fmt.Println(s.call("POST", at+"/finish", `{}`))
	fmt.Println(s.call("POST", at+"/finish", `{"serve_as":"x"}`))
	fmt.Println(s.call("GET", "/v1/models/x", ``))
}
