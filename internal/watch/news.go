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

// news has the last steps of a run as data, with which a page updates its charts until it is drawn again.
type news struct {
	ends    report.TailReader
	version string
	told    int      // steps so far
	last    [][]byte // the last of them, as JSON
}

// mostNews is how many steps are kept. A page that is opened has all but the last steps; one that missed some draws a straight line.
const mostNews = 8

// newest returns the steps of a run that a browser does not have yet as an event, "" if there are none, and the number of all steps.
// The files are read once per version, for all browsers.
func (s *Server) newest(name, version string, told int) (event string, now int) {
	dir, _, ok := s.seen(name)
	if !ok {
		return "", told
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	n := s.news[name]
	if n == nil || n.ends.Dir != dir {
		n = &news{ends: report.TailReader{Dir: dir, Name: name}}
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

// read reads the new steps. Lines that cannot be read are skipped; the page says why when it is drawn again.
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

// events tells a browser about each step at once, as data, and when it is due that the page of the run, or the list, should be drawn
// again.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("of")
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	keep := time.NewTicker(alive)
	defer keep.Stop()
	last, fresh := s.Version(name)
	steps, told := s.newest(name, last, 0)
	var due <-chan time.Time
	var changed time.Time // when that was last told
	for text := ": here\n\n" + steps; ; {
		if text != "" {
			err := error(nil)
			s.countTime(func() {
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
			s.countTime(func() { text, told = s.newest(name, version, told) })
			if due == nil { // until due, further changes are included
				due = time.After(s.pause(name, changed))
			}
		}
	}
}

// countTime calls do, and adds its processor time to the server's.
func (s *Server) countTime(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := cputime.Thread()
	do()
	s.spent.Add(int64(cputime.Thread() - began))
}
