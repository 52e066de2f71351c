// Package overlap finds problems of one set that are also in another, under any id: the same task to the letter, or
// nearly the same one. It does not know which set is trained on.
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

// Report says for every problem of a set which problem of another set is the same, or nearly the same.
type Report struct {
	Same []int     // by problem: the index of the same problem, or -1
	Near []int     // the index of the most similar problem, if it is similar enough, or -1
	Like []float64 // the share of the problem's runs of words that are in the similar one
}

// A statement of at least leastWords words is nearly the same as another that contains at least nearShare of its runs of
// runWords words (n-grams). Shorter statements are nearly the same only if all their words are.
const (
	runWords   = 8
	leastWords = 30
	nearShare  = 0.7
	// A run of words in more problems than mostOwners is a common phrase, and is ignored.
	mostOwners = 256
)

// Find looks for the problems of set among others.
func Find(others, set []data.Problem) Report {
	r := Report{Same: make([]int, len(set)), Near: make([]int, len(set)), Like: make([]float64, len(set))}
	asked := map[[sha256.Size]byte]int{}
	for i := range others {
		k := taskHash(&others[i])
		if _, there := asked[k]; !there {
			asked[k] = i
		}
	}
	for i := range set {
		r.Same[i], r.Near[i] = -1, -1
		if at, there := asked[taskHash(&set[i])]; there {
			r.Same[i] = at
		}
	}
	newIndex(set).compare(others, &r)
	return r
}

// taskHash is a hash of the words of the statement, ignoring the space between them, and of how the answer is called. The
// tests are left out, because the same task has the same answers whatever tests check them.
func taskHash(p *data.Problem) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %d %q", strings.Fields(p.Statement), strings.Fields(p.StarterCode), p.Kind, p.FuncName))
}

// index maps runs of words to the problems of a set.
type index struct {
	seed  maphash.Seed
	first map[uint64]int32   // by run: the first problem with it
	more  map[uint64][]int32 // by run: the other problems with it
	total []int              // by problem: its number of runs that are not ignored
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

// compare fills in Near and Like, on all cores. Of equally similar problems the first counts, so that the result does not
// depend on timing.
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

// shared counts the runs that a problem has in common with each problem of the set.
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

// note records problem at of the other set where it is the most similar so far.
func (r *Report) note(at int, shared map[int32]int, total []int) {
	for i, n := range shared {
		like := float64(n) / float64(total[i])
		if like >= nearShare && (like > r.Like[i] || like == r.Like[i] && at < r.Near[i]) {
			r.Near[i], r.Like[i] = at, like
		}
	}
}

// runs returns the hashes of the runs of words of a problem. A short statement is a single run.
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

// words are the hashes of the words of a text, which are runs of letters and digits, ignoring case.
func (x *index) words(text string) []uint64 {
	var words []uint64
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		words = append(words, maphash.String(x.seed, word))
	}
	return words
}

// join combines hashes into one that depends on their order.
func join(hashes []uint64, start uint64) uint64 {
	for _, h := range hashes {
		start = (start ^ h) * 0x9E3779B97F4A7C15
		start ^= start >> 29
	}
	return start
}

// distinct sorts hashes and removes repeated ones.
func distinct(hashes []uint64) []uint64 {
	slices.Sort(hashes)
	return slices.Compact(hashes)
}
