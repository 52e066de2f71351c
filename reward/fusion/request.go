package fusion

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward/internal/program"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

//go:embed wrapper.py
var wrapper string

//go:embed process.py
var process string

// request is the body of a request to /run_code. encoding/json writes []byte in base64, as the server expects files.
type request struct {
	Code       string            `json:"code"`
	Language   string            `json:"language"`
	RunTimeout float64           `json:"run_timeout"`
	Files      map[string][]byte `json:"files"`
	FetchFiles []string          `json:"fetch_files"`
}

// response is the body of the server's response.
type response struct {
	Status    string            `json:"status"`
	Message   string            `json:"message"`
	RunResult *runResult        `json:"run_result"`
	Files     map[string][]byte `json:"files"`
}

type runResult struct {
	Status     string  `json:"status"`
	ReturnCode *int    `json:"return_code"`
	Stderr     *string `json:"stderr"`
}

// config is the configuration of the wrapper. Its JSON is also a valid Python literal.
type config struct {
	Nonce       string            `json:"nonce"`
	Frame       string            `json:"frame"`
	Environment map[string]string `json:"environment"`
	CPU         float64           `json:"cpu"`
	Wall        float64           `json:"wall"`
	Patience    float64           `json:"patience"`
	Memory      int64             `json:"memory"`
	Output      int64             `json:"output"`
}

// requestSlack is how much more time than the program a request may take.
const requestSlack = 10 * time.Second

// mostRunTime is how long a run may last on an overloaded server before that counts as a failure of the
// server.
func mostRunTime(l sandbox.Limits) time.Duration { return 4 * l.Wall }

// programConfig defines CONFIG for the program's process; the wrapper passes it the module path of the server's Python.
const programConfig = "import json, sys\nCONFIG = {'preload': '', 'path': json.loads(sys.argv[2])}\n"

func newRequest(prog sandbox.Program, in sandbox.Input, l sandbox.Limits) (request, string, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return request{}, "", err
	}
	nonce := hex.EncodeToString(random)
	frame := "frame-" + nonce
	environment := map[string]string{}
	for _, variable := range program.Environment {
		name, value, _ := strings.Cut(variable, "=")
		environment[name] = value
	}
	settings, err := json.Marshal(config{
		Nonce: nonce, Frame: frame, Environment: environment,
		CPU: l.CPU.Seconds(), Wall: l.Wall.Seconds(), Patience: mostRunTime(l).Seconds(), Memory: l.Memory, Output: l.Output,
	})
	if err != nil {
		return request{}, "", err
	}
	return request{
		Code: "CONFIG = " + string(settings) + "\n" + wrapper, Language: "python",
		RunTimeout: (mostRunTime(l) + requestSlack).Seconds(),
		Files: map[string][]byte{
			"program.py": []byte(programConfig + program.Source + process),
			"request":    program.Request(prog.Code, prog.Call, in.Args),
			"input":      append([]byte{}, in.Stdin...), // never nil, for which the server would make no file
		},
		FetchFiles: []string{frame},
	}, nonce, nil
}

// errTransient marks failures of the server for which a request is retried.
var errTransient = errors.New("the server failed")

// errEnded means that the wrapper was killed, by its program or by a server short of memory. If it happens
// again, the program is to blame.
var errEnded = fmt.Errorf("%w: the wrapper was killed", errTransient)

// one runs a program on one input, and retries after failures of the server.
func (c *Client) one(ctx context.Context, prog sandbox.Program, in sandbox.Input, l sandbox.Limits) (sandbox.Result, error) {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return sandbox.Result{}, context.Cause(ctx)
	}
	for attempt := 1; ; attempt++ {
		result, err := c.attempt(ctx, prog, in, l)
		switch {
		case ctx.Err() != nil:
			return sandbox.Result{}, context.Cause(ctx)
		case err == nil || !errors.Is(err, errTransient):
			return result, err
		case attempt > 1 && errors.Is(err, errEnded):
			return result, nil
		case attempt == c.attempts:
			return sandbox.Result{}, &sandbox.InfraError{Attempts: attempt, Err: err}
		}
		if err := sleep(ctx, c.wait(attempt)); err != nil {
			return sandbox.Result{}, err
		}
	}
}

// wait is the backoff after an attempt. It doubles up to sixteen times the first, with a jitter of half of it
// either way, so that requests that failed together are not retried together.
func (c *Client) wait(attempt int) time.Duration {
	d := c.backoff << min(attempt-1, 4)
	return d/2 + mathrand.N(d)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) attempt(ctx context.Context, prog sandbox.Program, in sandbox.Input, l sandbox.Limits) (r sandbox.Result, err error) {
	req, nonce, err := newRequest(prog, in, l)
	if err != nil {
		return r, err
	}
	body, err := json.Marshal(req)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, mostRunTime(l)+3*requestSlack)
	defer cancel()
	resp, err := c.post(ctx, body, l)
	if err != nil {
		return r, err
	}
	return resp.result(req.FetchFiles[0], nonce, prog, l)
}

// post makes the request. Failures of the server and of the network are transient.
func (c *Client) post(ctx context.Context, body []byte, l sandbox.Limits) (resp response, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return resp, err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(req)
	if err != nil {
		return resp, fmt.Errorf("%w: %w", errTransient, err)
	}
	defer answer.Body.Close()
	if answer.Request.Method != http.MethodPost { // the redirect has dropped the body, and the program with it
		return resp, badinput.Errorf("SANDBOX_URL=%s redirects to %s; use that address", c.url, answer.Request.URL)
	}
	// Room for output and value in base64, and for a megabyte of each stream that the server reads itself.
	text, err := io.ReadAll(io.LimitReader(answer.Body, 3*l.Output+(8<<20)))
	switch code := answer.StatusCode; {
	case err != nil:
		return resp, fmt.Errorf("%w: %w", errTransient, err)
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return resp, fmt.Errorf("%w: %s: %.200s", errTransient, answer.Status, text)
	case code != http.StatusOK:
		return resp, badinput.Errorf("SANDBOX_URL=%s: the server answered %s: %.200s", c.url, answer.Status, text)
	}
	if err := json.Unmarshal(text, &resp); err != nil {
		return resp, fmt.Errorf("%w: its answer is not the expected JSON: %w", errTransient, err)
	}
	if resp.Status != "Success" && resp.Status != "Failed" {
		return resp, fmt.Errorf("%w: %s: %.200s", errTransient, resp.Status, resp.Message)
	}
	return resp, nil
}
