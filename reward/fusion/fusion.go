// Package fusion runs programs on a Sandbox Fusion server, one request for each input. It ignores what the
// server says about success: a wrapper of our own limits the program and leaves a file with its output, the
// frame, which the caller compares.
//
// Programs are isolated only as well as the server was set up to. With its isolation switched off a program
// can read the inputs of others and kill the server. A program can also forge its frame. A forged frame is
// an answer like any other, though it may hide the use of time and memory; the program cannot find the right
// answer, because that never leaves this process.
package fusion

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Options say how to reach a server. The zero value takes all from the environment.
type Options struct {
	// URL is the address of run_code; empty is SANDBOX_URL, else http://localhost:8080/run_code.
	URL string
	// Concurrency is the number of concurrent requests; 0 is SANDBOX_MAX_CONCURRENCY, else 4.
	// The server itself sets no bound.
	Concurrency int
	// Attempts is how often a request is tried before that is a failure of the sandbox; 0 is 5.
	Attempts int
	// Backoff is the mean wait after the first failure, and doubles with each; 0 is half a second.
	Backoff time.Duration
}

// Client runs programs on a server.
type Client struct {
	url      string
	attempts int
	backoff  time.Duration
	turns    chan struct{}
	http     *http.Client
}

// New makes a client. It does not contact the server; Ping does.
func New(o Options) (*Client, error) {
	u, err := url.Parse(cmp.Or(o.URL, os.Getenv("SANDBOX_URL"), "http://localhost:8080/run_code"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, badinput.Errorf("SANDBOX_URL=%s: expected a URL such as http://localhost:8080/run_code",
			cmp.Or(o.URL, os.Getenv("SANDBOX_URL")))
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/run_code"
	}
	concurrency := o.Concurrency
	if text := os.Getenv("SANDBOX_MAX_CONCURRENCY"); concurrency == 0 && text != "" {
		if concurrency, err = strconv.Atoi(text); err != nil || concurrency < 1 {
			return nil, badinput.Errorf("SANDBOX_MAX_CONCURRENCY=%s: expected a number above 0", text)
		}
	}
	concurrency = cmp.Or(concurrency, 4)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = concurrency
	return &Client{
		url: u.String(), attempts: cmp.Or(o.Attempts, 5), backoff: cmp.Or(o.Backoff, time.Second/2),
		turns: make(chan struct{}, concurrency), http: &http.Client{Transport: transport},
	}, nil
}

// URL is the address to which programs are sent.
func (c *Client) URL() string { return c.url }

// Run runs the program on the inputs in order and calls each with every result, until each returns false. It
// waits for its turn with every input. If the server fails in every attempt, the error is a
// *sandbox.InfraError. If it refuses a request, the error is another, and there are no further attempts.
func (c *Client) Run(ctx context.Context, _ string, prog sandbox.Program, inputs []sandbox.Input, l sandbox.Limits,
	each func(i int, r sandbox.Result) (more bool)) error {
	l = withDefaults(l)
	for i, in := range inputs {
		result, err := c.one(ctx, prog, in, l)
		if err != nil {
			return err
		}
		if !each(i, result) {
			return nil
		}
	}
	return nil
}

// Ping runs a trivial program on the server and checks what it prints.
func (c *Client) Ping(ctx context.Context) error {
	var answer string
	err := c.Run(ctx, "", sandbox.Program{Code: "print(6 * 7)"}, []sandbox.Input{{}}, sandbox.Limits{}, func(_ int, r sandbox.Result) bool {
		answer = string(r.Stdout)
		return false
	})
	if err == nil && answer != "42\n" {
		return badinput.Errorf("SANDBOX_URL=%s: found the answer %.40q to print(6 * 7); is this a Sandbox Fusion server?", c.url, answer)
	}
	return err
}

// Close drops idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

func withDefaults(l sandbox.Limits) sandbox.Limits {
	l.CPU = cmp.Or(l.CPU, 6*time.Second)
	l.Wall = cmp.Or(l.Wall, 3*l.CPU+time.Second) // the server's processors may be shared
	l.Memory = cmp.Or(l.Memory, 1<<30)
	l.Output = cmp.Or(l.Output, 16<<20)
	return l
}
