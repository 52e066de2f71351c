package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Progress is how much of a file has arrived.
type Progress struct {
	File          string // with its repository
	Number, Files int    // it is number Number of the Files files of a DownloadAll
	Done, Total   int64  // bytes; Total is -1 if the Hub does not say
}

type progressKey struct{}

// WithProgress returns a context under which fn is called with the progress of every download. It is called often; nil
// means no calls.
func WithProgress(ctx context.Context, fn func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, fn)
}

// Download returns the path of the file in the cache, and downloads it first if necessary. A broken
// transfer is resumed, also by a later process.
func (s *Snapshot) Download(ctx context.Context, name string) (string, error) {
	paths, err := s.DownloadAll(ctx, []string{name})
	if err != nil {
		return "", err
	}
	return paths[0], nil
}

// DownloadAll is Download for several files, which end up in one folder, Dir. Nothing is transferred if the disk
// has no room for all of them.
func (s *Snapshot) DownloadAll(ctx context.Context, names []string) ([]string, error) {
	s.useHeld(names)
	paths := make([]string, len(names))
	var missing []*download
	for i, name := range names {
		paths[i] = filepath.Join(s.Dir(), filepath.FromSlash(name))
		if _, err := os.Stat(paths[i]); err == nil {
			continue
		}
		if s.client.Offline {
			return nil, s.missing(name)
		}
		d := &download{client: s.client, snapshot: s, name: name, link: paths[i], number: i + 1, files: len(names)}
		d.progress, _ = ctx.Value(progressKey{}).(func(Progress))
		missing = append(missing, d)
	}
	for _, d := range missing {
		if err := s.client.retry(ctx, func() (bool, error) { return false, d.head(ctx) }); err != nil {
			return nil, d.failed(err)
		}
	}
	if err := s.room(missing); err != nil {
		return nil, err
	}
	for _, d := range missing {
		if err := d.run(ctx); err != nil {
			return nil, d.failed(err)
		}
	}
	return paths, nil
}

// room checks that the disk of the cache has room for the downloads.
func (s *Snapshot) room(missing []*download) error {
	var wanted int64
	for _, d := range missing {
		wanted += d.left()
	}
	if wanted == 0 {
		return nil
	}
	free, known := s.client.free(s.client.Cache)
	if !known || wanted <= free {
		return nil
	}
	return badinput.Errorf("%s: the download needs %s, but %s has only %s free; make room there, or set HF_HUB_CACHE to a folder on a "+
		"larger disk", s.repo, gigabytes(wanted), s.client.Cache, gigabytes(free))
}

// gigabytes is a size as the Hub's pages show it.
func gigabytes(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// free is how many bytes this user may still write below a folder that may not be there yet. A file system in a store of objects may
// have no size.
func free(dir string) (bytes int64, known bool) {
	for {
		var fs syscall.Statfs_t
		err := syscall.Statfs(dir, &fs)
		if err == nil {
			return int64(fs.Bavail) * int64(fs.Bsize), fs.Blocks > 0
		}
		above := filepath.Dir(dir)
		if !errors.Is(err, syscall.ENOENT) || above == dir {
			return 0, false
		}
		dir = above
	}
}

// useHeld takes files from the cache that can only be read, where it has them all. Where it lacks one, all are in the other, also such as
// were asked for by themselves before.
func (s *Snapshot) useHeld(names []string) {
	if s.asked == nil {
		s.asked = s.client
	}
	if s.client = s.asked; s.client.held == "" {
		return
	}
	held := *s
	held.client = &Client{Endpoint: s.client.Endpoint, Cache: s.client.held, Offline: true}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(held.Dir(), filepath.FromSlash(name))); err != nil {
			return
		}
	}
	s.client = held.client
}
