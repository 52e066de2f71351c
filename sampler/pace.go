package sampler

import "time"

// pace bounds the rows of prompts in the iterations that draw too, so that those who are drawn wait no longer for a token
// than is meant; but prompts may take as long as drawing does.
type pace struct {
	goal  time.Duration // of such an iteration; 0: there is no bound
	most  int           // rows, whatever is measured
	rows  int           // that prompts have now
	plain time.Duration // of an iteration that only draws, smoothed
}

// fewestRows is how many a prompt has in any case.
const fewestRows = 16

func newPace(goal time.Duration, most int) pace {
	p := pace{goal: goal, most: most, rows: most}
	if goal > 0 {
		p.rows = min(most, 4*fewestRows) // until more is known
	}
	return p
}

// saw learns from an iteration that drew, with so many rows of prompts.
func (p *pace) saw(prompts int, took time.Duration) {
	if p.goal == 0 {
		return
	}
	if prompts == 0 {
		p.plain += (took - p.plain) / 4
		return
	}
	goal := max(p.goal, 2*p.plain)
	switch {
	case took > goal:
		p.rows = max(p.rows/2, int(int64(p.rows)*int64(goal)/int64(took)), fewestRows)
	case prompts >= p.rows && took < goal*3/4:
		p.rows += p.rows / 4
	}
	p.rows = min(p.rows, p.most)
}
