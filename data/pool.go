package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/splitmix"
)

// Pool deals problems: a fresh subset every step, every problem once an epoch, in an order that depends
// on the seed and the epoch alone. Its Cursor is its whole state, so that a resumed run is dealt what
// the uninterrupted one would have been.
type Pool struct {
	problems   []Problem
	index      map[string]int // by id
	seed       uint64
	difficulty Difficulty

	epoch    uint64
	position int         // index in order of the next problem
	order    []int       // the permutation of the epoch
	deferred []int       // put off at the end of an epoch, because the subset had them already
	streaks  map[int]int // see Cursor.Streaks
	skipped  []string    // in the last Take
}

// Difficulty configures difficulty sampling: problems that were always solved lately, or never, give no
// gradient and are skipped most of the time. The zero value deals every problem every epoch.
type Difficulty struct {
	// Patience is the number of visits in a row, with all completions right or all wrong, after which
	// a problem counts as too easy or too hard. 0 switches difficulty sampling off.
	Patience int `json:"patience"`
	// Keep is the probability that such a problem is dealt all the same, 0.01 to 1, so that no problem
	// is lost for good.
	Keep float64 `json:"keep"`
}

// Cursor is the state of a pool, for checkpoints.
type Cursor struct {
	Seed uint64 `json:"seed"`
	// Pool is the fingerprint of the problems and their order.
	Pool     string   `json:"pool"`
	Epoch    uint64   `json:"epoch"`
	Position int      `json:"position"`
	Deferred []string `json:"deferred,omitempty"`
	// Streaks counts, by problem, the last visits in a row in which all completions were right (then
	// it is positive) or all were wrong (negative). Others have no entry.
	Streaks map[string]int `json:"streaks,omitempty"`
}

// NewPool makes a pool at the beginning of epoch 0. What it deals depends on the order of problems and the seed.
func NewPool(problems []Problem, seed uint64, difficulty Difficulty) (*Pool, error) {
	if len(problems) == 0 {
		return nil, badinput.Errorf("no problem is left to train on; loosen the filters or give more data")
	}
	if d := difficulty; d.Patience < 0 || d.Patience > 0 && !(d.Keep >= 0.01 && d.Keep <= 1) {
		return nil, badinput.Errorf("found difficulty_patience=%d and difficulty_keep=%v, expected a patience of 0 or more and a share from "+
			"0.01 to 1", d.Patience, d.Keep)
	}
	p := &Pool{problems: problems, index: make(map[string]int, len(problems)), seed: seed, difficulty: difficulty, streaks: map[int]int{}}
	for i := range problems {
		if _, twice := p.index[problems[i].ID]; twice {
			return nil, badinput.Errorf("two problems have the id %q", problems[i].ID)
		}
		p.index[problems[i].ID] = i
	}
	p.order = permutation(seed, 0, len(problems))
	return p, nil
}

// Len is the number of problems.
func (p *Pool) Len() int { return len(p.problems) }

// Problem is the problem of that id.
func (p *Pool) Problem(id string) (Problem, bool) {
	i, known := p.index[id]
	if !known {
		return Problem{}, false
	}
	return p.problems[i], true
}

// Epoch is the current epoch, from 0.
func (p *Pool) Epoch() int { return int(p.epoch) }

// Skipped are the ids of the problems that difficulty sampling skipped in the last Take.
func (p *Pool) Skipped() []string { return p.skipped }

// Take deals the next n problems, across the end of an epoch if necessary. No problem is twice in a
// subset, unless n is more than there are. The result depends only on the seed and on the calls of Take
// and Observe before, so that a run can be replayed.
func (p *Pool) Take(n int) []Problem {
	if n < 0 {
		panic(fmt.Sprintf("data.Pool.Take: found n=%d, expected a number of problems, 0 or more", n))
	}
	p.skipped = nil
	taken := make([]Problem, 0, n)
	inSubset := make(map[int]bool, n)
	deal := func(i int) {
		taken = append(taken, p.problems[i])
		inSubset[i] = true
	}
	for len(taken) < n && len(p.deferred) > 0 {
		deal(p.deferred[0])
		p.deferred = p.deferred[1:]
	}
	for len(taken) < n {
		switch i := p.next(); {
		case p.skip(i):
			p.skipped = append(p.skipped, p.problems[i].ID)
		case inSubset[i] && n <= len(p.problems):
			if !slices.Contains(p.deferred, i) {
				p.deferred = append(p.deferred, i)
			}
		default:
			deal(i)
		}
	}
	return taken
}

// next is the next problem of the epoch, or the first of the next epoch.
func (p *Pool) next() int {
	if p.position == len(p.order) {
		p.epoch, p.position = p.epoch+1, 0
		p.order = permutation(p.seed, p.epoch, len(p.problems))
	}
	p.position++
	return p.order[p.position-1]
}

// skip decides at random whether problem i, if it is too easy or too hard, is skipped this epoch.
func (p *Pool) skip(i int) bool {
	streak := p.streaks[i]
	if p.difficulty.Patience == 0 || max(streak, -streak) < p.difficulty.Patience {
		return false
	}
	lot := float64(draw(p.seed, streamSkip, p.epoch, uint64(i))>>11) / (1 << 53)
	return lot >= p.difficulty.Keep
}

// Observe tells the pool how many of the completions of a problem were right.
func (p *Pool) Observe(id string, solved, total int) {
	i, known := p.index[id]
	if !known || total == 0 {
		return
	}
	switch streak := p.streaks[i]; {
	case solved == total:
		p.streaks[i] = max(streak, 0) + 1
	case solved == 0:
		p.streaks[i] = min(streak, 0) - 1
	default:
		delete(p.streaks, i)
	}
}

// Cursor is where the pool stands.
func (p *Pool) Cursor() Cursor {
	c := Cursor{Seed: p.seed, Pool: p.fingerprint(), Epoch: p.epoch, Position: p.position}
	for _, i := range p.deferred {
		c.Deferred = append(c.Deferred, p.problems[i].ID)
	}
	for i, streak := range p.streaks {
		if c.Streaks == nil {
			c.Streaks = map[string]int{}
		}
		c.Streaks[p.problems[i].ID] = streak
	}
	return c
}

// Restore moves the pool to a cursor. drifted reports that the problems are not those of the cursor:
// the run can go on, from the same position in a new order, but does not repeat the old one.
func (p *Pool) Restore(c Cursor) (drifted bool, err error) {
	if c.Seed != p.seed {
		return false, badinput.Errorf("the checkpoint has seed %d, but the run has seed %d; type seed=%d to resume",
			c.Seed, p.seed, c.Seed)
	}
	drifted = c.Pool != p.fingerprint()
	if c.Position < 0 || c.Position > len(p.problems) && !drifted {
		return drifted, badinput.Errorf("the checkpoint's data cursor is damaged: position %d of %d problems", c.Position, len(p.problems))
	}
	p.epoch, p.position = c.Epoch, min(c.Position, len(p.problems))
	p.order = permutation(p.seed, p.epoch, len(p.problems))
	p.deferred, p.streaks, p.skipped = nil, map[int]int{}, nil
	for _, id := range c.Deferred {
		if i, known := p.index[id]; known {
			if !slices.Contains(p.deferred, i) {
				p.deferred = append(p.deferred, i)
			}
		}
	}
	for id, streak := range c.Streaks {
		if i, known := p.index[id]; known {
			p.streaks[i] = streak
		}
	}
	return drifted, nil
}

// fingerprint is a hash of the ids in order.
func (p *Pool) fingerprint() string {
	h := sha256.New()
	for i := range p.problems {
		fmt.Fprintf(h, "%q\n", p.problems[i].ID)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// permutation is a Fisher-Yates shuffle of 0..n-1, with random numbers keyed by (seed, epoch, index).
func permutation(seed, epoch uint64, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		// The high word of a product maps 64 random bits onto 0..i; the bias is below n/2^64.
		j, _ := bits.Mul64(draw(seed, streamShuffle, epoch, uint64(i)), uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// The streams of random numbers, one for each purpose.
const (
	streamShuffle = iota + 1
	streamSkip
)

// draw is a counter-based generator: 64 bits that depend on its arguments alone, through SplitMix64,
// on every platform the same.
func draw(seed, stream, epoch, counter uint64) uint64 {
	x := seed
	for _, word := range [...]uint64{stream, epoch, counter} {
		x = splitmix.At(x, word)
	}
	return x
}
