package siege

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/cmd/grpo/serve"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// asServer makes the test binary run the server, in a process that can be measured.
const asServer = "GRPO_SIEGE_AS_SERVER"

// TestMain runs the server or the tests.
func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		os.Exit(m.Run())
	}
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	verb := serve.Command(func(*configs.Config) (kernels.Backend, model.Options, error) {
		b, err := cpu.New(cpu.Options{Threads: 1})
		return b, model.Options{}, err
	})
	verb.SetArgs(os.Args[1:])
	verb.SilenceUsage, verb.SilenceErrors = true, true
	if err := verb.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// target is a server under attack: ada is an ordinary client, mallory the attacker, who has a key, too.
type target struct {
	t            *testing.T
	cmd          *exec.Cmd
	address, url string
	ada, mallory string // keys
	store        string
	log          string // file
	http         *http.Client
}

var listeningLine = regexp.MustCompile(`serving .* on (https?://(\S+))/v1`)

// start starts a server with additional flags.
func start(t *testing.T, flags ...string) *target {
	t.Helper()
	dir := t.TempDir()
	c := &target{t: t, store: filepath.Join(dir, "store"), log: filepath.Join(dir, "log")}
	var lines string
	for name, to := range map[string]*string{"ada": &c.ada, "mallory": &c.mallory} {
		key, line, err := gate.NewKey(name)
		require.NoError(t, err)
		*to, lines = key, lines+line+"\n"
	}
	keys := filepath.Join(dir, "keys")
	require.NoError(t, os.WriteFile(keys, []byte(lines), 0o600))
	exe, err := os.Executable()
	require.NoError(t, err)
	args := append([]string{"--listen", "127.0.0.1:0", "--keys", keys, "--store", c.store, "--max-sequences", "8"}, flags...)
	c.cmd = exec.Command(exe, args...)
	c.cmd.Env = append(os.Environ(), asServer+"=1")
	if other := os.Getenv("GRPO_SIEGE_BINARY"); other != "" { // another version, for comparison
		c.cmd = exec.Command(other, append([]string{"serve"}, args...)...)
	}
	log, err := os.Create(c.log)
	require.NoError(t, err)
	defer log.Close()
	c.cmd.Stderr = log
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	require.Eventually(t, func() bool { return listeningLine.MatchString(c.said()) }, 30*time.Second, 5*time.Millisecond, "%s", c)
	at := listeningLine.FindStringSubmatch(c.said())
	c.url, c.address = at[1], at[2]
	c.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 2 * time.Minute}
	return c
}

func (c *target) said() string {
	text, _ := os.ReadFile(c.log)
	return string(text)
}

// ping is the request that ada repeats during an attack.
func (c *target) ping(to *http.Client) (time.Duration, error) {
	began := time.Now()
	r, err := http.NewRequest("GET", c.url+"/v1/models", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+c.ada)
	res, err := to.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		return 0, fmt.Errorf("%s: %.200s %v", res.Status, text, err)
	}
	return time.Since(began), nil
}

// cost is what an attack costs the server.
type cost struct {
	cpu, wall, wait time.Duration
	memory          int64 // peak, in bytes beyond the usage before
}

// measure has ada send requests during an attack. She must always be answered.
func (c *target) measure(do func()) (k cost) {
	c.t.Helper()
	ada := &http.Client{Transport: c.http.Transport.(*http.Transport).Clone(), Timeout: time.Minute}
	_, err := c.ping(ada)
	require.NoError(c.t, err)
	require.NoError(c.t, os.WriteFile(c.proc("clear_refs"), []byte("5"), 0)) // resets the peak
	before, used, began := c.memory("VmHWM"), c.processor(), time.Now()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			took, err := c.ping(ada)
			k.wait = max(k.wait, took)
			if err != nil {
				ended <- err
				return
			}
			select {
			case <-stop:
				ended <- nil
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	do()
	close(stop)
	require.NoError(c.t, <-ended, "ada was not answered")
	k.wall, k.cpu, k.memory = time.Since(began), c.processor()-used, c.memory("VmHWM")-before
	return k
}

func (c *target) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", c.cmd.Process.Pid, name) }

// memory reads a line of the process's status, in bytes.
func (c *target) memory(line string) int64 {
	text, err := os.ReadFile(c.proc("status"))
	require.NoError(c.t, err)
	_, after, _ := strings.Cut(string(text), line+":")
	kb, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	require.NoError(c.t, err)
	return kb << 10
}

// processor is the processor time of the process.
func (c *target) processor() time.Duration {
	text, err := os.ReadFile(c.proc("stat"))
	require.NoError(c.t, err)
	_, after, _ := strings.Cut(string(text), ") ")
	parts, ticks := strings.Fields(after), 0
	for _, p := range parts[11:13] { // user and kernel time
		n, err := strconv.Atoi(p)
		require.NoError(c.t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// ask sends a request to a path without cleaning it; headers are names, each followed by its value.
func (c *target) ask(method, path, key string, body io.Reader, headers ...string) (status int, text string) {
	r, err := http.NewRequest(method, c.url+"/", body)
	require.NoError(c.t, err)
	r.URL.Opaque = path // not cleaned
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.http.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	all, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(all)
}

// honest sends n of the cheapest valid requests, one after the other.
func (c *target) honest(n int) {
	for range n {
		status, _ := c.ask("GET", models, c.mallory, nil)
		require.Equal(c.t, 200, status)
	}
}

// post sends JSON with mallory's key.
func (c *target) post(path, body string) (int, string) {
	return c.ask("POST", path, c.mallory, strings.NewReader(body))
}

func (c *target) dial() net.Conn {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.address)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

// answers reads the statuses that arrive on a connection until it ends, or nothing arrives for `patience`.
func (c *target) answers(conn net.Conn, patience time.Duration) (list []int) {
	in := bufio.NewReader(conn)
	for {
		conn.SetReadDeadline(time.Now().Add(patience))
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return list
		}
		io.Copy(io.Discard, res.Body)
		list = append(list, res.StatusCode)
	}
}

// tinker is a training client with the given key.
func (c *target) tinker(key string) *client.Client {
	return &client.Client{URL: c.url, Key: key, Patience: 20 * time.Second}
}

// tally counts answers by status.
type tally struct {
	mu    sync.Mutex
	count map[string]int
	order []string
}

func (t *tally) add(what any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	word := fmt.Sprint(what)
	if t.count == nil {
		t.count = map[string]int{}
	}
	if t.count[word] == 0 {
		t.order = append(t.order, word)
	}
	t.count[word]++
}

func (t *tally) String() string {
	var parts []string
	for _, word := range t.order {
		if n := t.count[word]; n > 1 {
			word = fmt.Sprintf("%s (%d times)", word, n)
		}
		parts = append(parts, word)
	}
	return strings.Join(parts, ", ")
}
