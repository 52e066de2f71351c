package model

// Batch is several sequences packed into rows, one after the other. With shared prefixes a row can belong to several
// sequences, and the rows are the nodes of a trie. Then a row can have several targets: the log-probability of each
// (row, target) pair is computed once. And several tokens, of sequences that are equal so far, can be the same pair.
type Batch struct {
	Tokens, Positions []int32 // [T]
	// Starts and Parents are the spans of rows, see kernels.Spans. Parents is empty if no rows are shared.
	Starts, Parents []int32

	// Targets has a target for each pair: pair i < T is row i's first target, −1 if it has none; further targets of rows
	// follow.
	Targets []int32 // [pairs]
	// Again has the row of each pair from T on, and then the pair of each token from the number of pairs on.
	Again []int32 // [tokens − T]

	// What the loss needs for each token that is trained on. The first token of a pair has the index of the pair (zeros if
	// the pair has none), further tokens of the same pair follow.
	OldLogProbs, Advantages []float32 // [tokens]
	Weights                 []float32 // [tokens]

	// Sequences are the indices of the packed sequences in the list that was packed. For sequence k,
	// Places[Offsets[k]:Offsets[k+1]] has for each row the index of its token in a batch to train on, or of its pair in a
	// batch to score; −1 for a masked row.
	Sequences       []int
	Offsets, Places []int32

	path   []int32 // the rows of the sequence that was added last
	before []int32 // for each row: the row of the position before, or −1
	forked []bool  // for each row: whether a row other than the next one continues it
	chain  []int32 // for each pair: the next pair of its row, or −1
	spanOf []int32 // for each row: its span
	taken  []bool  // for each pair: whether it has its first token
}

// Rows is T.
func (b *Batch) Rows() int { return len(b.Tokens) }

// Shared is the number of rows that sharing prefixes has saved.
func (b *Batch) Shared() int { return len(b.Places) - len(b.Tokens) }

// reset empties a batch and keeps its memory.
func (b *Batch) reset() {
	b.Tokens, b.Positions, b.Targets, b.Again = b.Tokens[:0], b.Positions[:0], b.Targets[:0], b.Again[:0]
	b.OldLogProbs, b.Advantages, b.Weights = b.OldLogProbs[:0], b.Advantages[:0], b.Weights[:0]
	b.Starts, b.Parents, b.Sequences = b.Starts[:0], b.Parents[:0], b.Sequences[:0]
	b.Offsets, b.Places = append(b.Offsets[:0], 0), b.Places[:0]
	b.path, b.before, b.forked = b.path[:0], b.before[:0], b.forked[:0]
	b.chain, b.spanOf, b.taken = b.chain[:0], b.spanOf[:0], b.taken[:0]
}

// add appends the rows of sequence i, whose first `shared` rows are those of the sequence before it. Places has rows, for now.
func (b *Batch) add(i int, tokens []int32, shared int) {
	b.path = b.path[:shared]
	for p, token := range tokens[shared:] {
		row, before := int32(len(b.Tokens)), int32(-1)
		if n := len(b.path); n > 0 {
			before = b.path[n-1]
		}
		if before >= 0 && before != row-1 {
			b.forked[before] = true
		}
		b.Tokens, b.Positions = append(b.Tokens, token), append(b.Positions, int32(shared+p))
		b.before, b.forked, b.path = append(b.before, before), append(b.forked, false), append(b.path, row)
	}
	b.Places = append(b.Places, b.path...)
	b.Offsets, b.Sequences = append(b.Offsets, int32(len(b.Places))), append(b.Sequences, i)
}

// spans starts a new span at each row that does not continue the row before it, or that is not the only one to continue it.
func (b *Batch) spans() {
	shared := false
	for row, before := range b.before {
		if row == 0 || before != int32(row)-1 || b.forked[row-1] {
			parent := int32(-1)
			if before >= 0 {
				parent, shared = b.spanOf[before], true
			}
			b.Starts, b.Parents = append(b.Starts, int32(row)), append(b.Parents, parent)
		}
		b.spanOf = append(b.spanOf, int32(len(b.Starts)-1))
	}
	b.Starts = append(b.Starts, int32(len(b.Tokens)))
	if !shared {
		b.Parents = b.Parents[:0]
	}
}

// ask returns the pair of a row and a target, and adds it if it is new.
func (b *Batch) ask(row, target int32) int32 {
	if b.Targets[row] < 0 {
		b.Targets[row] = target
		return row
	}
	pair := row
	for b.Targets[pair] != target {
		if b.chain[pair] < 0 {
			b.chain[pair] = int32(len(b.Targets))
			b.Targets, b.chain, b.Again = append(b.Targets, target), append(b.chain, -1), append(b.Again, row)
		}
		pair = b.chain[pair]
	}
	return pair
}

// addRowPairs gives every row a pair without a target.
func (b *Batch) addRowPairs() {
	for range b.Tokens {
		b.Targets, b.chain = append(b.Targets, -1), append(b.chain, -1)
	}
}

// score makes it a batch to score: it asks for the target of every row, or of the rows in the mask if there is one.
func (b *Batch) score(asked []Datum) {
	b.spans()
	b.addRowPairs()
	for k, i := range b.Sequences {
		places := b.Places[b.Offsets[k]:b.Offsets[k+1]]
		for p, row := range places {
			places[p] = -1
			if asked[i].Mask == nil || asked[i].Mask[p] {
				places[p] = b.ask(row, asked[i].Targets[p])
			}
		}
	}
}

// teach makes it a batch to train on, in a step of so many unmasked tokens.
func (b *Batch) teach(datums []Datum, r Reduction, tokens int) {
	b.spans()
	b.addRowPairs()
	for k, i := range b.Sequences {
		places := b.Places[b.Offsets[k]:b.Offsets[k+1]]
		for p, row := range places {
			places[p] = -1
			if datums[i].Mask[p] {
				places[p] = b.ask(row, datums[i].Targets[p])
			}
		}
	}
	pairs := int32(len(b.Targets))
	for range pairs {
		b.learn(0, 0, 0)
		b.taken = append(b.taken, false)
	}
	for k, i := range b.Sequences {
		d := &datums[i]
		w := r.Weight(d.Trainable(), len(datums), tokens)
		places := b.Places[b.Offsets[k]:b.Offsets[k+1]]
		for p, pair := range places {
			switch {
			case pair < 0:
			case b.taken[pair]:
				places[p], b.Again = int32(len(b.Weights)), append(b.Again, pair)
				b.learn(d.OldLogProbs[p], d.Advantages[p], w)
			default:
				b.taken[pair] = true
				b.OldLogProbs[pair], b.Advantages[pair], b.Weights[pair] = d.OldLogProbs[p], d.Advantages[p], w
			}
		}
	}
}

func (b *Batch) learn(old, advantage, weight float32) {
	b.OldLogProbs = append(b.OldLogProbs, old)
	b.Advantages = append(b.Advantages, advantage)
	b.Weights = append(b.Weights, weight)
}
