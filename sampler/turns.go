package sampler

import "slices"

// Whose turn it is, where requests come and go. A Live has MaxSequences places. Those who ask take turns for them, and so do the
// jobs of each: in line stand the first sequence of each job, then the second of each, and so on. A job of which a sequence, or
// a turn of one, has ended goes to the end of the line.
//
// A place that is free goes to the first in line who waits. Where none is free and a job has none, the last in line who has one
// gives it up, if its job has others, or somebody else asked for it: it waits, and is recomputed, which what is remembered makes
// short. The first sequence of a job has its place from when its prompt is begun.
//
// So while there are fewer jobs than places, each has one from the iteration after it came. Where there are more, and k of those
// before it in line have none, it waits for k+1 sequences to end at the most. Where memory is what is short, one sequence gives
// up its blocks in each iteration until there are enough, and nobody behind begins before: that takes no longer than until those
// that run have ended. The first in line is never preempted, and goes on until it ends, so that everything does.

// job is what requests are for that take turns as one.
type job struct {
	running int         // sequences in that state
	served  bool        // one of them ended in this iteration
	list    []*sequence // not finished, as they are in line
}

// jobOf is the job of a request: one that there is, or its own.
func (s *scheduler) jobOf(r Request) *job {
	if r.Job != "" {
		for _, g := range s.groups {
			if g.request.From == r.From && g.request.Job == r.Job {
				return g.job
			}
		}
	}
	return &job{}
}

// takeTurns puts the sequences in line, and has places given up where a request has none.
func (s *scheduler) takeTurns() {
	if s.tree == nil {
		return
	}
	if s.reorder {
		s.sequences, s.reorder = inLine(s.groups), false
	}
	s.yield()
}

// nextInLine brings the jobs of which a sequence ended to the end of the line.
func (s *scheduler) nextInLine() {
	if s.tree == nil {
		return
	}
	var served []*group
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool {
		if g.job.served {
			g.left = slices.DeleteFunc(g.left, func(q *sequence) bool { return q.state == finished })
			served = append(served, g)
		}
		return g.job.served
	})
	for _, g := range served {
		g.job.served = false
	}
	s.groups = append(s.groups, served...)
	s.reorder = true
}

// inLine gives the sequences of requests in the order of their turns, and those behind that wait for replies.
func inLine(groups []*group) []*sequence {
	for _, g := range groups {
		g.job.list = nil
	}
	var askers []string
	var jobs [][]*job // of each
	var away []*sequence
	for _, g := range groups {
		at := slices.Index(askers, g.request.From)
		if at < 0 {
			at = len(askers)
			askers, jobs = append(askers, g.request.From), append(jobs, nil)
		}
		for _, q := range g.left {
			if q.state == parked {
				away = append(away, q)
				continue
			}
			if g.job.list == nil {
				jobs[at] = append(jobs[at], g.job)
			}
			q.rank = len(g.job.list)
			g.job.list = append(g.job.list, q)
		}
	}
	lines := make([][]*sequence, len(askers))
	for i, of := range jobs {
		var lists [][]*sequence
		for _, j := range of {
			lists = append(lists, j.list)
		}
		lines[i] = deal(lists)
	}
	return append(deal(lines), away...)
}

// deal takes the first of each list, then the second of each, and so on.
func deal(lists [][]*sequence) (all []*sequence) {
	for i := 0; len(lists) > 0; i++ {
		lists = slices.DeleteFunc(lists, func(l []*sequence) bool { return i == len(l) })
		for _, l := range lists {
			all = append(all, l[i])
		}
	}
	return all
}

// yield preempts the last in line for jobs that have no place, or lacked the blocks to begin.
func (s *scheduler) yield() {
	free, last := s.MaxSequences-s.running, len(s.sequences)-1
	for i, q := range s.sequences {
		if q.state != waiting || q.job.running > 0 || q.rank > 0 {
			continue
		}
		if free--; free >= 0 && !s.short {
			continue
		}
		s.short = false
		for last > i && s.sequences[last].state != running {
			last--
		}
		victim := s.sequences[last]
		if last <= i || victim.job.running < 2 && victim.request.From == q.request.From {
			return
		}
		s.preempt(victim)
	}
}

// beginning gives the sequences of a group, from number i among all on, that may start now: those that have not begun and come
// before as many others as there are places.
func (s *scheduler) beginning(i int) (list []*sequence) {
	g := s.sequences[i].group
	places := s.MaxSequences - s.running - s.reserved
	for _, q := range s.sequences[i:] {
		if places == 0 || q.group != g && s.tree == nil {
			break
		}
		switch {
		case q.state != waiting:
		case q.group != g: // its prompt may be through in this iteration
			if len(q.request.Prompt)-q.prefilled <= s.budget() {
				places--
			}
		case len(q.tokens) == 0:
			list = append(list, q)
			places--
		case s.tree != nil:
			places--
		}
	}
	return list
}
