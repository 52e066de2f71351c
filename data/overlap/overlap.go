// Package overlap finds problems of one set that are in another, whatever they are called there: the same task to the
// letter, or nearly the same one. It does not know which set is trained on.
package overlap

import (
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/seed-7879b91d/grpo/data"
)

// Report says of every problem of a set which one of another set it is, or is nearly.
type Report struct {
	Same []int     // by problem: the index of the same one, or -1
	Near []int     // the index of the one that is most like it, where that is like enough, or -1
	Like []float64 // the share of it that is in that one
}

// What counts as nearly the same: a statement of at least so many words of which so large a share of the runs of so many
// words is in the other. Shorter statements are nearly the same where they have the same words.
const (
	runWords   = 8
	leastWords = 30
	nearShare  = 0.7
	// A run of words in more problems than these is a turn of phrase, and tells nothing.
	mostOwners = 256
)

// Find looks for the problems of set among others.
func Find(others, set []data.Problem) Report {
	r := Report{Same: make([]int, len(set)), Near: make([]int, len(set)), Like: make([]float64, len(set))}
	asked := map[[sha256.Size]byte]int{}
	for i := range others {
		k := task(&others[i])
		if _, there := asked[k]; !there {
			asked[k] = i
		}
	}
	for i := range set {
		r.Same[i], r.Near[i] = -1, -1
		if at, there := asked[task(&set[i])]; there {
			r.Same[i] = at
		}
	}
	newIndex(set).compare(others, &r)
	return r
}

// task is what is asked: the words of the statement as they stand, whatever space is between them, and how the answer
// is called. A model that is asked the same has the same answer, so that the tests may be others.
func task(p *data.Problem) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %d %q", strings.Fields(p.Statement), strings.Fields(p.StarterCode), p.Kind, p.FuncName))
}

// index has the runs of words of a set.
type index struct {
	seed  maphash.Seed
	first map[uint64]int32   // of a run: the first problem that has it
	more  map[uint64][]int32 // and the others, where there are some
	total []int              // runs of a problem that tell something
}

func newIndex(set []data.Problem) *index {
	x := &index{seed: maphash.MakeSeed(), first: map[uint64]int32{}, more: map[uint64][]int32{}, total: make([]int, len(set))}
	for i := range set {
		for _, run := range distinct(x.runs(&set[i])) {
			if _, there := x.first[run]; !there {
				x.first[run] = int32(i)
			} else if len(x.more[run]) < mostOwners {
				x.more[run] = append(x.more[run], int32(i))
			}
		}
	}
	for run, i := range x.first {
		if others := x.more[run]; len(others) == mostOwners {
			delete(x.first, run)
		} else {
			x.total[i]++
			for _, i := range others {
				x.total[i]++
			}
		}
	}
	return x
}

// compare fills in what is nearly the same. Problems are looked at on all cores; of two that are equally like a third
// the first counts.
func (x *index) compare(others []data.Problem, r *Report) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for core := range cores {
		workers.Go(func() {
			for at := core; at < len(others); at += cores {
				if shared := x.shared(&others[at]); len(shared) > 0 {
					mu.Lock()
					r.note(at, shared, x.total)
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
}

// shared counts the runs that a problem has in common with each of the set.
func (x *index) shared(p *data.Problem) map[int32]int {
	var known []uint64
	for _, run := range x.runs(p) {
		if _, there := x.first[run]; there {
			known = append(known, run)
		}
	}
	shared := map[int32]int{}
	for _, run := range distinct(known) {
		shared[x.first[run]]++
		for _, i := range x.more[run] {
			shared[i]++
		}
	}
	return shared
}

// note takes down what a problem is like.
func (r *Report) note(at int, shared map[int32]int, total []int) {
	for i, n := range shared {
		like := float64(n) / float64(total[i])
		if like >= nearShare && (like > r.Like[i] || like == r.Like[i] && at < r.Near[i]) {
			r.Near[i], r.Like[i] = at, like
		}
	}
}

// runs gives the runs of words of a problem, as hashes. A short statement is a single run.
func (x *index) runs(p *data.Problem) []uint64 {
	words := x.words(p.Statement)
	if len(words) < leastWords {
		return []uint64{join(append(words, maphash.String(x.seed, p.FuncName)), uint64(len(words)))}
	}
	runs := make([]uint64, 0, len(words)-runWords+1)
	for i := range len(words) - runWords + 1 {
		runs = append(runs, join(words[i:i+runWords], 0))
	}
	return runs
}

// words are the runs of letters and digits, whatever their case, as hashes.
func (x *index) words(text string) []uint64 {
	var words []uint64
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		words = append(words, maphash.String(x.seed, word))
	}
	return words
}

// join makes one hash of several, which hangs on their order.
func join(hashes []uint64, start uint64) uint64 {
	for _, h := range hashes {
		start = (start ^ h) * 0x9E3779B97F4A7C15
		start ^= start >> 29
	}
	return start
}

// distinct gives hashes once each, in order of their size.
func distinct(hashes []uint64) []uint64 {
	slices.Sort(hashes)
	return slices.Compact(hashes)
}
