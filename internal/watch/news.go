package watch

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/report"
)

// news are the last steps of a run in numbers, which a page goes on with until it is drawn again.
type news struct {
	ends    report.Ends
	version string
	told    int      // how many there were so far
	last    [][]byte // of them, as JSON
}

// mostNews is how many steps are kept: a page that is opened has all before the last one, and one that cannot follow draws a straight line.
const mostNews = 8

// newest are the steps of a run that came since a browser was told of so many, as an event, "" where there is none; and how many there
// were by now. They are read once for each version, however many browsers ask.
func (s *Server) newest(name, version string, told int) (event string, now int) {
	dir, _, ok := s.seen(name)
	if !ok {
		return "", told
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	n := s.news[name]
	if n == nil || n.ends.Dir != dir {
		n = &news{ends: report.Ends{Dir: dir, Name: name}}
		s.news[name], told = n, 0
	}
	if n.version != version {
		n.version = version
		n.read()
	}
	since := n.last[max(0, len(n.last)-max(0, n.told-told)):]
	if len(since) == 0 {
		return "", n.told
	}
	return "event: steps\ndata: [" + string(bytes.Join(since, []byte(","))) + "]\n\n", n.told
}

// read takes in what the run has more. What cannot be read is missing until the page is drawn again, which says why.
func (n *news) read() {
	fresh, err := n.ends.Read()
	if err != nil {
		return
	}
	for _, step := range fresh {
		if text, err := json.Marshal(step); err == nil {
			n.last, n.told = append(n.last, text), n.told+1
		}
	}
	n.last = slices.Clone(n.last[max(0, len(n.last)-mostNews):])
}

// events tells a browser of each step of a run in numbers at once, and that the page of a run, or the list, can be drawn again when that
// is due.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("of")
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	keep := time.NewTicker(alive)
	defer keep.Stop()
	last, fresh := s.Version(name)
	steps, told := s.newest(name, last, 0)
	var due <-chan time.Time
	var changed time.Time // when it was last told that
	for text := ": here\n\n" + steps; ; {
		if text != "" {
			err := error(nil)
			s.counted(func() {
				if _, err = io.WriteString(w, text); err == nil {
					err = out.Flush()
				}
			})
			if err != nil {
				return
			}
		}
		text = ""
		select {
		case <-r.Context().Done():
			return
		case <-keep.C:
			text = ": here\n\n"
		case changed = <-due:
			due, text = nil, "data: changed\n\n"
		case <-fresh:
			version := ""
			if version, fresh = s.Version(name); version == last {
				continue
			}
			last = version
			s.counted(func() { text, told = s.newest(name, version, told) })
			if due == nil { // what comes until then is told with it
				due = time.After(s.pause(name, changed))
			}
		}
	}
}

// counted does something for those who look, and adds the processor time of it to what that took.
func (s *Server) counted(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := cputime.Thread()
	do()
	s.spent.Add(int64(cputime.Thread() - began))
}
