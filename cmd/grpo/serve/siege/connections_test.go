package siege

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// connectionAttacks are attacks by the way in which a request is sent.
var connectionAttacks = []attack{
	{name: "shapes that two readers may read in two ways (smuggling)", quick: true, do: smuggled},
	{name: "floods of headers: 10,000, 1 MB, 500 alike", quick: true, do: headers},
	{name: "2,000 requests at once over one connection (pipelining)", do: pipelined},
	{name: "900 clients that send their headers byte by byte", do: slowHeaders},
	{name: "900 clients that send their bodies byte by byte", do: slowBodies},
	{name: "4 clients that do not read their streams", do: slowReaders, cpu: 120 * time.Second},
	{name: "200,000 requests of HTTP/2 that are taken back at once (rapid reset)", tls: true, do: rapidReset, cpu: 20 * time.Second},
	{name: "headers of HTTP/2 that do not end (continuation flood)", tls: true, do: continuations},
	{name: "500 clients that close their half", do: halfClosed},
	{name: "10,000 connections", do: crowd, memory: 128},
}

// raw sends bytes over a connection of its own.
func (c *target) raw(text string, got *tally) []int {
	return c.rawPatiently(text, got, 300*time.Millisecond)
}

func (c *target) rawPatiently(text string, got *tally, patience time.Duration) []int {
	conn := c.dial()
	io.WriteString(conn, text)
	list := c.answers(conn, patience)
	conn.Close()
	if len(list) == 0 {
		got.add("closed")
	}
	for _, status := range list {
		got.add(status)
	}
	return list
}

func smuggled(c *target) string {
	var got tally
	inner := "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	head := "POST " + texts + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + c.mallory + "\r\n"
	for name, text := range map[string]string{
		"two lengths":             head + "Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}" + inner,
		"length and chunks":       head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"chunked twice":           head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"identity":                head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + inner,
		"chunked with a tab":      head + "Transfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n" + inner,
		"xchunked":                head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
		"a blank before a colon":  head + "Content-Length : 46\r\n\r\n" + inner,
		"a folded line":           head + "X: a\r\n Content-Length: 46\r\nContent-Length: 0\r\nY: \x00\r\n\r\n" + inner,
		"a length below zero":     head + "Content-Length: -1\r\n\r\n" + inner,
		"a length with a plus":    head + "Content-Length: +46\r\n\r\n" + inner,
		"a length too large":      head + "Content-Length: 99999999999999999999\r\n\r\n" + inner,
		"a size of a chunk":       head + "Transfer-Encoding: chunked\r\n\r\n-1\r\n" + inner,
		"a large size of a chunk": head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + inner,
		"two hosts":               "GET " + models + " HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
		"no host":                 "GET " + models + " HTTP/1.1\r\n\r\n",
		"a host of lines":         "GET " + models + " HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
		"another protocol":        "GET " + models + " HTTP/9.9\r\nHost: localhost\r\n\r\n",
		"no protocol":             "GET " + models + "\r\n\r\n",
		"a proxy's":               "CONNECT evil:80 HTTP/1.1\r\nHost: evil:80\r\n\r\n",
		"an address in full":      "GET http://evil/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"HTTP/2 in the clear":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"TLS":                     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("a", 200),
		"noise":                   strings.Repeat("\x00\xff\r\n", 5000),
	} {
		if name == "length and chunks" { // chunked encoding wins, by the standard: the rest is another request
			last := strings.TrimSuffix(text, "\r\n") + "Connection: close\r\n\r\n"
			require.Equal(c.t, []int{400, 200}, c.rawPatiently(last, &got, time.Minute))
			continue
		}
		list := c.raw(text, &got)
		require.LessOrEqual(c.t, len(list), 1, "%s: %v: what stood in a body was answered", name, list)
		for _, status := range list {
			require.GreaterOrEqual(c.t, status, 400, name)
		}
	}
	return got.String()
}

func headers(c *target) string {
	var got tally
	head := "GET " + models + " HTTP/1.1\r\nHost: localhost\r\n"
	c.raw(head+strings.Repeat("X-A: b\r\n", 10000)+"\r\n", &got)
	c.raw(head+"X: "+strings.Repeat("a", 1<<20)+"\r\n\r\n", &got)
	c.raw("GET /"+strings.Repeat("a", 1<<20)+" HTTP/1.1\r\n\r\n", &got)
	c.raw(head+strings.Repeat("Authorization: Bearer x\r\n", 500)+"\r\n", &got)
	return got.String()
}

func pipelined(c *target) string {
	conn := c.dial()
	go conn.Write(bytes.Repeat([]byte("GET "+models+" HTTP/1.1\r\nHost: localhost\r\n\r\n"), 2000))
	list := c.answers(conn, 2*time.Second)
	require.Len(c.t, list, 2000)
	return fmt.Sprintf("%d, one after the other", list[0])
}

// trickle has clients send the beginning of a request, and then a byte now and then until they are cut off.
func trickle(c *target, n int, text string) (first, last time.Duration, got *tally) {
	got = &tally{}
	var all sync.WaitGroup
	var mu sync.Mutex
	for range n {
		conn := c.dial()
		io.WriteString(conn, text)
		all.Go(func() {
			began, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				for _, status := range c.answers(conn, 90*time.Second) {
					got.add(status)
				}
			}()
			for open := true; open; {
				select {
				case <-done:
					open = false
				case <-time.After(time.Second):
					io.WriteString(conn, "a")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took := time.Since(began)
			if last = max(last, took); first == 0 || took < first {
				first = took
			}
		})
	}
	all.Wait()
	return first, last, got
}

func slowHeaders(c *target) string {
	first, last, _ := trickle(c, 900, "GET / HTTP/1.1\r\nHost: localhost\r\nX")
	require.Less(c.t, last, 15*time.Second)
	return fmt.Sprintf("closed after %s to %s", rounded(first), rounded(last))
}

func slowBodies(c *target) string {
	head := "POST " + texts + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\nAuthorization: Bearer " + c.mallory + "\r\n\r\n{"
	first, last, got := trickle(c, 900, head)
	require.Less(c.t, last, 70*time.Second)
	return fmt.Sprintf("%s, after %s to %s", got, rounded(first), rounded(last))
}

// slowReaders request long streams and read none of them.
func slowReaders(c *target) string {
	body := `{"model":"tiny","prompt":"a","max_tokens":1900,"ignore_eos":true,"stream":true,"n":8,"logprobs":20}`
	for range 4 {
		conn := c.dial()
		conn.(*net.TCPConn).SetReadBuffer(2048)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nAuthorization: Bearer %s\r\n\r\n%s", texts,
			len(body), c.mallory, body)
	}
	began := time.Now()
	active := regexp.MustCompile(`(?m)^grpo_http_active_requests (\d+)$`)
	for found := "4"; found != "1" && found != "2"; time.Sleep(time.Second) { // this one, and one of ada's
		_, text := c.ask("GET", "/metrics", c.mallory, nil)
		found = active.FindStringSubmatch(text)[1]
		require.Less(c.t, time.Since(began), 6*time.Minute)
	}
	return fmt.Sprintf("cut off; the last %s after it had asked", rounded(time.Since(began)))
}

func halfClosed(c *target) string {
	var got tally
	for range 500 {
		conn := c.dial()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\nAuthorization: Bearer %s\r\n\r\n{", texts, c.mallory)
		conn.(*net.TCPConn).CloseWrite()
		for _, status := range c.answers(conn, 5*time.Second) {
			got.add(status)
		}
		conn.Close()
	}
	return got.String()
}

// crowd opens more connections than the server accepts. A new client must still be served.
func crowd(c *target) string {
	var limit syscall.Rlimit
	require.NoError(c.t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur = limit.Max
	require.NoError(c.t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	before, n := c.memory("VmRSS"), 0
	for range 10000 {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			break
		}
		defer conn.Close()
		io.WriteString(conn, "GET / HTTP/1.1\r\nX")
		n++
	}
	perEach := (c.memory("VmRSS") - before) / 1024
	in := 0
	for range 20 { // each over a connection of its own
		if status, _ := c.ask("GET", models, c.ada, nil, "Connection", "close"); status == 200 {
			in++
		}
	}
	return fmt.Sprintf("of %d, 1,024 are open, each %.1f KB; of 20 that came later with a key, %d were answered", n,
		float64(perEach)/1024, in)
}
