package gate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// open serves on an address of its own; stop stops the server, wait checks its error.
func open(t testing.TB, g *Gate, door ListenOptions) (address string, stop, wait func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l, door, refusal.Errorf(http.StatusServiceUnavailable, "stopping")) }()
	var once sync.Once
	wait = func() { once.Do(func() { require.NoError(t, <-ended) }) }
	t.Cleanup(func() { cancel(); wait() })
	return l.Addr().String(), cancel, wait
}

// When the server stops, running requests may finish; new ones are refused with 503.
func TestDrain(t *testing.T) {
	began, goOn := make(chan bool), make(chan bool)
	g := gateOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- true
		<-goOn
		io.WriteString(w, "whole")
	}), Options{})
	address, stop, wait := open(t, g, ListenOptions{})
	answer := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + address + "/v1/x")
		if err != nil {
			answer <- err.Error()
			return
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		answer <- string(text)
	}()
	<-began
	require.Equal(t, 200, send(g, "GET", "/readyz", "").Code)
	stop()
	code := func(path string) int { // over the wire: new connections are still accepted
		res, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		res.Body.Close()
		return res.StatusCode
	}
	require.Eventually(t, func() bool { return code("/readyz") == 503 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 200, code("/healthz"))
	require.Equal(t, 503, code("/v1/x"))
	close(goOn)
	require.Equal(t, "whole", <-answer)
	wait()
}

// A refusal is sent before the body has arrived, which may take a minute; the connection is reused once the body has been read.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	k, _ := keysOf(t, "ada")
	g := gateOf(t, echoBody, Options{Keys: k})
	g.linger = 10 * time.Millisecond
	address, _, _ := open(t, g, ListenOptions{ReadTimeout: time.Hour})
	const head = "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, body := range []string{"123456789", "123456789", "1"} {
		_, err = io.WriteString(conn, head+body)
		require.NoError(t, err)
		res, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, 401, res.StatusCode)
		require.Contains(t, string(text), "no key")
	}
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the rest of a body is not parsed as a request")
}

// Requests that do not finish in time are cancelled with a reason.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	began, why := make(chan bool), make(chan error, 1)
	g := gateOf(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- true
		<-r.Context().Done()
		why <- context.Cause(r.Context())
	}), Options{})
	address, stop, wait := open(t, g, ListenOptions{DrainTimeout: 10 * time.Millisecond})
	go func() {
		if res, err := http.Get("http://" + address + "/v1/x"); err == nil {
			res.Body.Close()
		}
	}()
	<-began
	stop()
	require.ErrorContains(t, <-why, "stopping")
	wait()
}

// timed records the write deadline.
type timed struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (w *timed) SetWriteDeadline(t time.Time) error {
	w.until = t
	return nil
}

// The pause between two writes may be longer than a client may take to read: over HTTP/2 a deadline would break the stream. Only a client
// that does not read is cut off, also during the last write.
func TestAnswersMayPause(t *testing.T) {
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	g := gateOf(t, http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
		io.WriteString(to, "first")
		require.NoError(t, http.NewResponseController(to).Flush())
		require.Zero(t, w.until)
	}), Options{WriteTimeout: time.Hour})
	g.ServeHTTP(w, httptest.NewRequest("GET", "/v1/x", nil))
	require.Equal(t, "first", w.Body.String())
	require.Less(t, time.Until(w.until), time.Hour)
	require.Greater(t, time.Until(w.until), time.Hour-time.Minute)
}

// Slow clients, floods of headers and too many connections are turned away.
func TestHostileConnections(t *testing.T) {
	t.Parallel()
	g := gateOf(t, echoBody, Options{WriteTimeout: 100 * time.Millisecond})
	address, _, _ := open(t, g, ListenOptions{ReadHeaderTimeout: 100 * time.Millisecond, ReadTimeout: 200 * time.Millisecond,
		MaxHeaderBytes: 4096})
	dial := func(text string) net.Conn {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, text)
		return c
	}
	ends := func(c net.Conn) string {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
		text, err := io.ReadAll(c)
		if err != nil {
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server did not close the connection")
		}
		c.Close()
		return string(text)
	}
	require.NotContains(t, ends(dial("GET / HTTP/1.1\r\nHost: a\r\nX")), "200 OK", "a request without its headers is not answered")
	require.NotContains(t, ends(dial("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab")), "200 OK", "a body that does not come")

	address, _, _ = open(t, g, ListenOptions{MaxHeaderBytes: 4096}) // long limits, since a busy machine may be as slow as a slow client
	require.Contains(t, ends(dial("GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("a", 20000)+"\r\n\r\n")), "431")
}

// At the limit of connections, the oldest idle one is closed; if there is none, new ones are closed until another one ends.
func TestCrowds(t *testing.T) {
	t.Parallel()
	k, shown := keysOf(t, "ada")
	address, _, _ := open(t, gateOf(t, echoBody, Options{Keys: k}), ListenOptions{MaxConnections: 3})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	answered := func(c net.Conn) bool {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer "+shown[0]+"\r\n\r\n")
		text, _ := io.ReadAll(c)
		return strings.Contains(string(text), "200 OK")
	}
	closed := func(c net.Conn) bool {
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err := c.Read(make([]byte, 1))
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	}
	stranger := dial()
	for range 3 {
		dial()
	}
	require.True(t, closed(stranger))
	require.True(t, answered(dial()))
	known := func(key string) net.Conn {
		c := dial()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "+key+"\r\n\r\n")
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		return c
	}
	first := known(shown[0])
	known(shown[0])
	known("wrong")
	known(shown[0]) // in place of the one with a wrong key
	require.False(t, answered(dial()))
	first.Close()
	require.Eventually(t, func() bool { return answered(dial()) }, 20*time.Second, time.Millisecond)
}

// A client that does not read is cut off, and does not block others.
func TestAClientThatDoesNotRead(t *testing.T) {
	wrote := make(chan error, 1)
	g := gateOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 1<<20)
		for {
			if _, err := w.Write(block); err != nil {
				wrote <- err
				return
			}
		}
	}), Options{WriteTimeout: 50 * time.Millisecond})
	address, _, _ := open(t, g, ListenOptions{})
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.Error(t, <-wrote)
}

// A client that sends too large a body gets the reason, and is cut off if it does not stop sending.
func TestLargeBodiesOverTheWire(t *testing.T) {
	address, _, _ := open(t, gateOf(t, echoBody, Options{MaxBody: 1000}), ListenOptions{})
	res, err := http.Post("http://"+address+"/v1/x", "application/json", bytes.NewReader(make([]byte, 8<<20)))
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "larger than the 1000 bytes")

	sent := &counter{left: 1 << 30}
	r, err := http.NewRequest("POST", "http://"+address+"/v1/x", io.NopCloser(sent))
	require.NoError(t, err)
	r.ContentLength = sent.left
	if res, err := http.DefaultClient.Do(r); err == nil {
		res.Body.Close()
	}
	require.Less(t, sent.sent.Load(), int64(64<<20))
}

// A client that sends everything before it reads gets the reason of a refusal: a body that is too large, with a length or chunked, one
// that is too large for a single call, and a missing key.
func TestWhoSendsFirstAndReadsThenHearsWhy(t *testing.T) {
	t.Parallel()
	k, shown := keysOf(t, "ada")
	less := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/small" {
			r.Body = http.MaxBytesReader(nil, r.Body, 9)
		}
		echoBody(w, r)
	})
	for _, c := range []struct {
		path, key, want string
		limit, size     int64
	}{
		{"/v1/x", shown[0], "413 larger than the 1000 bytes", 1000, leastHeard - 1<<20},
		{"/v1/x", shown[0], "413 larger than the 9437184 bytes", 9 << 20, 4*9<<20 - 1<<20},
		{"/v1/small", shown[0], "413 larger than the 9 bytes", 32 << 20, 12 << 20},
		{"/v1/x", "wrong", "401 the key is unknown", 32 << 20, leastHeard - 1<<20},
	} {
		address, _, _ := open(t, gateOf(t, less, Options{Keys: k, MaxBody: c.limit}), ListenOptions{})
		for _, chunks := range []bool{false, true} {
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer conn.Close()
			r, err := http.NewRequest("POST", "http://localhost"+c.path, io.LimitReader(endless{}, c.size))
			require.NoError(t, err)
			r.Header.Set("X-Api-Key", c.key)
			if !chunks {
				r.ContentLength = c.size
			}
			require.NoError(t, r.Write(conn), c.want)
			res, err := http.ReadResponse(bufio.NewReader(conn), r)
			require.NoError(t, err, c.want)
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			status, words, _ := strings.Cut(c.want, " ")
			require.Equal(t, status, fmt.Sprint(res.StatusCode))
			require.Contains(t, string(text), words)
			require.Positive(t, res.ContentLength)
			require.True(t, res.Close)
		}
	}
}

// counter is a body of the given size that counts what is read.
type counter struct {
	left int64
	sent atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	c.sent.Add(int64(len(p)))
	return len(p), nil
}

// A body that arrived in time can be read even if its request waited longer than a body may take.
func TestABodyThatWaitedForItsTurn(t *testing.T) {
	t.Parallel()
	at, leave := make(chan struct{}, 2), make(chan struct{})
	g := gateOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		at <- struct{}{}
		<-leave
		fmt.Fprint(w, len(body), err)
	}), Options{MaxConcurrent: 1})
	address, _, _ := open(t, g, ListenOptions{ReadTimeout: 300 * time.Millisecond})
	answers := make(chan string, 2)
	for range 2 {
		go func() {
			answer, err := http.Post("http://"+address, "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
			if err != nil {
				answers <- err.Error()
				return
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			answers <- fmt.Sprint(answer.StatusCode, " ", string(text))
		}()
	}
	<-at
	time.Sleep(time.Second)
	close(leave)
	for range 2 {
		require.Equal(t, "200 1048576 <nil>", <-answers)
	}
}
