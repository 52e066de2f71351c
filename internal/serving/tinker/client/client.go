// Package client speaks Tinker's protocol like its Python SDK: the same messages in the same order, with the same retries. It
// was written from the protocol alone and shares only the messages' encoding with the server, so that tests drive the server
// as real programs do.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// Client calls a server.
type Client struct {
	URL  string // /api/v1 is appended
	Key  string // "": a default
	HTTP *http.Client
	// Patience is how long a call is retried if the server cannot take it; 0: 5 min.
	Patience time.Duration
	Retries  int // retries so far
}

// RejectedError is the error of a call for which a retry is no use.
type RejectedError struct {
	Code int
	Text string
}

func (e *RejectedError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Code, e.Text) }

// FailedError is the error of a request that was accepted and then failed.
type FailedError struct {
	Text     string `json:"error"`
	Category string `json:"category"`
}

func (e *FailedError) Error() string { return e.Category + ": " + e.Text }

// retriable reports whether to retry after a status.
func retriable(code int) bool { return code == 408 || code == 409 || code == 429 || code >= 500 }

// Call makes a call, with retries. in is sent as JSON; if it is bytes, as protobuf.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	body, kind, err := encode(in)
	if err != nil {
		return err
	}
	patience := c.Patience
	if patience == 0 {
		patience = 5 * time.Minute
	}
	id, wait, until := store.NewID(), 5*time.Millisecond, time.Now().Add(patience)
	for {
		code, text, err := c.once(ctx, method, path, kind, id, body)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && code < 300:
			return decode(text, out)
		case err == nil && !retriable(code):
			return &RejectedError{code, string(text)}
		case time.Now().After(until):
			return errors.Join(err, &RejectedError{code, string(text)})
		}
		c.Retries++
		time.Sleep(wait)
		wait = min(2*wait, time.Second)
	}
}

func encode(in any) (body []byte, kind string, err error) {
	switch v := in.(type) {
	case nil:
		return nil, "application/json", nil
	case []byte:
		return v, "application/x-protobuf", nil
	default:
		body, err = json.Marshal(v)
		return body, "application/json", err
	}
}

func decode(text []byte, out any) error {
	switch v := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*v = text
		return nil
	default:
		return json.Unmarshal(text, out)
	}
}

func (c *Client) once(ctx context.Context, method, path, kind, id string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.URL+"/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	key := c.Key
	if key == "" {
		key = "tml-local"
	}
	r.Header.Set("X-API-Key", key)
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", "application/x-protobuf, application/json")
	if method != http.MethodGet {
		r.Header.Set("X-Idempotency-Key", id)
	}
	h := c.HTTP
	if h == nil {
		h = http.DefaultClient
	}
	answer, err := h.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// Wait polls for the result of a request.
func (c *Client) Wait(ctx context.Context, request string) ([]byte, error) {
	var text []byte
	if err := c.Call(ctx, "POST", "retrieve_future", map[string]any{"request_id": request, "allow_metadata_only": false}, &text); err != nil {
		return nil, err
	}
	var failed FailedError
	if json.Unmarshal(text, &failed) == nil && failed.Text != "" {
		return nil, &failed
	}
	return text, nil
}

// Session is a client's session.
type Session struct {
	*Client
	ID                string
	models, samplings int64
}

// Connect creates a session.
func (c *Client) Connect(ctx context.Context) (*Session, error) {
	if err := c.Call(ctx, "POST", "client/config", map[string]string{"sdk_version": "0.25.0"}, nil); err != nil {
		return nil, err
	}
	var answer struct {
		ID string `json:"session_id"`
	}
	about := map[string]any{"tags": []string{}, "user_metadata": map[string]any{}, "sdk_version": "0.25.0"}
	err := c.Call(ctx, "POST", "create_session", about, &answer)
	return &Session{Client: c, ID: answer.ID}, err
}
