package sampler

import (
	"encoding/binary"

	"github.com/seed-7879b91d/grpo/model"
)

// tree is the prefix cache: a trie of full blocks, whose edges are the tokens of a block, with a root for each adapter.
// It holds a reference to each of its blocks. When blocks are needed, those without other references are evicted, the
// least recently used first.
type tree struct {
	block int // tokens of a block
	pool  *blockPool
	roots map[*model.Served]*node // by adapter; nil: the base model
	lru   node                    // the list of all nodes: lru.next is the most recently used, ring.prev the least
	key   []byte                  // scratch of keyOf
}

// node is a full block that follows those of its ancestors.
type node struct {
	parent     *node
	key        string // its tokens
	children   map[string]*node
	block      int32
	next, prev *node
}

func newTree(block int, pool *blockPool) *tree {
	t := &tree{block: block, pool: pool, roots: map[*model.Served]*node{}}
	t.lru.next, t.lru.prev = &t.lru, &t.lru
	return t
}

// find returns the longest table of at most so many blocks that hold a prefix of the tokens. The caller owns a reference
// to each.
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

// insert adds the full blocks of a table that holds those tokens. Where it has a block of the same tokens, it keeps that.
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

// keyOf is block i of the tokens as a key, valid until the next call.
func (t *tree) keyOf(tokens []int32, i int) []byte {
	t.key = t.key[:0]
	for _, token := range tokens[i*t.block : (i+1)*t.block] {
		t.key = binary.NativeEndian.AppendUint32(t.key, uint32(token))
	}
	return t.key
}

// touch makes a node and its ancestors the most recently used, ancestors more so than descendants, so that leaves are
// evicted first.
func (t *tree) touch(n *node) {
	for ; n != nil && n.parent != nil; n = n.parent {
		n.unlink()
		n.next, n.prev = t.lru.next, &t.lru
		n.next.prev, t.lru.next = n, n
	}
}

func (n *node) unlink() {
	if n.next != nil {
		n.next.prev, n.prev.next = n.prev, n.next
	}
}

// evict frees at least one block, if there is one without other references.
func (t *tree) evict() bool {
	for n := t.lru.prev; n != &t.lru; n = n.prev {
		if !t.pool.shared(n.block) {
			delete(n.parent.children, n.key)
			t.remove(n)
			return true
		}
	}
	return false
}

// remove drops a node and all below it. Sequences that use their blocks keep their own references.
func (t *tree) remove(n *node) {
	for _, child := range n.children {
		t.remove(child)
	}
	if n.parent != nil {
		n.unlink()
		t.pool.drop(n.block)
	}
}

// forget drops all blocks of an adapter.
func (t *tree) forget(a *model.Served) {
	if root := t.roots[a]; root != nil {
		t.remove(root)
		delete(t.roots, a)
	}
}
