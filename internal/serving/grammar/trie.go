package grammar

import (
	"cmp"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/serving/grammar/automata"
)

// trie has the tokens by their bytes. Nodes are numbered in depth-first order, so that the descendants of a node are the
// numbers after it, and their tokens are contiguous in ids. Node 0 is the root.
type trie struct {
	label []byte   // the last byte of a node's text
	depth []uint16 // length of the text
	next  []int32  // the first node after the descendants
	first []int32  // the index in ids of the first token at the node or below; one entry more than nodes
	ids   []int32
	// plain is 0 if a text at or below the node is not simply the inside of a JSON string (a quote, an escape, invalid
	// UTF-8) when read from the beginning of a character; else 1 + the most characters of any.
	plain   []uint16
	longest int // bytes
}

// mostBytes is the longest token that is used. Longer ones, which in real vocabularies are only runs of spaces, can be
// written with others.
const mostBytes = 256

func newTrie(texts []string) trie {
	var ids []int32
	for id, text := range texts {
		if text != "" && len(text) <= mostBytes {
			ids = append(ids, int32(id))
		}
	}
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(texts[a], texts[b]), cmp.Compare(a, b))
	})
	t := trie{label: []byte{0}, depth: []uint16{0}, first: []int32{0}, ids: ids}
	path := []int32{0}
	parents := []int32{0}
	last := ""
	for at, id := range ids {
		text := texts[id]
		same := 0
		for same < len(last) && same < len(text) && last[same] == text[same] {
			same++
		}
		t.longest = max(t.longest, len(text))
		path = path[:same+1]
		for i := same; i < len(text); i++ {
			parents = append(parents, path[i])
			path = append(path, int32(len(t.label)))
			t.label = append(t.label, text[i])
			t.depth = append(t.depth, uint16(i+1))
			t.first = append(t.first, int32(at))
		}
		last = text
	}
	t.first = append(t.first, int32(len(ids)))
	t.findEnds(parents)
	t.findPlain(parents)
	return t
}

func (t *trie) findEnds(parents []int32) {
	t.next = make([]int32, len(t.label))
	for n := len(t.label) - 1; n >= 0; n-- {
		t.next[n] = max(t.next[n], int32(n+1))
		if n > 0 {
			t.next[parents[n]] = max(t.next[parents[n]], t.next[n])
		}
	}
}

// own are the tokens that end at a node.
func (t *trie) own(n int32) []int32 { return t.ids[t.first[n]:t.first[n+1]] }

// below are the tokens that end at a node or below it.
func (t *trie) below(n int32) []int32 { return t.ids[t.first[n]:t.first[t.next[n]]] }

func (t *trie) leaf(n int32) bool { return t.next[n] == n+1 }

// findPlain computes plain, reading each path from the root as the inside of a string. A walk that starts between two
// characters in the middle of a path agrees with this, as UTF-8 shows where characters begin.
func (t *trie) findPlain(parents []int32) {
	inside := &leaf{auto: automata.AnyText, quoted: true, most: -1}
	states := make([]state, len(t.label))
	good := make([]bool, len(t.label)) // the path so far is the inside of a string
	good[0] = true
	for n := 1; n < len(t.label); n++ {
		p := parents[n]
		if b := t.label[n]; good[p] && b != '"' && b != '\\' {
			states[n], good[n] = inside.step(states[p], b)
		}
	}
	t.plain = make([]uint16, len(t.label))
	bad := make([]bool, len(t.label))
	most := make([]uint16, len(t.label))
	for n := len(t.label) - 1; n >= 0; n-- {
		begins := good[n] && states[n].part == 0
		if begins && !bad[n] {
			t.plain[n] = 1 + most[n]
		}
		if n == 0 {
			break
		}
		p := parents[n]
		bad[p] = bad[p] || bad[n] || !good[n]
		if begins {
			most[p] = max(most[p], most[n]+1)
		} else {
			most[p] = max(most[p], most[n])
		}
	}
}
