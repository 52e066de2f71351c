package gate

import (
	"sync"
	"time"
)

// strangerLog limits log lines about unknown keys: some per second, and then a count of the rest. Guessing keys must not
// fill the disk, and writing the lines costs more than refusing. The metrics count all of them.
type strangerLog struct {
	mu     sync.Mutex
	second time.Time
	told   int // lines in the current second
	untold int
}

// mostPerSecond is the most lines per second.
const mostPerSecond = 10

// next reports whether to log this one, and how many were not logged before it.
func (s *strangerLog) next(now time.Time) (told bool, untold int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.second) >= time.Second {
		s.second, s.told = now, 0
	}
	if s.told == mostPerSecond {
		s.untold++
		return false, 0
	}
	s.told++
	untold, s.untold = s.untold, 0
	return true, untold
}
