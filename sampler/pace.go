package sampler

import "time"

// pace bounds the rows of prompts in the iterations that draw too. Such an iteration is meant to take twice what drawing alone
// takes, or goal where that is longer: those who are drawn go on at half of their speed at the least, and prompts have half of
// the time, so that one takes about twice as long as it would alone.
//
// What drawing takes hangs on how many are drawn, and on how much they have said. It is measured whenever no prompt is there, and
// while prompts take all that they may have, in every eighth iteration, which has none of their rows; at once where twice as many
// are drawn as when it was measured, or half.
type pace struct {
	goal  time.Duration // 0: there is no bound
	most  int           // rows, whatever is measured
	rows  int           // that prompts have now
	plain time.Duration // of an iteration that only draws, smoothed
	draws int           // when that was measured last; 0: it was not
	each  time.Duration // of a row of a prompt, smoothed; 0: it is not known
	full  int           // iterations since, in which prompts had all that they might
}

const (
	fewestRows = 16 // that a prompt has in any case
	between    = 8  // iterations from one that is measured to the next, while prompts have all that they may
)

func newPace(goal time.Duration, most int) pace {
	p := pace{goal: goal, most: most, rows: most}
	if goal > 0 {
		p.rows = min(most, 4*fewestRows) // until more is known
	}
	return p
}

// allowed is how many rows prompts may have in an iteration that draws for so many.
func (p *pace) allowed(draws int) int {
	if p.full > 0 && (p.full >= between-1 || !p.like(draws)) {
		p.full = 0
		return 0 // this one is measured
	}
	return p.rows
}

// like reports whether what was measured holds for so many draws.
func (p *pace) like(draws int) bool { return draws < 2*p.draws && p.draws < 2*draws }

// saw learns from an iteration with so many draws and rows of prompts.
func (p *pace) saw(draws, prompts int, took time.Duration) {
	switch {
	case p.goal == 0 || draws+prompts == 0:
		return
	case prompts == 0 && p.like(draws):
		p.plain += (took - p.plain) / 4
		p.draws, p.full = draws, 0
	case prompts == 0:
		p.plain, p.draws, p.full = took, draws, 0
	case draws == 0:
		p.learn(took / time.Duration(prompts))
	case p.like(draws):
		p.learn(max(took-p.plain, 0) / time.Duration(prompts))
	}
	if draws > 0 && prompts >= p.rows {
		p.full++
	}
	if p.each > 0 {
		room := max(p.goal, 2*p.plain) - p.plain
		p.rows = max(fewestRows, min(int(room/p.each), 2*p.rows)) // beyond twice as many a row may cost something else
	}
	p.rows = min(p.rows, p.most)
}

// learn takes in what a row of a prompt took.
func (p *pace) learn(each time.Duration) {
	if p.each == 0 {
		p.each = max(each, 1)
	}
	p.each = max(p.each+(each-p.each)/4, 1)
}
