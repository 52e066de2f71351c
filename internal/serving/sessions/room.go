package sessions

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// room refuses requests that write while the disk is full; clients try again.
func (s *Server) room() error {
	err := s.CheckSpace()
	if badinput.Is(err) {
		return refusal.Busy(time.Minute, "%v", err)
	}
	return err // nil, or the store itself is gone
}

// betweenSweeps is the longest time between two sweeps.
const betweenSweeps = time.Hour

// sweeps removes finished sessions that are no longer used, until the server is closed.
func (s *Server) sweeps() {
	ticks := time.NewTicker(betweenSweeps)
	defer ticks.Stop()
	for {
		s.sweep(time.Now())
		select {
		case <-ticks.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// sweep removes finished sessions that were not used for Retention, unless their adapter is served.
func (s *Server) sweep(now time.Time) {
	s.mu.Lock()
	var old []*session
	for _, n := range s.sessions {
		if n.isOver(now.Add(-s.Retention)) {
			old = append(old, n)
		}
	}
	for _, n := range old {
		s.hide(n)
	}
	s.mu.Unlock()
	for _, n := range old {
		s.forget(n)
		s.Log.Info("a finished session is removed", "id", n.ID)
	}
}

// sweepSaves removes partly written files and adapter folders, left by a kill during a save. Nobody may be saving.
func (n *session) sweepSaves() error {
	saved := n.file(savedFolder)
	entries, err := os.ReadDir(saved)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			err = errors.Join(err, disk.RemoveAll(filepath.Join(saved, e.Name())))
		}
	}
	return errors.Join(err, atomicfile.RemoveStale(n.dir))
}

// isOver reports whether a session is finished, is not served, and was not used since then.
func (n *session) isOver(since time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.record.Finished || n.record.ServedAs != "" || n.working {
		return false
	}
	info, err := os.Stat(n.file(recordFile))
	return err == nil && info.ModTime().Before(since)
}

// touch records that a session is used.
func (n *session) touch() error {
	now := time.Now()
	if err := os.Chtimes(n.file(recordFile), now, now); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil // it is being removed
}
