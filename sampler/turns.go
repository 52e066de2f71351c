package sampler

import "slices"

// Fair scheduling of a Live. It has MaxSequences places for running sequences. Clients take turns for them, and the jobs of a
// client, too: the line has the first sequence of each job, then the second of each, and so on. When a sequence, or a turn of a
// conversation, ends, its job goes to the end of the line.
//
// A free place goes to the first waiting sequence in line. If no place is free and a job has none, the last running sequence in
// line is preempted for it, provided that its job has others running, or is another client's; the prefix cache makes its
// recomputation short. The first sequence of a job has its place as soon as its prefill begins.
//
// So while there are fewer jobs than places, each has a place from the iteration after it came. If there are more, and k jobs
// before it in line have none, it waits for at most k+1 sequences to end. If blocks are short, one sequence is preempted in each
// iteration until there are enough, and nobody behind starts before: this takes no longer than until the running sequences have
// ended. The first in line is never preempted, so that every sequence ends at some time.

// job is a set of requests that take turns as one.
type job struct {
	running int         // number of running sequences
	served  bool        // a sequence, or a turn of one, ended in this iteration
	list    []*sequence // the unfinished sequences that are not parked, in the order of the line
}

// jobOf is the job that a request belongs to: an existing one, or a new one.
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

// takeTurns sorts the sequences of a Live into the line, and preempts for jobs that have no place.
func (s *scheduler) takeTurns() {
	if s.tree == nil {
		return
	}
	if s.reorder {
		s.sequences, s.reorder = inLine(s.groups), false
	}
	s.yield()
}

// nextInLine moves the jobs of which a sequence or a turn ended to the end of the line.
func (s *scheduler) nextInLine() {
	if s.tree == nil {
		return
	}
	var served []*group
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool {
		if g.job.served {
			g.pending = slices.DeleteFunc(g.pending, func(q *sequence) bool { return q.state == finished })
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

// inLine lists the sequences of all groups in the order of the line, and then the parked ones.
func inLine(groups []*group) []*sequence {
	for _, g := range groups {
		g.job.list = nil
	}
	var askers []string
	var jobs [][]*job    // of each asker
	var away []*sequence // parked
	for _, g := range groups {
		at := slices.Index(askers, g.request.From)
		if at < 0 {
			at = len(askers)
			askers, jobs = append(askers, g.request.From), append(jobs, nil)
		}
		for _, q := range g.pending {
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

// deal interleaves lists: the first of each, then the second of each, and so on.
func deal(lists [][]*sequence) (all []*sequence) {
	for i := 0; len(lists) > 0; i++ {
		lists = slices.DeleteFunc(lists, func(l []*sequence) bool { return i == len(l) })
		for _, l := range lists {
			all = append(all, l[i])
		}
	}
	return all
}

// yield preempts the last in line for jobs that have no place, or that lacked the blocks to start.
func (s *scheduler) yield() {
	free, last := s.MaxSequences-s.running, len(s.sequences)-1
	for i, q := range s.sequences {
		if q.state != waiting || q.job.running > 0 || q.rank > 0 {
			continue
		}
		if free--; free >= 0 && !s.lackedBlocks {
			continue
		}
		s.lackedBlocks = false
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

// startable lists the sequences of sequences[i]'s group that may start now: the new ones, as long as the places suffice for them and
// for the waiting sequences that are before them in line.
func (s *scheduler) startable(i int) (list []*sequence) {
	g := s.sequences[i].group
	places := s.MaxSequences - s.running - s.reserved
	for _, q := range s.sequences[i:] {
		if places == 0 || q.group != g && s.tree == nil {
			break
		}
		switch {
		case q.state != waiting:
		case q.group != g: // keep a place if its prefill may end in this iteration
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
