package model

// Batch is several sequences packed into rows, one after the other. With shared prefixes, rows that several of them begin
// with are there once: the rows are those of a trie.
type Batch struct {
	Tokens, Positions []int32 // [T]
	// Starts and Parents are spans of rows that go on from one another, as kernels.Spans has them. Parents is empty where
	// every sequence has rows of its own.
	Starts, Parents []int32

	// Targets are what rows are asked for: that of each row, −1 where nobody asks, and then those of rows that are asked
	// for another target, too. Each is a pair of a row and a target.
	Targets []int32 // [pairs]
	// Again are the rows of the pairs beyond the rows, and then the pairs of the tokens beyond the pairs.
	Again []int32 // [tokens − T]

	// What a loss needs of each token that is learned from: of the first that is of a pair in the place of the pair, zero
	// where there is none, and then of further ones that are of the same pair.
	OldLogProbs, Advantages []float32 // [tokens]
	Weights                 []float32 // [tokens]

	// Sequences are the places of the packed sequences in the list that was packed. Sequence k has Places
	// [Offsets[k], Offsets[k+1]): of each of its rows the place of its token, −1 where nothing is learned; where nobody
	// learns, the pair that it is asked for, −1 where it is not asked.
	Sequences       []int
	Offsets, Places []int32

	path   []int32 // the rows of the sequence that was added last
	before []int32 // of each row: that of the position before, or −1
	forked []bool  // of each row: whether another one than the next goes on from it
	chain  []int32 // of each pair: the next pair of its row, or −1
	spanOf []int32 // of each row
	taken  []bool  // of each pair: whether a token has its place
}

// Rows is T.
func (b *Batch) Rows() int { return len(b.Tokens) }

// Shared is how many rows more the sequences would have without each other.
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

// add gives sequence i rows, but for the first of them, which are those of the sequence before it. Its places are its rows, for now.
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

// spans cuts the rows where they do not go on from the one before, or another one does, too.
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

// ask finds the pair of a row and a target, or makes it.
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

// nothingAsked gives every row its place among the pairs.
func (b *Batch) nothingAsked() {
	for range b.Tokens {
		b.Targets, b.chain = append(b.Targets, -1), append(b.chain, -1)
	}
}

// score asks for the target of every row of the sequences, or of those that a mask sets where there is one.
func (b *Batch) score(asked []Datum) {
	b.spans()
	b.nothingAsked()
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

// teach asks for what the datums learn from, in a step of so many tokens.
func (b *Batch) teach(datums []Datum, r Reduction, tokens int) {
	b.spans()
	b.nothingAsked()
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
