package rebuild

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// shelf is the folder of builds: KEY/grpo, and a lock.
type shelf struct{ dir string }

func (s shelf) program(key string) string { return filepath.Join(s.dir, key, "grpo") }

// lock waits for the lock: one process builds, the others then find its build.
func (s shelf) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for !disk.Lock(f) {
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return func() { f.Close() }, nil
}

// touch records that a program is about to be used.
func (s shelf) touch(program string) error {
	now := time.Now()
	return os.Chtimes(program, now, now)
}

// grace is how long a program is kept after its last start, as a process that has found it may be about to start it. A
// running one does not need its file.
const grace = time.Hour

// sweep removes builds of other sources, as far as possible.
func (s shelf) sweep(key string) {
	others, _ := filepath.Glob(filepath.Join(s.dir, "*"))
	for _, dir := range others {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || filepath.Base(dir) == key {
			continue
		}
		if info, err := os.Stat(s.program(filepath.Base(dir))); err != nil || time.Since(info.ModTime()) > grace {
			_ = os.RemoveAll(dir)
		}
	}
}
