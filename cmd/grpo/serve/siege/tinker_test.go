package siege

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
)

// tinkerAttacks are attacks by Tinker's protocol.
var tinkerAttacks = []attack{
	{name: "another's sessions, models, checkpoints, results", quick: true, do: others},
	{name: "addresses of archives that nobody signed", do: archives},
	{name: "names of checkpoints that lead out of the store", quick: true, do: checkpoints},
	{name: "900 polls for what does not come", do: polls},
	{name: "100 tensors that unpack to 64 MB", do: tensors, memory: 900, cpu: 120 * time.Second},
	{name: "40 models, each of the highest rank", do: manyModels, memory: 900, cpu: 120 * time.Second},
	{name: "sessions and states until the store is full", flags: []string{"--store-bytes", "4000000"}, do: fill, memory: 200,
		cpu: 60 * time.Second},
	{name: "a disk that is full", do: fullDisk, cpu: 60 * time.Second},
}

// trained is a session with a model that has a checkpoint.
func (c *target) trained(key string) (n *client.Session, m *client.Training, path string) {
	ctx := context.Background()
	n, err := c.tinker("tml-" + key).Connect(ctx)
	require.NoError(c.t, err)
	m, err = n.Train(ctx, "tiny", 4, 1)
	require.NoError(c.t, err)
	path, err = m.Save(ctx, "one")
	require.NoError(c.t, err)
	return n, m, path
}

func others(c *target) string {
	n, m, path := c.trained(c.ada)
	var got tally
	run := "/api/v1/training_runs/" + m.ID
	for _, p := range []string{run, run + "/checkpoints", run + "/checkpoints/weights/one/archive", "/api/v1/sessions/" + n.ID} {
		got.add(statusOf(c.ask("GET", p, c.mallory, nil)))
	}
	got.add(statusOf(c.ask("DELETE", run+"/checkpoints/weights/one", c.mallory, nil)))
	for p, body := range map[string]string{
		"retrieve_future": `{"request_id":"` + m.ID + `#1"}`, "optim_step": `{"model_id":"` + m.ID + `","seq_id":2}`,
		"unload_model": `{"model_id":"` + m.ID + `"}`, "weights_info": `{"tinker_path":"` + path + `"}`,
		"create_model": `{"session_id":"` + n.ID + `","base_model":"tiny","model_seq_id":0}`, "session_heartbeat": `{"session_id":"` +
			n.ID + `"}`,
	} {
		got.add(statusOf(c.post("/api/v1/"+p, body)))
	}
	for _, list := range []string{"sessions", "training_runs", "checkpoints"} {
		_, text := c.ask("GET", "/api/v1/"+list, c.mallory, nil)
		require.NotContains(c.t, text, n.ID)
	}
	require.Equal(c.t, 1, len(got.order), got.String())
	return got.String()
}

func archives(c *target) string {
	_, m, _ := c.trained(c.ada)
	to := *c.http
	to.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	old := c.http
	c.http = &to
	defer func() { c.http = old }()
	r, err := http.NewRequest("GET", c.url+"/api/v1/training_runs/"+m.ID+"/checkpoints/weights/one/archive", nil)
	require.NoError(c.t, err)
	r.Header.Set("Authorization", "Bearer "+c.ada)
	res, err := c.http.Do(r)
	require.NoError(c.t, err)
	res.Body.Close()
	address := strings.TrimPrefix(res.Header.Get("Location"), c.url)
	status, text := c.ask("GET", address, "", nil)
	require.Equal(c.t, 200, status)
	require.NotContains(c.t, text, "../")
	var got tally
	for at := strings.LastIndex(address, "/") + 1; at < len(address); at++ {
		forged := address[:at] + string(address[at]^1) + address[at+1:]
		if at == len(address)-1 { // the last bits of the last letter have no meaning
			forged = address[:at]
		}
		got.add(statusOf(c.ask("GET", forged, "", nil)))
	}
	for _, ticket := range []string{`{"Run":"../..","Kind":"weights","Name":"one","Until":99999999999}`, `{}`, `null`, "\x00"} {
		payload := base64.RawURLEncoding.EncodeToString([]byte(ticket))
		got.add(statusOf(c.ask("GET", "/api/v1/archives/"+payload+".", "", nil)))
		got.add(statusOf(c.ask("GET", "/api/v1/archives/"+payload+"."+strings.Repeat("A", 43), "", nil)))
	}
	require.NotContains(c.t, got.order, "200")
	return got.String()
}

func checkpoints(c *target) string {
	_, m, path := c.trained(c.mallory)
	ctx, failed := context.Background(), 0
	for _, name := range []string{"../x", "..", "", "a/b", ".hidden", "x\x00", "/etc/passwd", strings.Repeat("a", 129), "ä", "a\nb",
		"a%2fb", `a\b`} {
		_, err := m.Save(ctx, name)
		require.ErrorContains(c.t, err, "path: found", name)
		err = m.Load(ctx, strings.TrimSuffix(path, "one")+name, false)
		require.Error(c.t, err, name)
		failed += 2
	}
	for _, path := range []string{"tinker://" + m.ID + "/state/0", "tinker://../weights/one", "file:///etc", "tinker://" + m.ID +
		"/../" + m.ID} {
		require.Error(c.t, m.Load(ctx, path, false), path)
		failed++
	}
	found, err := filepath.Glob(filepath.Join(c.store, "..", "*"))
	require.NoError(c.t, err)
	require.Len(c.t, found, 3, "keys, the log, the store")
	return fmt.Sprintf("%d failed by their futures", failed)
}

func polls(c *target) string {
	_, m, _ := c.trained(c.mallory)
	ctx := context.Background()
	m.Seq++ // a sequence number that is never sent
	_, err := m.OptimStep(ctx, 1)
	require.NoError(c.t, err)
	var got tally
	var all sync.WaitGroup
	began := time.Now()
	for range 900 {
		all.Go(func() {
			got.add(statusOf(c.post("/api/v1/retrieve_future", fmt.Sprintf(`{"request_id":"%s#%d"}`, m.ID, m.Seq))))
		})
	}
	all.Wait()
	return fmt.Sprintf("%s, within %s", &got, rounded(time.Since(began)))
}

// sparse is a request of a few bytes whose tensor has 2^23 numbers, nearly all of them zero.
func sparse(model string, seq int64) []byte {
	field := func(b []byte, num protowire.Number, text []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), text)
	}
	number := func(b []byte, num protowire.Number, n uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), n)
	}
	shape := protowire.AppendVarint(protowire.AppendVarint(nil, 1), 1<<23-16)
	tensor := field(nil, 2, field(nil, 2, make([]byte, 16)))
	tensor = field(number(tensor, 3, 2), 4, shape)
	input := field(field(nil, 1, []byte("weights")), 2, tensor)
	datum := field(nil, 2, input)
	return field(number(field(nil, 1, []byte(model)), 2, uint64(seq)), 3, datum)
}

func tensors(c *target) string {
	_, m, _ := c.trained(c.mallory)
	var got tally
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			status, text := c.ask("POST", "/api/v1/forward_backward", c.mallory, strings.NewReader(string(sparse(m.ID, m.Seq+1+int64(i)))))
			require.NotZero(c.t, status, text)
			if status == 429 {
				require.Contains(c.t, text, "send the next")
			}
			got.add(status)
		})
	}
	all.Wait()
	return got.String()
}

func manyModels(c *target) string {
	ctx := context.Background()
	n, err := c.tinker("tml-" + c.mallory).Connect(ctx)
	require.NoError(c.t, err)
	var got tally
	for range 40 {
		m, err := n.Train(ctx, "tiny", 128, 1)
		if err == nil {
			var f *client.Future[map[string]any]
			if f, err = m.OptimStep(ctx, 1e-3); err == nil {
				_, err = f.Wait(ctx)
			}
		}
		if err != nil {
			got.add(err)
			continue
		}
		got.add("trained")
	}
	return got.String()
}

func fill(c *target) string {
	_, m, _ := c.trained(c.mallory)
	began := time.Now()
	for i := range 100000 {
		status, text := c.post("/api/v1/create_session", fmt.Sprintf(`{"user_metadata":{"a":"%s%d"}}`, strings.Repeat("a", 60000), i))
		if status != 200 {
			require.Equal(c.t, 429, status, text)
			require.Contains(c.t, text, "--store-bytes")
			status, _ = c.ask("DELETE", "/api/v1/training_runs/"+m.ID+"/checkpoints/weights/one", c.mallory, nil)
			return fmt.Sprintf("429 after %d sessions of 60 KB and %s; what is there can be deleted (%d)", i, rounded(time.Since(began)), status)
		}
	}
	return "no end"
}

// fullDisk puts the store on a small disk, which another file fills.
func fullDisk(c *target) string {
	dir := c.t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		c.t.Skip("this machine mounts no small disk: ", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	small := start(c.t, "--store", filepath.Join(dir, "store"))
	_, m, _ := small.trained(small.mallory)
	f, err := os.Create(filepath.Join(dir, "theirs"))
	require.NoError(c.t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 1<<16))
	}
	f.Close()
	var got tally
	for path, body := range map[string]string{"create_session": "{}", "optim_step": `{"model_id":"` + m.ID + `","seq_id":2}`,
		"save_weights": `{"model_id":"` + m.ID + `","seq_id":2,"path":"two"}`} {
		status, text := small.post("/api/v1/"+path, body)
		require.Contains(c.t, text, "nearly full")
		got.add(status)
	}
	require.NoError(c.t, os.Remove(f.Name()))
	_, err = m.Save(context.Background(), "two")
	require.NoError(c.t, err)
	return got.String() + "; when there is room again it goes on"
}
