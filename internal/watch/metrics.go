package watch

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/rows"
)

const metricsPath = "/metrics"

// values are the latest values of a run: of its last step, and of its last evaluation. It is a rows.Sink.
type values struct {
	step int
	of   map[string]float64
}

func (v *values) Start(rows.Start) error { return nil }
func (v *values) Done(time.Time) error   { return nil }

// Row replaces the last row of its kind; keys that the new one lacks are removed.
func (v *values) Row(r rows.Row) error {
	v.step = r.Step
	for _, c := range r.Cells {
		table, _, _ := strings.Cut(c.Name, "/")
		maps.DeleteFunc(v.of, func(name string, _ float64) bool { return strings.HasPrefix(name, table+"/") })
	}
	for _, c := range r.Cells {
		if number, ok := c.Number(); ok {
			v.of[c.Name] = number
		}
	}
	return nil
}

// gauges are the values of runs, by directory.
type gauges struct {
	mu   sync.Mutex
	runs map[string]*gauge
}

type gauge struct {
	from *rows.Follower
	values
}

// look reads the new lines of a run. If the record was truncated or replaced, it is read from the beginning.
func (g *gauges) look(dir string) *gauge {
	r := g.runs[dir]
	if r != nil && r.from.Follow(r) == nil {
		return r
	}
	delete(g.runs, dir)
	from, err := rows.Open(dir)
	if err != nil {
		return nil
	}
	r = &gauge{from, values{of: map[string]float64{}}}
	if from.Follow(r) != nil {
		return nil
	}
	g.runs[dir] = r
	return r
}

// metrics writes the latest values of all runs in Prometheus's format. A slow client does not block others.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	text := s.measured()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	io.WriteString(w, text)
}

// measured is the text of metrics.
func (s *Server) measured() string {
	s.gauges.mu.Lock()
	defer s.gauges.mu.Unlock()
	var up, steps, all, text strings.Builder
	there := map[string]bool{}
	for _, name := range s.Runs() {
		dir, state, ok := s.Where(name)
		if !ok {
			continue
		}
		there[dir] = true
		at := "{run=" + label(name)
		going := 0
		if state == report.Running {
			going = 1
		}
		fmt.Fprintf(&up, "grpo_run_up%s} %d\n", at, going)
		r := s.gauges.look(dir)
		if r == nil || r.from.Empty() {
			continue
		}
		fmt.Fprintf(&steps, "grpo_run_step%s} %d\n", at, r.step)
		for _, full := range slices.Sorted(maps.Keys(r.of)) {
			table, key, _ := strings.Cut(full, "/")
			fmt.Fprintf(&all, "grpo_run_value%s,table=%s,key=%s} %s\n", at, label(table), label(key),
				strconv.FormatFloat(r.of[full], 'g', -1, 64))
		}
	}
	maps.DeleteFunc(s.gauges.runs, func(dir string, _ *gauge) bool { return !there[dir] })
	const seconds = "grpo_watch_processor_seconds_total"
	spent := fmt.Sprintf("%s %.6f\n", seconds, time.Duration(s.spent.Load()).Seconds())
	for _, family := range []struct{ name, kind, help, text string }{
		{"grpo_run_up", "gauge", "Whether a process trains the run.", up.String()},
		{"grpo_run_step", "gauge", "Recorded steps of the run.", steps.String()},
		{seconds, "counter", "Processor time of reading runs, drawing pages, and notifying readers.", spent},
		{"grpo_run_value", "gauge", "Last value of a key of metrics.jsonl, and of train_log.jsonl as timing.",
			all.String()},
	} {
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n%s", family.name, family.help, family.name, family.kind, family.text)
	}
	return text.String()
}

// label escapes a label's value.
func label(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(text, "\ufffd")) + `"`
}
