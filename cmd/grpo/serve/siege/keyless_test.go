package siege

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	models = "/v1/models"
	chats  = "/v1/chat/completions"
	texts  = "/v1/completions"
)

// keylessAttacks are attacks without a key, or by names of things that belong to others or do not exist.
var keylessAttacks = []attack{
	{name: "no key, and a key where none is read", quick: true, do: oddKeys},
	{name: "20,000 wrong keys", asks: 20000, do: wrongKeys},
	{name: "names that lead out of their folder", quick: true, do: paths},
	{name: "lines in names, for the log", quick: true, do: logged},
	{name: "10,000 paths, for the metrics", asks: 15000, do: labels},
}

func oddKeys(c *target) string {
	var got tally
	for _, headers := range [][]string{
		nil, {"Authorization", ""}, {"Authorization", c.ada}, {"Authorization", "Basic " + c.ada}, {"Authorization", "Bearer  " + c.ada},
		{"Authorization", "Bearer " + c.ada + "x"}, {"Authorization", "Bearer " + strings.ToLower(c.ada)}, {"Authorization",
			"Bearer tml-tml-" + c.ada},
		{"Cookie", "key=" + c.ada}, {"X-Api-Key", ""}, {"X-Api-Key", "Bearer " + c.ada}, {"Proxy-Authorization", "Bearer " + c.ada},
		{"X-Original-Url", "/healthz"}, {"X-Http-Method-Override", "OPTIONS"}, {"X-Forwarded-For", "127.0.0.1"},
	} {
		status, text := c.ask("GET", models, "", nil, headers...)
		got.add(status)
		require.NotContains(c.t, text, c.ada)
	}
	for _, path := range []string{models + "?api_key=" + c.ada, models + "?key=" + c.ada, "/healthz/../v1/models",
		"/healthz%2f..%2fv1/models",
		"//v1/models", "/api/v1/archives/../../../v1/models", "/api/v1/healthz/../training_runs", "/metrics", "/metrics/", "/V1/models"} {
		status, _ := c.ask("GET", path, "", nil)
		require.NotEqual(c.t, 200, status, path)
		got.add(status)
	}
	return got.String()
}

// wrongKeys checks that a nearly correct key is not answered at another speed than an entirely wrong one.
func wrongKeys(c *target) string {
	var took [2][]time.Duration
	for i := range 20000 {
		key := c.ada[:len(c.ada)-1] + "!"
		if i%2 == 0 {
			key = strings.Repeat("x", len(c.ada))
		}
		began := time.Now()
		status, _ := c.ask("GET", models, key, nil)
		took[i%2] = append(took[i%2], time.Since(began))
		require.Equal(c.t, 401, status)
	}
	var median [2]time.Duration
	for i := range took {
		slices.Sort(took[i])
		median[i] = took[i][len(took[i])/2]
	}
	require.Less(c.t, (median[0] - median[1]).Abs(), median[0]/5+20*time.Microsecond)
	return fmt.Sprintf("401; %d µs where all of it is wrong, %d where the last letter is (medians)", median[0].Microseconds(),
		median[1].Microseconds())
}

// hostileNames are names of nothing that exists, in spellings that might escape from their folder.
var hostileNames = []string{"..", "../../etc/passwd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%2f..%2fsecret", "..%5c..%5csecret",
	"%00", "tiny%00", "tiny/",
	"/etc/passwd", "%2fetc%2fpasswd", ".", "%2e", "tiny%2f..%2ftiny2", "ｔiny", "%ef%bd%94iny", "tiny%0a", "tiny%20", "TINY", "%ff%fe",
	"~root", "$HOME",
	"tiny;id", "con", strings.Repeat("a", 4000), strings.Repeat("../", 900), strings.Repeat("%2e", 900)}

func paths(c *target) string {
	var got tally
	for _, name := range hostileNames {
		for _, path := range []string{models + "/" + name, "/api/v1/sessions/" + name, "/api/v1/samplers/" + name,
			"/api/v1/training_runs/" + name,
			"/api/v1/training_runs/" + name + "/checkpoints", "/api/v1/training_runs/" + name + "/checkpoints/weights/a/archive",
			"/api/v1/training_runs/a/checkpoints/" + name + "/a/archive", "/api/v1/training_runs/a/checkpoints/weights/" + name + "/archive",
			"/api/v1/archives/" + name, "/api/v1/archives/" + name + ".x"} {
			status, text := c.ask("GET", path, c.mallory, nil)
			if status == 200 { // a cleaned path may be that of a list
				require.NotContains(c.t, text, "root:", path)
				require.NotContains(c.t, text, "secret", path)
				continue
			}
			require.Less(c.t, len(text), 2000, path)
			got.add(status)
		}
		plain, err := url.PathUnescape(name)
		if err != nil {
			plain = name
		}
		for path, body := range map[string]string{texts: `{"prompt":"a","model":%q}`, "/api/v1/create_model": `{"session_id":%q}`,
			"/api/v1/create_sampling_session": `{"session_id":%q}`, "/api/v1/optim_step": `{"model_id":%q,"seq_id":1}`,
			"/api/v1/weights_info": `{"tinker_path":"tinker://%[1]s/weights/%[1]s"}`, "/api/v1/retrieve_future": `{"request_id":%q}`,
			"/api/v1/asample": `{"sampling_session_id":%q}`, "/api/v1/session_heartbeat": `{"session_id":%q}`} {
			status, text := c.post(path, fmt.Sprintf(body, plain))
			require.GreaterOrEqual(c.t, status, 400, "%s %s", path, text)
			require.Less(c.t, status, 500, "%s %s", path, text)
			require.Less(c.t, len(text), 2000, path)
			got.add(status)
		}
	}
	return got.String()
}

// logged tries to forge lines of the log.
func logged(c *target) string {
	var got tally
	for _, path := range []string{"/a%0a%7b%22level%22:%22ERROR%22%7d", "/%1b%5b2J", "/\u2028", "/%e2%80%a8x", "/" +
		strings.Repeat("%0d%0a", 200)} {
		status, _ := c.ask("GET", path, c.mallory, nil, "X-Request-Id", "a b\"}", "User-Agent", "x")
		got.add(status)
	}
	c.raw("GET / HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\r\nX-Request-Id: b\nc\r\n\r\n", &got)
	time.Sleep(50 * time.Millisecond)
	for line := range strings.SplitSeq(strings.TrimSpace(c.said()), "\n") {
		require.Regexp(c.t, `^(grpo: |\{"time":.*\}$)`, line)
		require.NotContains(c.t, line, "\x1b")
		require.NotContains(c.t, line, `"level":"ERROR"`)
	}
	return got.String()
}

func labels(c *target) string {
	for i := range 10000 {
		c.ask([]string{"GET", "BREW", fmt.Sprintf("M%d", i)}[i%3], fmt.Sprintf([]string{"/x%d", models + "/%d", "/api/v1/%d"}[i%3], i),
			c.mallory, nil)
	}
	status, text := c.ask("GET", "/metrics", c.ada, nil)
	require.Equal(c.t, 200, status)
	lines := strings.Count(text, "\ngrpo_")
	require.Less(c.t, lines, 400)
	return fmt.Sprintf("404; %d lines of metrics", lines)
}
