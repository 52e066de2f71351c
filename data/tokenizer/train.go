package tokenizer

import (
	"container/heap"
	"encoding/json"
	"iter"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"

	upstream "github.com/sugarme/tokenizer"
)

// TrainOptions describe the tokenizer to train.
type TrainOptions struct {
	VocabSize int       // counts all tokens, special ones included; at least 256 plus len(Special)
	Special   []Special // added after the ordinary tokens, in this order; their IDs are ignored
	EOS       string    // the special token that ends a text, or ""
	Pad       string    // the special token with which other programs pad a batch, or ""
	// ChatTemplate is written to tokenizer_config.json for programs that render Jinja.
	ChatTemplate string
}

// minCount is the number of occurrences that a pair needs to be merged: a single one may be chance.
const minCount = 2

// Train learns a byte-level BPE tokenizer with Qwen's normalizer and split pattern. The same texts and
// options give the same tokenizer, in whatever order the texts come.
func Train(corpus iter.Seq[string], o TrainOptions) (*Trained, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	tr := newTrainer(corpus)
	for _, s := range o.Special {
		tr.known[s.Content] = true
	}
	for tr.size() < o.VocabSize-len(o.Special) {
		if !tr.mergeNext() {
			return nil, badinput.Errorf(
				"the corpus is enough for a vocabulary of %d tokens, not of %d; give more text, or ask for fewer tokens",
				tr.size()+len(o.Special), o.VocabSize)
		}
	}
	return tr.result(o), nil
}

func (o *TrainOptions) check() error {
	if least := 256 + len(o.Special); o.VocabSize < least || o.VocabSize > maxIDs {
		return badinput.Errorf("vocabulary size: found %d, expected %d (the bytes and the special tokens) to %d",
			o.VocabSize, least, maxIDs)
	}
	seen := map[string]bool{}
	for _, s := range o.Special {
		if text, _ := fromAlphabet(nil, s.Content); len(text) == 1 || s.Content == "" || seen[s.Content] {
			return badinput.Errorf("special token %q: expected a text of its own, of two characters or more", s.Content)
		}
		seen[s.Content] = true
	}
	for _, name := range []string{o.EOS, o.Pad} {
		if name != "" && !seen[name] {
			return badinput.Errorf("end or padding token %q is not one of the special tokens", name)
		}
	}
	return nil
}

// trainer holds each distinct piece of the corpus as a list of tokens, the merges so far applied, and the
// count of every adjacent pair. A merge visits only the pieces that contain the pair.
type trainer struct {
	texts  []string        // the bytes of each token
	known  map[string]bool // the texts of the merged and the special tokens
	merges [][2]string     // the merges so far
	words  []word          // the distinct pieces
	stats  map[uint64]*pairStat
	queue  pairQueue
}

type word struct {
	symbols []int32
	count   int
}

type pairStat struct {
	count int
	words []int32 // includes all words with the pair; some may have lost it by a merge, and some are listed twice
}

func newTrainer(corpus iter.Seq[string]) *trainer {
	counts := map[string]int{}
	split, _ := newSplitter(qwenPattern)
	for text := range corpus {
		split(nfc(ValidText(text)), func(piece string) { counts[piece]++ })
	}
	tr := &trainer{known: map[string]bool{}, merges: [][2]string{}, stats: map[uint64]*pairStat{}}
	byteID := tr.alphabet()
	for piece, count := range counts {
		w := word{count: count}
		for i := range len(piece) {
			w.symbols = append(w.symbols, byteID[piece[i]])
		}
		tr.words = append(tr.words, w)
		for i := range len(w.symbols) - 1 {
			tr.count(w.symbols[i], w.symbols[i+1], len(tr.words)-1, count)
		}
	}
	for key, s := range tr.stats {
		tr.queue = append(tr.queue, queued{key, s.count})
	}
	heap.Init(&tr.queue)
	return tr
}

// alphabet assigns the first 256 ids to the bytes, in the order of the characters that stand for them.
func (tr *trainer) alphabet() (byteID [256]int32) {
	order := make([]byte, 256)
	for i := range order {
		order[i] = byte(i)
	}
	slices.SortFunc(order, func(a, b byte) int { return int([]rune(charOf[a])[0]) - int([]rune(charOf[b])[0]) })
	for id, b := range order {
		byteID[b] = int32(id)
		tr.texts = append(tr.texts, string([]byte{b}))
	}
	return byteID
}

func (tr *trainer) size() int { return len(tr.texts) }

// count changes the count of a pair by delta, which is negative if a word loses the pair.
func (tr *trainer) count(left, right int32, word, delta int) {
	key := pairKey(left, right)
	s := tr.stats[key]
	if s == nil {
		s = &pairStat{}
		tr.stats[key] = s
	}
	s.count += delta
	if delta > 0 && (len(s.words) == 0 || s.words[len(s.words)-1] != int32(word)) {
		s.words = append(s.words, int32(word))
	}
}

// mergeNext merges the most frequent pair into a new token; among equally frequent pairs, that with the
// lowest ids. It reports false if no pair occurs minCount times. A pair whose text is a token already,
// from another merge or as a special token, is not merged.
func (tr *trainer) mergeNext() bool {
	for len(tr.queue) > 0 {
		top := heap.Pop(&tr.queue).(queued)
		left, right := int32(top.key>>32), int32(uint32(top.key))
		s := tr.stats[top.key]
		switch {
		case s.count < minCount || tr.known[tr.texts[left]+tr.texts[right]]:
		case s.count < top.count: // other merges have lowered the count since it was queued
			heap.Push(&tr.queue, queued{top.key, s.count})
		default:
			tr.merge(left, right, s)
			return true
		}
	}
	return false
}

func (tr *trainer) merge(left, right int32, s *pairStat) {
	made := int32(len(tr.texts))
	text := tr.texts[left] + tr.texts[right]
	tr.texts, tr.known[text] = append(tr.texts, text), true
	tr.merges = append(tr.merges, [2]string{toAlphabet(tr.texts[left]), toAlphabet(tr.texts[right])})
	newPairs := map[uint64]bool{} // that contain the new token
	for _, i := range s.words {
		tr.mergeWord(int(i), left, right, made, newPairs)
	}
	delete(tr.stats, pairKey(left, right))
	for key := range newPairs {
		if s := tr.stats[key]; s.count >= minCount {
			heap.Push(&tr.queue, queued{key, s.count})
		}
	}
}

// mergeWord replaces the pair in one word and updates the counts of the adjacent pairs.
func (tr *trainer) mergeWord(i int, left, right, made int32, newPairs map[uint64]bool) {
	w := &tr.words[i]
	in, out := w.symbols, w.symbols[:0]
	for k := 0; k < len(in); k++ {
		if k+1 == len(in) || in[k] != left || in[k+1] != right {
			out = append(out, in[k])
			continue
		}
		if len(out) > 0 {
			before := out[len(out)-1]
			tr.count(before, left, i, -w.count)
			tr.count(before, made, i, w.count)
			newPairs[pairKey(before, made)] = true
		}
		if k+2 < len(in) {
			tr.count(right, in[k+2], i, -w.count)
			tr.count(made, in[k+2], i, w.count)
			newPairs[pairKey(made, in[k+2])] = true
		}
		out = append(out, made)
		k++
	}
	w.symbols = out
}

// queued is a pair with its count at the time it was queued, after the merge that made its newer token.
// Later merges only lower the count.
type queued struct {
	key   uint64
	count int
}

type pairQueue []queued

func (q pairQueue) Len() int { return len(q) }
func (q pairQueue) Less(i, j int) bool {
	if q[i].count != q[j].count {
		return q[i].count > q[j].count
	}
	return q[i].key < q[j].key
}
func (q pairQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *pairQueue) Push(x any)   { *q = append(*q, x.(queued)) }
func (q *pairQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// result makes a tokenizer.json with the normalizer, pre-tokenizer and decoder of Qwen.
func (tr *trainer) result(o TrainOptions) *Trained {
	no := false
	byteLevel := part{Type: "ByteLevel", AddPrefixSpace: &no, TrimOffsets: &no, UseRegex: &no}
	m := &model{Type: "BPE", Merges: tr.merges}
	for id, text := range tr.texts {
		m.Vocab = append(m.Vocab, entry{toAlphabet(text), id})
	}
	f := &file{
		Version:    "1.0",
		Normalizer: &part{Type: "NFC"},
		PreTokenizer: &part{Type: "Sequence", PreTokenizers: []part{
			{Type: "Split", Pattern: &pattern{Regex: qwenPattern}, Behavior: "Isolated", Invert: &no},
			byteLevel,
		}},
		PostProcessor: json.RawMessage(`null`),
		Decoder:       &byteLevel,
		Model:         m,
	}
	for i, s := range o.Special {
		f.AddedTokens = append(f.AddedTokens, upstream.TokenConfig{
			Id: int64(len(tr.texts) + i), Content: s.Content, Special: s.Control,
		})
	}
	return &Trained{file: f, options: o}
}
