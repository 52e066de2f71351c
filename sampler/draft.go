package sampler

import (
	"slices"
	"time"
)

// Tokens of a sequence that may come next are drafted by what was said lately (corpus), and computed behind its last one in the
// same iteration, with a draw after each. The first draw is what it would be without. As long as a draw gives what was drafted, the
// row after it is that of the sequence, and so is its draw; from the first that does not on, what was computed is passed over.
// As a row stands alone and a token is drawn with the number of its place, drafts change how many iterations there are, and nothing
// that is drawn.
//
// A token is drafted where its chance is more than the price of its row: how many tokens are drawn, as things go, in the time that
// a row takes. Where that is next to nothing, as weights are read as fast as memory is and a row more makes no difference, every
// draft is worth its row; where rows are all that takes time, none is.

const (
	mostDrafted = 16 // tokens behind one draw
	learnedWith = 32 // tokens that a sequence grows by before what it said is looked at
	plainEvery  = 32 // iterations, in one of which nothing is drafted, so that what rows cost is seen

	guessed      = 0.6       // the chance of a draft of which nothing is known
	guessedPrice = 0.4       // of a row, while nothing is known of it
	caution      = 1.2       // how much more than its price a row must bring, as a wrong guess costs more than a right one saves
	hoped        = 1.25      // times the price, or what is guessed: where a chance that is too small goes
	forgotten    = 1.0 / 512 // how much nearer it comes to that, each time that it is
)

// drafts knows what drafts are worth.
type drafts struct {
	corpus
	off     bool // nothing is drafted
	eager   bool // all is drafted that can be, in a test
	here    bool // in this iteration
	growing bool // some wait to begin, so that blocks are theirs

	price   float64                 // of a row now
	chances [longestGram + 1]chance // that what is drafted after so many tokens that match comes
	costs   costs
	context []int32
}

// newDrafts has room for what four times as many sequences say as run at a time.
func newDrafts(o Options) drafts {
	d := drafts{corpus: corpusOf(o), off: o.NoDrafts}
	for i := range d.chances {
		d.chances[i].is = guessed
	}
	return d
}

func corpusOf(o Options) corpus { return newCorpus(4 * o.MaxSequences * o.MaxLength) }

// DraftBytes is what a sampler keeps of texts beside the cache, to draft by.
func (p Plan) DraftBytes() int {
	if p.NoDrafts {
		return 0
	}
	all := corpusOf(p.Options)
	return all.bytes()
}

// worth is how many of the drafted tokens are worth their rows.
func (d *drafts) worth(matches []uint8) int {
	all := 1.0
	for i, n := range matches {
		c := &d.chances[n]
		if all *= c.is; all <= d.price && !d.eager {
			if i == 0 { // or it would never be tried again
				c.is += (min(max(guessed, hoped*d.price), 1) - c.is) * forgotten
			}
			return i
		}
	}
	return len(matches)
}

// plain reports whether the next iteration is to show what one without drafts takes.
func (d *drafts) plain() bool { return d.costs.seen%plainEvery == plainEvery-1 }

// chance is how often something came lately.
type chance struct {
	is   float64
	seen int
}

// saw learns from what came, or did not.
func (c *chance) saw(came bool) {
	goal := 0.0
	if came {
		goal = 1
	}
	c.is += (goal - c.is) * max(recent, 1/float64(c.seen+3))
	c.seen++
}

// recent is the weight of what was seen last.
const recent = 1.0 / 32

// prepare decides whether anything is drafted in the next iteration: not while prompts are to be computed, or others again, which fill
// it.
func (s *scheduler) prepare() {
	d := &s.drafts
	waiting := len(s.sequences) - s.running - s.parked
	again := slices.ContainsFunc(s.sequences, func(q *sequence) bool { return q.state == running && q.length()-q.computed > 1 })
	d.growing = waiting > 0
	d.here = !d.off && !again && (waiting == 0 || s.running == s.MaxSequences || s.short) && (d.eager || !d.plain())
	d.price = caution * d.costs.price()
}

// draft adds rows of what may come after a sequence's last token, whose row and draw were added last.
func (s *scheduler) draft(q *sequence) {
	d := &s.drafts
	q.drafted, q.matches, q.fit = q.drafted[:0], q.matches[:0], 0
	if d.off {
		return
	}
	s.learn(q, learnedWith)
	room := min(mostDrafted, q.limit-len(q.tokens)-1, s.budget()-s.behind, s.drawsLeft(), s.roomBehind(q))
	if !d.here || room <= 0 || q.constraint != nil {
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

// roomBehind is how many positions behind a sequence's last token may be written: of its own blocks, and of those that are free, or
// only remembered, and that nobody else will want in this iteration.
func (s *scheduler) roomBehind(q *sequence) int {
	room := len(q.table)*s.Block - q.length()
	if free := s.blocks.unused() - s.behind; free > 0 && !s.drafts.growing {
		room += free * s.Block
	}
	return room
}

// judge sees whether the token that a sequence was given last is what was drafted: if so, the next draw is its own, too.
func (s *scheduler) judge(q *sequence, token int32) {
	if q.fit < len(q.drafted) {
		came := q.drafted[q.fit] == token
		s.drafts.chances[q.matches[q.fit]].saw(came)
		if came && q.state == running {
			s.count(&q.reached, q.computed, 1)
			q.computed++
			q.fit++
			s.Accepted++
			return
		}
	}
	q.fit = passedOver
	if n := s.blocksFor(q.length()); n < len(q.table) {
		s.blocks.release(q.table[n:])
		q.table = q.table[:n]
	}
}

// passedOver is no draft's number: what else was drawn for the sequence is not its own.
const passedOver = -1

// Learn lets a text be drafted from, such as what another engine drew.
func (e *Engine) Learn(text []int32) {
	if !e.drafts.off {
		e.drafts.add(saltOf(""), text, 0)
	}
}

// learn lets what a sequence said be drafted from, where it has grown by so many tokens since.
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

// saltOf keeps what one who asks has said from the drafts of others, who could tell by the time that theirs take.
func saltOf(from string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(from) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// costs is a line through the times of the last iterations that drew and computed no prompts, over their rows, and how many tokens
// they drew. What is longer ago counts less.
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
	y = min(y, 2*c.time*max(1, x/c.rows)) // or something else had the machine
	weight := max(recent, 1/float64(c.seen))
	dx, dy := x-c.rows, y-c.time
	c.rows += weight * dx
	c.time += weight * dy
	c.tokens += weight * (float64(tokens) - c.tokens)
	c.variance = (1 - weight) * (c.variance + weight*dx*dx)
	c.product = (1 - weight) * (c.product + weight*dx*dy)
}

// price is how many tokens are drawn in the time that a row takes. What is guessed of it counts as much as rows that change by a
// sixteenth: noise alone says nothing where they hardly do.
func (c *costs) price() float64 {
	if c.seen == 0 || c.time == 0 {
		return guessedPrice
	}
	rate, guess := c.tokens/c.time, c.rows*c.rows/256
	return (max(c.product, 0)*rate + guess*guessedPrice) / (c.variance + guess)
}
