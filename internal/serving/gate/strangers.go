package gate

import (
	"sync"
	"time"
)

// strangers bounds what the log says of those whose key is not known: so many a second, and then how many more there were.
// Whoever tries keys fills no disk with it, and the lines cost more than the refusals. The metrics count all of them.
type strangers struct {
	mu     sync.Mutex
	second time.Time
	told   int // in it
	untold int
}

// mostTold is how many lines a second there are.
const mostTold = 10

// next reports whether the log says something of one more, and how many were left out before.
func (s *strangers) next(now time.Time) (told bool, untold int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.second) >= time.Second {
		s.second, s.told = now, 0
	}
	if s.told == mostTold {
		s.untold++
		return false, 0
	}
	s.told++
	untold, s.untold = s.untold, 0
	return true, untold
}
