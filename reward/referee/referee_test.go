package referee

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// endpoint is a server that answers the n-th request.
func endpoint(t *testing.T, answer func(n int64, prompt string, w http.ResponseWriter)) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q request
		if r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&q) != nil || len(q.Messages) != 1 {
			http.Error(w, "not a chat completion", http.StatusNotFound)
			return
		}
		if r.Header.Get("Authorization") != "Bearer secret" || q.Model != "m" {
			http.Error(w, "who is there?", http.StatusUnauthorized)
			return
		}
		answer(asked.Add(1), q.Messages[0].Content, w)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", asked
}

func says(w http.ResponseWriter, text string) {
	json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": message{"assistant", text}}}})
}

func newReferee(t *testing.T, cfg Config) *Referee {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model, cfg.Key = "m", "secret"
	}
	r, err := New(cfg)
	require.NoError(t, err)
	r.pause = time.Millisecond
	return r
}

func ask(t *testing.T, r *Referee, prompt string) (float64, string) {
	t.Helper()
	score, note, err := r.Ask(t.Context(), prompt)
	require.NoError(t, err)
	return score, note
}

// Nothing is asked twice, in this process or another.
func TestAnswersAreKept(t *testing.T) {
	url, asked := endpoint(t, func(n int64, prompt string, w http.ResponseWriter) {
		if prompt == "unread" {
			says(w, "no idea")
			return
		}
		says(w, fmt.Sprintf("Well.\n{\"score\": 0.%d}", n))
	})
	cfg := Config{URL: url, Cache: filepath.Join(t.TempDir(), "kept")}
	for range 2 {
		r := newReferee(t, cfg)
		for range 2 {
			score, note := ask(t, r, "a")
			require.Equal(t, 0.1, score, note)
		}
	}
	require.EqualValues(t, 1, asked.Load())
	score, _ := ask(t, newReferee(t, cfg), "b")
	require.Equal(t, 0.2, score)
	for range 2 { // an answer without a score is not cached
		_, note := ask(t, newReferee(t, cfg), "unread")
		require.Equal(t, `found no score in the answer "no idea"`, note)
	}
	require.EqualValues(t, 4, asked.Load())

	require.NoError(t, os.RemoveAll(cfg.Cache))
	require.NoError(t, os.WriteFile(cfg.Cache, nil, 0o644))
	_, _, err := newReferee(t, cfg).Ask(t.Context(), "a")
	require.ErrorContains(t, err, "cache the judge's answer")
}

// A temporary failure of the endpoint is retried, a refusal is not; both end in a note.
func TestFailures(t *testing.T) {
	never := make(chan struct{})
	url, asked := endpoint(t, func(n int64, prompt string, w http.ResponseWriter) {
		switch {
		case prompt == "busy" && n < 3:
			http.Error(w, "later", http.StatusTooManyRequests)
		case prompt == "busy":
			says(w, "0.5")
		case prompt == "broken":
			http.Error(w, "oh", http.StatusBadGateway)
		case prompt == "late":
			http.Error(w, "oh", http.StatusRequestTimeout)
		case prompt == "moved":
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusMovedPermanently)
		case prompt == "slow":
			<-never
		case prompt == "odd":
			fmt.Fprint(w, "{}")
		case prompt == "refused":
			http.Error(w, `{"error":{"message":"no such model"}}`, http.StatusNotFound)
		default:
			http.Error(w, "no such page", http.StatusNotFound)
		}
	})
	t.Cleanup(func() { close(never) })
	r := newReferee(t, Config{URL: url})
	score, note := ask(t, r, "busy")
	require.Equal(t, 0.5, score, note)
	for _, tt := range []struct {
		prompt, note string
		asked        int64
	}{
		{"broken", "502 Bad Gateway", tries}, {"late", "408 Request Timeout", tries}, {"odd", "expected choices", tries},
		{"other", `404 Not Found: "no such page"`, 1}, {"refused", "404 Not Found: no such model", 1},
		{"moved", "/elsewhere; use that as judge_url", 1},
	} {
		asked.Store(10)
		_, note = ask(t, r, tt.prompt)
		require.Contains(t, note, tt.note)
		require.Equal(t, tt.asked, asked.Load()-10, tt.prompt)
	}
	impatient := newReferee(t, Config{URL: url, Timeout: 20 * time.Millisecond})
	_, note = ask(t, impatient, "slow")
	require.Contains(t, note, "no answer within 20ms")
	require.EqualValues(t, tries, impatient.Sent()) // some may time out before the endpoint has read them
	_, note = ask(t, newReferee(t, Config{URL: url, Model: "m", Key: "wrong"}), "busy")
	require.Contains(t, note, "401 Unauthorized")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := r.Ask(ctx, "busy")
	require.ErrorIs(t, err, context.Canceled)
}

// In an answer that was cut off at the token limit a score counts, but not just any last number. Without a score the request is not
// retried, nor the answer cached.
func TestAnAnswerThatWasCutOff(t *testing.T) {
	url, asked := endpoint(t, func(_ int64, prompt string, w http.ResponseWriter) {
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%q},"finish_reason":"length"}]}`, prompt)
	})
	cfg := Config{URL: url, Cache: t.TempDir()}
	for range 2 {
		_, note := ask(t, newReferee(t, cfg), "Let us see. Step 1")
		require.Equal(t, `the answer was cut off before its score, "Let us see. Step 1"; raise the token limit `+
			`of the endpoint, or ask for a shorter answer in judge_prompt`, note)
	}
	require.EqualValues(t, 2, asked.Load())
	score, note := ask(t, newReferee(t, cfg), `{"score": 0.5}, since 1`)
	require.Equal(t, 0.5, score, note)
	_, note = ask(t, newReferee(t, cfg), `{"score": 0.`)
	require.Contains(t, note, "the answer was cut off before its score", "a number that was cut off is no score")
	_, note = ask(t, newReferee(t, cfg), `<think>{"score": 0.5}? No,`)
	require.Contains(t, note, "the answer was cut off before its score", "a score in thoughts is none")
	cfg.Score = "Score: ([0-9.]+)"
	score, note = ask(t, newReferee(t, cfg), "Score: 7. I say so since 1")
	require.Equal(t, 7.0, score, note)
	_, note = ask(t, newReferee(t, cfg), "Scores are 1")
	require.Contains(t, note, "the answer was cut off before its score")
}

// A negative Retry-After does not prevent a retry.
func TestANegativeRetryAfter(t *testing.T) {
	url, asked := endpoint(t, func(n int64, _ string, w http.ResponseWriter) {
		if n == 1 {
			w.Header().Set("Retry-After", "-1")
			http.Error(w, "later", http.StatusTooManyRequests)
			return
		}
		says(w, "0.5")
	})
	score, note := ask(t, newReferee(t, Config{URL: url}), "a")
	require.Equal(t, 0.5, score, note)
	require.EqualValues(t, 2, asked.Load())
}

// Retry-After is respected.
func TestRetryAfter(t *testing.T) {
	url, asked := endpoint(t, func(_ int64, _ string, w http.ResponseWriter) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "later", http.StatusTooManyRequests)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for asked.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond) // all tries, if nobody listened
		cancel()
	}()
	_, _, err := newReferee(t, Config{URL: url}).Ask(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 1, asked.Load())
}

// No more requests than the budget are sent, retries included, and no more at once than Concurrency.
func TestBudgetAndTurns(t *testing.T) {
	var now, most atomic.Int64
	url, asked := endpoint(t, func(_ int64, _ string, w http.ResponseWriter) {
		for n := now.Add(1); ; {
			if old := most.Load(); old >= n || most.CompareAndSwap(old, n) {
				break
			}
		}
		time.Sleep(2 * time.Millisecond)
		now.Add(-1)
		says(w, "1")
	})
	r := newReferee(t, Config{URL: url, Budget: 5, Concurrency: 2})
	notes := make(chan string)
	for i := range 8 {
		go func() {
			_, note, err := r.Ask(context.Background(), fmt.Sprint(i))
			if err != nil {
				note = err.Error()
			}
			notes <- note
		}()
	}
	refused := 0
	for range 8 {
		if note := <-notes; note != "" {
			require.Equal(t, "the 5 requests of judge_budget are used up", note)
			refused++
		}
	}
	require.Equal(t, 3, refused)
	require.EqualValues(t, 5, asked.Load())
	require.EqualValues(t, 5, r.Sent())
	require.LessOrEqual(t, most.Load(), int64(2))
}

func TestReadingScores(t *testing.T) {
	for _, tt := range []struct {
		pattern, answer string
		score           float64
		fails           string
	}{
		{"", `I say {"score": 0.25, "why": "7 of 9"}`, 0.25, ""},
		{"", `{"score":"0.5"} no: {"score": 1}`, 1, ""},
		{"", "It is 10 of 10.\n\n0.9.", 0.9, ""},
		{"", "<think>0.9</think>\n.5", 0.5, ""},
		{"", "-0.5", 0, "found the score -0.5, expected 0 to 1"},
		{"", "Score: 7", 0, "found the score 7, expected 0 to 1; set judge_score"},
		{"", `{"score": 1.2.3}`, 0, "expected a number"},
		{"", `{"score": "1/10"}`, 0, `expected only a number as the score; set judge_score to read it from other answers`},
		{"", `{"score": 1/10}`, 0, `found "\"score\": 1/10}", expected only a number`},
		{"", `{"score": 1/`, 0, `expected only a number`},
		{"", `{"score": 1 / 10}`, 0, `expected only a number`},
		{"", `{"score": "1 of 10"}`, 0, `expected only a number`},
		{"", `{"score": 0.8%}`, 0, `expected only a number`},
		{"", "{\"score\": \"0.5 \"}, 1/10", 0.5, ""},
		{"", "Correctness: 0/1", 0, `found "Correctness: 0/1", expected only a number`},
		{"", "I give it 0.8 %", 0, `expected only a number`},
		{"", "and/or 0.5", 0.5, ""},
		{"", "Good!", 0, `found no score in the answer "Good!"`},
		{`Score: (-?[0-9.]+)`, "Score: 3\nScore: 7\n{\"score\": 1}", 7, ""},
		{`Score: ([0-9a-z]+)`, "Score: nan", 0, "found the score nan"},
	} {
		pattern, err := parsePattern(tt.pattern)
		require.NoError(t, err)
		score, err := read(pattern, tt.answer)
		if tt.fails != "" {
			require.ErrorContains(t, err, tt.fails, tt.answer)
			continue
		}
		require.NoError(t, err, tt.answer)
		require.Equal(t, tt.score, score, tt.answer)
	}
}

// The ground truth is fetched only for templates that use it.
func TestPrompts(t *testing.T) {
	q := Question{Statement: "Add <a>.", Completion: "a+b {{.}}", Kind: "call", Truth: func() (string, error) { panic("large") }}
	r := newReferee(t, Config{URL: "http://x"})
	require.Equal(t, "http://x/chat/completions", r.endpoint)
	prompt, err := r.Prompt(&q)
	require.NoError(t, err)
	require.Contains(t, prompt, "### Task\n\nAdd <a>.\n\n### Answer\n\na+b {{.}}\n\n### Your verdict")
	q.Kind, q.Truth = "answer", func() (string, error) { return "72", nil }
	prompt, err = r.Prompt(&q)
	require.NoError(t, err)
	require.Contains(t, prompt, "### What is wanted\n\n72\n\n### Answer")
}

func TestMistakes(t *testing.T) {
	for says, cfg := range map[string]Config{
		`judge_url: found "host:80", expected the address`: {URL: "host:80"},
		"judge_prompt: template: judge_prompt:1":           {URL: "http://x", Prompt: "{{.Completion"},
		"can't evaluate field Score":                       {URL: "http://x", Prompt: "{{.Completion}}{{.Score}}"},
		"leaves out the completion":                        {URL: "http://x", Prompt: "{{.Statement}}"},
		"judge_score: error parsing regexp":                {URL: "http://x", Score: "("},
		`judge_score: found 0 groups in "[0-9]"`:           {URL: "http://x", Score: "[0-9]"},
	} {
		_, err := New(cfg)
		require.True(t, badinput.Is(err), says)
		require.ErrorContains(t, err, says)
		require.Equal(t, 0, strings.Count(err.Error(), "\n"))
	}
}
