package sampler

import (
	"slices"
	"time"
)

// Speculative decoding: the next tokens of a sequence are drafted from recent text (corpus) and computed behind its last token in the
// same iteration, with a draw after each. The first draw is the one that would be made without drafts. As long as a draw equals the
// draft, the row after it is correct, and so is its draw; after the first mismatch the rest is discarded. There is no rule of acceptance
// by chance: rows are independent of each other, and the random number of a draw depends on its position, so that drafts change the
// number of iterations, and no token.
//
// A token is drafted if the probability that it is accepted is above the price of its row: the number of tokens that are otherwise drawn
// in the time that the row adds to an iteration. Where decoding is bound by reading weights, a row is nearly free, and every draft pays;
// where it is bound by arithmetic, none does.

const (
	mostDrafted = 16 // drafts behind one draw
	learnEvery  = 32 // tokens by which a sequence grows before they are added to the corpus
	plainEvery  = 32 // one of so many iterations has no drafts, so that the cost of rows can be measured

	priorRate  = 0.6       // rate of acceptance before any is known
	priorPrice = 0.4       // price of a row before any is known
	caution    = 1.2       // factor on the price, as a rejected draft costs more than an accepted one saves
	drift      = 1.25      // factor on the price: a rate that is too low to be tried drifts up to this, or to priorRate
	driftShare = 1.0 / 512 // share of the way that it drifts each time, so that it is tried again some day
)

// drafts has the corpus, and estimates whether drafts pay.
type drafts struct {
	corpus
	off          bool // never draft
	eager        bool // draft whatever can be, in a test
	active       bool // draft in this iteration
	blocksWanted bool // sequences wait to start, and need the free blocks

	price   float64                 // of a row now
	chances [longestGram + 1]chance // by the length of the match: the rate of acceptance
	costs   costs
	context []int32 // scratch
}

// newDrafts has a corpus for four times as many sequences as run at once.
func newDrafts(o Options) drafts {
	d := drafts{corpus: corpusOf(o), off: o.NoDrafts}
	for i := range d.chances {
		d.chances[i].rate = priorRate
	}
	return d
}

func corpusOf(o Options) corpus { return newCorpus(4 * o.MaxSequences * o.MaxLength) }

// DraftBytes is the host memory of the recent text that drafts are looked up in.
func (p Plan) DraftBytes() int {
	if p.NoDrafts {
		return 0
	}
	all := corpusOf(p.Options)
	return all.bytes()
}

// worth is the number of drafts that pay: while the probability that all up to one are accepted is above the price.
func (d *drafts) worth(matches []uint8) int {
	all := 1.0
	for i, n := range matches {
		c := &d.chances[n]
		if all *= c.rate; all <= d.price && !d.eager {
			if i == 0 { // or it would never be tried again
				c.rate += (min(max(priorRate, drift*d.price), 1) - c.rate) * driftShare
			}
			return i
		}
	}
	return len(matches)
}

// plain reports whether the next iteration should have no drafts, to measure its time.
func (d *drafts) plain() bool { return d.costs.seen%plainEvery == plainEvery-1 }

// chance is the recent rate of acceptance: a moving average, which starts as a plain one.
type chance struct {
	rate float64
	seen int
}

// saw updates the rate with a draft that was accepted (came), or not.
func (c *chance) saw(came bool) {
	goal := 0.0
	if came {
		goal = 1
	}
	c.rate += (goal - c.rate) * max(recent, 1/float64(c.seen+3))
	c.seen++
}

// recent is the weight of the newest value in moving averages.
const recent = 1.0 / 32

// prepare decides whether the next iteration has drafts: not while there is prefill or recomputation, which fills it
// anyway.
func (s *scheduler) prepare() {
	d := &s.drafts
	waiting := len(s.sequences) - s.running - s.parked
	again := slices.ContainsFunc(s.sequences, func(q *sequence) bool { return q.state == running && q.length()-q.computed > 1 })
	d.blocksWanted = waiting > 0
	d.active = !d.off && !again && (waiting == 0 || s.running == s.MaxSequences || s.lackedBlocks) && (d.eager || !d.plain())
	d.price = caution * d.costs.price()
}

// draft adds rows and draws of drafted tokens after a sequence's last token, whose row and draw were added last.
func (s *scheduler) draft(q *sequence) {
	d := &s.drafts
	q.drafted, q.matches, q.accepted = q.drafted[:0], q.matches[:0], 0
	if d.off {
		return
	}
	s.learn(q, learnEvery)
	room := min(mostDrafted, q.limit-len(q.tokens)-1, s.budget()-s.unserved, s.drawsLeft(), s.roomBehind(q))
	if !d.active || room <= 0 || q.constraint != nil {
		return
	}
	text := d.context[:0]
	for p := max(q.length()-longestGram, 0); p < q.length(); p++ {
		text = append(text, q.token(p))
	}
	n := len(text)
	text, q.matches = d.follow(q.salt, text, q.matches, room)
	d.context = text
	q.matches = q.matches[:d.worth(q.matches)]
	q.drafted = append(q.drafted, text[n:n+len(q.matches)]...)
	for len(q.table) < s.blocksFor(q.length()+len(q.drafted)) {
		s.makeRoom(1, q.group)
		q.table = append(q.table, s.blocks.take())
	}
	for i, token := range q.drafted {
		s.addRow(token, q.length()+i)
		s.addDraw(q, i+1)
	}
	s.Drafted += len(q.drafted)
}

// roomBehind is the number of positions behind a sequence's last token that drafts may use: those of its own blocks, and of blocks
// that are free or evictable and not needed by the running sequences that come after it in this iteration.
func (s *scheduler) roomBehind(q *sequence) int {
	room := len(q.table)*s.Block - q.length()
	if free := s.blocks.unused() - s.unserved; free > 0 && !s.drafts.blocksWanted {
		room += free * s.Block
	}
	return room
}

// verify compares the token that a sequence was given with the draft: if they are equal, the sequence's next draw counts, too.
func (s *scheduler) verify(q *sequence, token int32) {
	if q.accepted < len(q.drafted) {
		came := q.drafted[q.accepted] == token
		s.drafts.chances[q.matches[q.accepted]].saw(came)
		if came && q.state == running {
			s.count(&q.reached, q.computed, 1)
			q.computed++
			q.accepted++
			s.Accepted++
			return
		}
	}
	q.accepted = rejected
	if n := s.blocksFor(q.length()); n < len(q.table) {
		s.blocks.release(q.table[n:])
		q.table = q.table[:n]
	}
}

// rejected is a value of accepted that no draw has: the sequence's remaining draws of the iteration are discarded.
const rejected = -1

// Learn adds a text to draft from, such as completions of another engine.
func (e *Engine) Learn(text []int32) {
	if !e.drafts.off {
		e.drafts.add(saltOf(""), text, 0)
	}
}

// learn adds a sequence's new tokens to the corpus, once there are at least `grown` of them.
func (s *scheduler) learn(q *sequence, grown int) {
	if g := q.group; !g.learned {
		g.learned = true
		g.salt = saltOf(g.request.From)
		s.drafts.add(g.salt, g.request.Prompt, 0)
	}
	from := max(q.learned, len(q.request.Prompt))
	if q.length() < from+grown {
		return
	}
	text := s.drafts.context[:0]
	first := max(from-longestGram, 0)
	for p := first; p < q.length(); p++ {
		text = append(text, q.token(p))
	}
	s.drafts.add(q.salt, text, from-first)
	s.drafts.context, q.learned = text, q.length()
}

// saltOf separates clients: the time that accepted drafts save would tell one client what another one's text contains.
func saltOf(from string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(from) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// costs is a linear regression of the time of an iteration on its number of rows, over recent iterations without prefill, and the
// average number of tokens they drew. Older iterations weigh less.
type costs struct {
	seen               int
	rows, time, tokens float64 // means
	variance, product  float64 // of the rows, and of rows and time
}

func (c *costs) saw(rows, tokens int, took time.Duration) {
	x, y := float64(rows), took.Seconds()
	if c.seen++; c.seen == 1 {
		c.rows, c.time, c.tokens = x, y, float64(tokens)
		return
	}
	y = min(y, 2*c.time*max(1, x/c.rows)) // an outlier: something else had the machine
	weight := max(recent, 1/float64(c.seen))
	dx, dy := x-c.rows, y-c.time
	c.rows += weight * dx
	c.time += weight * dy
	c.tokens += weight * (float64(tokens) - c.tokens)
	c.variance = (1 - weight) * (c.variance + weight*dx*dx)
	c.product = (1 - weight) * (c.product + weight*dx*dy)
}

// price is the number of tokens that are drawn in the time that a row adds. The guess is a prior with the weight of rows that vary by a
// sixteenth: where the number of rows hardly varies, the slope is mostly noise.
func (c *costs) price() float64 {
	if c.seen == 0 || c.time == 0 {
		return priorPrice
	}
	rate, guess := c.tokens/c.time, c.rows*c.rows/256
	return (max(c.product, 0)*rate + guess*priorPrice) / (c.variance + guess)
}
