package tinker

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
)

// smallDisk mounts a file system of a few megabytes, if this process may.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fillDisk fills a disk up to the given number of bytes, until the file is removed.
func fillDisk(t *testing.T, dir string, but int) (path string) {
	t.Helper()
	var disk syscall.Statfs_t
	require.NoError(t, syscall.Statfs(dir, &disk))
	path = filepath.Join(dir, "secret.fill")
	if err := os.WriteFile(path, make([]byte, int(disk.Bavail)*int(disk.Bsize)-but), 0o600); err != nil {
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	return path
}

// requireDiskFull requires an error that says that the disk is full, and not where.
func requireDiskFull(t *testing.T, dir string, err error) {
	t.Helper()
	require.ErrorContains(t, err, "the disk of the store is full; delete checkpoints or sessions")
	require.NotContains(t, err.Error(), dir)
	require.NotContains(t, err.Error(), "no space")
}

// All errors of a full disk are reported to clients in the same way; the log has the path.
func TestWhatAClientHearsOfAFullDisk(t *testing.T) {
	for _, why := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		var log bytes.Buffer
		s := &Server{Options: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		err := fmt.Errorf("session: %w", &fs.PathError{Op: "open", Path: "/store/sessions/.tmp-17", Err: why})
		w := httptest.NewRecorder()
		s.fail(w, httptest.NewRequest("POST", "/", nil), err)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		requireDiskFull(t, "/store", errors.New(w.Body.String()))
		require.Contains(t, log.String(), "/store/sessions/.tmp-17")
		requireDiskFull(t, "/store", errors.New(string(s.failed(err).body)))
	}
}

// If no file can be created, every call that creates one fails and can be repeated, and succeeds when there is room.
func TestADiskWithoutFiles(t *testing.T) {
	dir := smallDisk(t, "size=32m,nr_inodes=200")
	s := serve(t, dir)
	n := s.connect(t)
	m := train(t, n, 1)
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
	_, err := m.Save(t.Context(), "one")
	require.NoError(t, err)
	free := func() {
		for i := range 200 {
			_ = os.Remove(filepath.Join(dir, fmt.Sprint(i)))
		}
	}
	for i := range 200 {
		if f, err := os.Create(filepath.Join(dir, fmt.Sprint(i))); err == nil {
			require.NoError(t, f.Close())
		}
	}
	require.ErrorContains(t, store.Check(dir), "another server uses it", "a server begins there, so that something can be deleted")
	var refused *client.RejectedError
	calls := map[string]func() error{
		"create_session":          func() error { _, err := s.Connect(t.Context()); return err },
		"create_model":            func() error { _, err := n.Train(t.Context(), "tiny", 4, 1); return err },
		"create_sampling_session": func() error { _, err := n.Sampling(t.Context(), "tiny", ""); return err },
		"publish": func() error {
			return s.Call(t.Context(), "POST", "training_runs/"+m.ID+"/checkpoints/weights/one/publish", nil, nil)
		},
	}
	patience := s.Patience
	s.Patience = 1 // reports the error instead of trying again
	for name, call := range calls {
		err := call()
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, http.StatusTooManyRequests, refused.Code, name)
		requireDiskFull(t, dir, err)
	}
	s.Patience = patience
	for name, save := range map[string]func() error{
		"save_weights":             func() error { _, err := m.Save(t.Context(), "two"); return err },
		"save_weights_for_sampler": func() error { _, err := m.SaveSampler(t.Context(), "two"); return err },
		"without a name":           func() error { _, err := m.Sampling(t.Context()); return err },
	} {
		var failed *client.FailedError
		err := save()
		require.ErrorAs(t, err, &failed, name)
		require.Equal(t, "server", failed.Category)
		requireDiskFull(t, dir, err)
	}
	free()
	for name, call := range calls {
		require.NoError(t, call(), name)
	}
	_, err = m.Save(t.Context(), "two")
	require.NoError(t, err)
}

// A journal that found no room continues when there is some: with accepted requests, and with results that were returned.
func TestAJournalOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "size=4m")
	s := serve(t, dir)
	n := s.connect(t)
	m := train(t, n, 1)
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))

	var long []wire.Datum
	for range 100 {
		long = append(long, weightedDatum(make([]int32, 250), 1, 1))
	}
	filler := fillDisk(t, dir, 300<<10) // room enough to begin
	patience := s.Patience
	s.Patience = 1 // reports the error instead of trying again
	_, err := m.ForwardBackward(t.Context(), crossEntropy(long...))
	s.Patience = patience
	var refused *client.RejectedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusTooManyRequests, refused.Code)
	requireDiskFull(t, dir, err)
	m.Seq--
	require.NoError(t, os.Remove(filler))

	// There is no room for the result of an accepted request.
	other := train(t, n, 1)
	awaitGradient(t, other, crossEntropy(weightedDatum(tokens1, 3, 1)))
	turn := s.server.bases["tiny"].Lock
	turn.Lock()
	f, err := m.ForwardBackward(t.Context(), crossEntropy(long[:40]...))
	if err == nil {
		filler = fillDisk(t, dir, 0)
	}
	turn.Unlock()
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	requireDiskFull(t, dir, err)
	require.NoError(t, os.Remove(filler))
	want := stepped(t, other, 1e-2)["metrics"]
	require.Equal(t, want, stepped(t, m, 1e-2)["metrics"]) // what failed is not repeated later

	copied := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	next := serve(t, copied)
	again := *m
	again.Session = &client.Session{Client: next.Client, ID: n.ID}
	_, err = next.Wait(t.Context(), fmt.Sprintf("%s#%d", m.ID, m.Seq-1))
	requireDiskFull(t, dir, err)
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	require.Equal(t, awaitGradient(t, other, q), awaitGradient(t, &again, q))
}

// An idle model has no file open, and continues when it is used again.
func TestModelsThatRestHaveNoFilesOpen(t *testing.T) {
	folder := t.TempDir()
	s := serve(t, folder, func(o *Options) { o.IdleTimeout = time.Millisecond })
	none := func() bool {
		all, err := filepath.Glob("/proc/self/fd/*")
		require.NoError(t, err)
		return !slices.ContainsFunc(all, func(fd string) bool {
			to, err := os.Readlink(fd)
			return err == nil && strings.HasPrefix(to, folder) && filepath.Base(to) == "journal"
		})
	}
	n := s.connect(t)
	m, other := train(t, n, 1), train(t, n, 1)
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	for range 2 {
		want := awaitGradient(t, other, q)
		require.Eventually(t, none, time.Minute, time.Millisecond)
		require.Equal(t, want, awaitGradient(t, m, q))
		stepped(t, m, 1e-2)
		stepped(t, other, 1e-2)
	}
	require.NoError(t, s.Call(t.Context(), "POST", "unload_model", map[string]string{"model_id": m.ID}, &struct{}{}))
	require.Eventually(t, none, time.Minute, time.Millisecond)
}
