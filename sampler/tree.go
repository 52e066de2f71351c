package sampler

import (
	"encoding/binary"

	"github.com/seed-7879b91d/grpo/model"
)

// tree finds blocks that sequences have filled by the tokens that lead to them: a trie whose edges are blocks of
// tokens, with a root for each adapter. It holds a reference to each block in it. When blocks are needed, those that
// nobody else refers to are given up, the one that was used longest ago first.
type tree struct {
	block int // tokens of one
	pool  *blockPool
	roots map[*model.Served]*node // nil: the bare base
	ring  node                    // of all nodes: ring.next was used last, ring.before longest ago
	key   []byte
}

// node is a full block after those of its ancestors.
type node struct {
	parent       *node
	key          string // its tokens
	children     map[string]*node
	block        int32
	next, before *node
}

func newTree(block int, pool *blockPool) *tree {
	t := &tree{block: block, pool: pool, roots: map[*model.Served]*node{}}
	t.ring.next, t.ring.before = &t.ring, &t.ring
	return t
}

// find gives the longest table of blocks that holds what those tokens begin with, at most so many, with a reference to
// each for the caller.
func (t *tree) find(a *model.Served, tokens []int32, most int) (table []int32) {
	at := t.roots[a]
	for at != nil && len(table) < most {
		child := at.children[string(t.keyOf(tokens, len(table)))]
		if child == nil {
			break
		}
		table = append(table, child.block)
		at = child
	}
	t.touch(at)
	t.pool.retain(table)
	return table
}

// insert remembers the full blocks of a table that holds those tokens.
func (t *tree) insert(a *model.Served, tokens, table []int32) {
	at := t.roots[a]
	if at == nil {
		at = &node{children: map[string]*node{}}
		t.roots[a] = at
	}
	for i := range len(tokens) / t.block {
		key := t.keyOf(tokens, i)
		child := at.children[string(key)]
		if child == nil {
			child = &node{parent: at, key: string(key), children: map[string]*node{}, block: table[i]}
			at.children[child.key] = child
			t.pool.keep(child.block)
		}
		at = child
	}
	t.touch(at)
}

// keyOf is block i of some tokens, until the next call.
func (t *tree) keyOf(tokens []int32, i int) []byte {
	t.key = t.key[:0]
	for _, token := range tokens[i*t.block : (i+1)*t.block] {
		t.key = binary.NativeEndian.AppendUint32(t.key, uint32(token))
	}
	return t.key
}

// touch makes a node and its ancestors those used last, every one after those below it.
func (t *tree) touch(n *node) {
	for ; n != nil && n.parent != nil; n = n.parent {
		n.unlink()
		n.next, n.before = t.ring.next, &t.ring
		n.next.before, t.ring.next = n, n
	}
}

func (n *node) unlink() {
	if n.next != nil {
		n.next.before, n.before.next = n.before, n.next
	}
}

// evict frees at least one block, if there is one that nobody else refers to.
func (t *tree) evict() bool {
	for n := t.ring.before; n != &t.ring; n = n.before {
		if !t.pool.shared(n.block) {
			delete(n.parent.children, n.key)
			t.remove(n)
			return true
		}
	}
	return false
}

// remove gives up a node and all below it. Sequences that run on their blocks keep those.
func (t *tree) remove(n *node) {
	for _, child := range n.children {
		t.remove(child)
	}
	if n.parent != nil {
		n.unlink()
		t.pool.drop(n.block)
	}
}

// forget gives up what an adapter has.
func (t *tree) forget(a *model.Served) {
	if root := t.roots[a]; root != nil {
		t.remove(root)
		delete(t.roots, a)
	}
}
