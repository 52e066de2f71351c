package sampler

import "time"

// pace bounds the rows of prefill in iterations that also decode. Such an iteration should take twice the time of one that only
// decodes, or goal if that is longer: so decoding keeps at least half of its speed, and prefill gets half of the time, and takes
// about twice as long as it would alone.
//
// The time of decoding depends on how many sequences there are, and on their lengths. It is measured whenever there is no prefill;
// while prefill takes all rows that it may, in every eighth iteration, which gets no prefill for this; and at once if the number of
// draws has doubled or halved since.
type pace struct {
	goal      time.Duration // 0: no bound
	most      int           // the upper bound of rows
	rows      int           // rows that prefill may have now
	decode    time.Duration // time of an iteration that only decodes, smoothed
	draws     int           // draws when decode was measured last; 0: never
	perRow    time.Duration // time of a row of prefill, smoothed; 0: unknown
	saturated int           // iterations since decode was measured in which prefill had all the rows that it might
}

const (
	fewestRows = 16 // rows that prefill always may have
	between    = 8  // iterations between two measurements of decode, while prefill has all the rows that it may
)

func newPace(goal time.Duration, most int) pace {
	p := pace{goal: goal, most: most, rows: most}
	if goal > 0 {
		p.rows = min(most, 4*fewestRows) // until more is known
	}
	return p
}

// allowed is the number of rows that prefill may have in an iteration with so many draws.
func (p *pace) allowed(draws int) int {
	if p.saturated > 0 && (p.saturated >= between-1 || !p.comparable(draws)) {
		p.saturated = 0
		return 0 // this one is measured
	}
	return p.rows
}

// comparable reports whether decode was measured with a similar number of draws.
func (p *pace) comparable(draws int) bool { return draws < 2*p.draws && p.draws < 2*draws }

// saw updates the estimates with the time of an iteration that had so many draws and rows of prefill.
func (p *pace) saw(draws, prompts int, took time.Duration) {
	switch {
	case p.goal == 0 || draws+prompts == 0:
		return
	case prompts == 0 && p.comparable(draws):
		p.decode += (took - p.decode) / 4
		p.draws, p.saturated = draws, 0
	case prompts == 0:
		p.decode, p.draws, p.saturated = took, draws, 0
	case draws == 0:
		p.learn(took / time.Duration(prompts))
	case p.comparable(draws):
		p.learn(max(took-p.decode, 0) / time.Duration(prompts))
	}
	if draws > 0 && prompts >= p.rows {
		p.saturated++
	}
	if p.perRow > 0 {
		room := max(p.goal, 2*p.decode) - p.decode
		p.rows = max(fewestRows, min(int(room/p.perRow), 2*p.rows)) // do not extrapolate further than to twice as many
	}
	p.rows = min(p.rows, p.most)
}

// learn updates the time of a row of prefill.
func (p *pace) learn(each time.Duration) {
	if p.perRow == 0 {
		p.perRow = max(each, 1)
	}
	p.perRow = max(p.perRow+(each-p.perRow)/4, 1)
}
