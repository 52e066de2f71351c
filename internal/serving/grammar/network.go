package grammar

import (
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/grammar/automata"
)

// node is a node of the network. It has edges, or a leaf whose text leads to the node then.
type node struct {
	edges []edge
	leaf  *leaf
	then  int32 // the node after the leaf
	final bool  // the subnetwork may return here
	tail  bool  // nothing but a return follows
	// height is the least nesting of calls on any way from here to the end of the subnetwork.
	height int32
}

type edge struct {
	kind   edgeKind
	lo, hi byte
	to     int32 // the next node; for a call, the subnetwork
	then   int32 // for a call: the node after it
	token  int32
}

type edgeKind uint8

const (
	bytesEdge edgeKind = iota
	freeEdge           // reads nothing
	callEdge
	tokenEdge // an added token
	saidEdge  // any added token that a model may say, except those with an edge of their own
)

// mostNodes limits a network, to some 30 MB. The largest schemas that OpenAI accepts need a tenth of it.
const mostNodes = 120_000

// mostHeight limits the nesting that every document of a grammar needs.
const mostHeight = 400

// builder builds a network. The first error is kept until the end.
type builder struct {
	voc    *Vocabulary
	nodes  []node
	leafs  map[leaf]int32 // subnetworks that are one leaf
	named  map[string]int32
	autos  map[string]*automata.Automaton // cached by what they accept
	budget automata.Budget                // for those
	err    error
}

func newBuilder(v *Vocabulary) *builder {
	return &builder{
		voc: v, leafs: map[leaf]int32{}, named: map[string]int32{}, autos: map[string]*automata.Automaton{}, budget: automata.InitialBudget,
	}
}

func (b *builder) node() int32 {
	if b.err != nil {
		return 0
	}
	if len(b.nodes) >= mostNodes {
		b.fail(badinput.Errorf("needs a grammar of more than %d states; allow fewer items, or split it", mostNodes))
		return 0
	}
	b.nodes = append(b.nodes, node{})
	return int32(len(b.nodes) - 1)
}

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) edge(from int32, e edge) {
	if b.err != nil {
		return
	}
	b.nodes[from].edges = append(b.nodes[from].edges, e)
}

func (b *builder) free(from, to int32) { b.edge(from, edge{kind: freeEdge, to: to}) }
func (b *builder) call(from, what, then int32) {
	b.edge(from, edge{kind: callEdge, to: what, then: then})
}
func (b *builder) byte(from int32, c byte, to int32) {
	b.edge(from, edge{lo: c, hi: c, to: to})
}

// final adds a node at which a subnetwork may return.
func (b *builder) final() int32 {
	n := b.node()
	if b.err == nil {
		b.nodes[n].final = true
	}
	return n
}

// text adds a text after a node, and returns the node behind it.
func (b *builder) text(from int32, text string) int32 {
	for i := 0; i < len(text) && b.err == nil; i++ {
		to := b.node()
		b.byte(from, text[i], to)
		from = to
	}
	return from
}

// oneOf adds a choice of texts between two nodes, as a trie.
func (b *builder) oneOf(from int32, texts []string, to int32) {
	type letter struct {
		after int32
		byte  byte
	}
	known := map[letter]int32{}
	ends := map[int32]bool{}
	for _, text := range texts {
		here := from
		for i := 0; i < len(text) && b.err == nil; i++ {
			next, ok := known[letter{here, text[i]}]
			if !ok {
				next = b.node()
				known[letter{here, text[i]}] = next
				b.byte(here, text[i], next)
			}
			here = next
		}
		if !ends[here] {
			ends[here] = true
			b.free(here, to)
		}
	}
}

// leaf is the subnetwork of a leaf; for a string, with its opening quote.
func (b *builder) leaf(l leaf) int32 {
	if n, ok := b.leafs[l]; ok {
		return n
	}
	n := b.node()
	start := n
	if l.quoted {
		start = b.node()
		b.byte(start, '"', n)
	}
	if end := b.final(); b.err == nil {
		b.nodes[n].leaf, b.nodes[n].then = &l, end
	}
	b.leafs[l] = start
	return start
}

// finish removes dead ends, and fails if the start cannot reach an end.
func (b *builder) finish(start int32) error {
	if b.err != nil {
		return b.err
	}
	b.findHeights()
	for i := range b.nodes {
		n := &b.nodes[i]
		n.edges = slices.DeleteFunc(n.edges, func(e edge) bool { return b.rise(e) < 0 })
		n.tail = n.final && len(n.edges) == 0
	}
	switch h := b.nodes[start].height; {
	case h < 0:
		return badinput.Errorf("no value matches: limits contradict each other, or need numbers of too many digits, or a value must contain " +
			"itself")
	case h > mostHeight:
		return badinput.Errorf("every document nests %d deep, expected at most %d", h, mostHeight)
	}
	return nil
}

// findHeights computes the heights of all nodes by Dijkstra's algorithm; -1 for those that reach no end.
func (b *builder) findHeights() {
	needs := make([][]int32, len(b.nodes)) // by node: the nodes with an edge to it
	levels := [][]int32{nil}
	for i := range b.nodes {
		n := &b.nodes[i]
		n.height = -1
		switch {
		case n.final:
			levels[0] = append(levels[0], int32(i))
		case n.leaf != nil:
			needs[n.then] = append(needs[n.then], int32(i))
		}
		for _, e := range n.edges {
			needs[e.to] = append(needs[e.to], int32(i))
			if e.kind == callEdge {
				needs[e.then] = append(needs[e.then], int32(i))
			}
		}
	}
	for h := 0; h < len(levels); h++ {
		for len(levels[h]) > 0 {
			last := len(levels[h]) - 1
			n := levels[h][last]
			levels[h] = levels[h][:last]
			if b.nodes[n].height >= 0 {
				continue
			}
			b.nodes[n].height = int32(h)
			for _, m := range needs[n] {
				if b.nodes[m].height >= 0 {
					continue
				}
				least := b.least(m)
				if least < 0 {
					continue
				}
				for int(least) >= len(levels) {
					levels = append(levels, nil)
				}
				levels[least] = append(levels[least], m)
			}
		}
	}
}

// least is the height of a node, given the known heights of its successors, or -1.
func (b *builder) least(at int32) int32 {
	n := &b.nodes[at]
	least := int32(-1)
	if n.leaf != nil {
		least = b.nodes[n.then].height
	}
	for _, e := range n.edges {
		if h := b.rise(e); h >= 0 && (least < 0 || h < least) {
			least = h
		}
	}
	return least
}

func (b *builder) rise(e edge) int32 { return rise(b.nodes, e) }

// rise is the height of the way through an edge, or -1 for a dead end.
func rise(nodes []node, e edge) int32 {
	to := nodes[e.to].height
	if e.kind != callEdge || to < 0 {
		return to
	}
	if then := nodes[e.then].height; then < 0 || then > to {
		return then
	}
	return to + 1
}
