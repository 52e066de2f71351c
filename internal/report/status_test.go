package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// followed is a page of the small run, with a clock that the test advances.
func followed(t *testing.T) (p *Page, now *time.Time, read func() *element) {
	t.Helper()
	clock := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	now = &clock
	p = &Page{Dir: filepath.Join(t.TempDir(), "run"), clock: func() time.Time { return *now }}
	require.NoError(t, os.Mkdir(p.Dir, 0o755))
	for name, text := range small() {
		require.NoError(t, os.WriteFile(filepath.Join(p.Dir, name), []byte(text), 0o644))
	}
	return p, now, func() *element {
		text, err := os.ReadFile(filepath.Join(p.Dir, File))
		require.NoError(t, err)
		return parse(t, string(text))
	}
}

func TestThePageSaysWhetherTheRunGoesOn(t *testing.T) {
	p, now, read := followed(t)
	status := func() (word string, e *element) {
		e = read().all("p", "status")[0]
		return e.all("b", "")[0].read(), e
	}
	require.NoError(t, p.Update())
	word, e := status()
	require.Equal(t, "Running", word)
	require.Equal(t, "900", e.attr("data-every"), "the time of an evaluation is not known yet")
	require.Equal(t, "2026-11-20T16:00:00Z", e.attr("data-written"))
	require.Equal(t, "grpo run_dir="+p.Dir, e.all("span", "overdue")[0].all("code", "")[0].read())
	require.Equal(t, "hidden", e.all("span", "overdue")[0].attr("hidden"), "shown by a script when the time has come")
	require.Equal(t, "30", read().all("noscript", "")[0].all("meta", "")[0].attr("content"))
	require.Equal(t, "run: 3 of 3 steps, running", read().all("title", "")[0].read())

	*now = now.Add(seldom - time.Second)
	require.NoError(t, p.UpdateIfDue())
	_, same := status()
	require.Equal(t, e.attr("data-written"), same.attr("data-written"), "the page is not written again so soon")
	*now = now.Add(2 * time.Minute)
	require.NoError(t, p.UpdateIfDue())
	_, e = status()
	require.Equal(t, "2026-11-20T16:02:14Z", e.attr("data-written"))
	require.Equal(t, strconv.Itoa(3*134+60), e.attr("data-every"))

	for _, c := range []struct {
		because          error
		word, tone, says string
	}{
		{nil, "Finished", "good", "Written"},
		{fmt.Errorf("step 4: %w", context.Canceled), "Stopped", "open", "To resume it: grpo run_dir=" + p.Dir},
		{errors.New("step 4: disk <full>"), "Ended by an error", "bad", "step 4: disk <full>"},
	} {
		require.NoError(t, p.Finish(c.because))
		word, e = status()
		require.Equal(t, c.word, word)
		require.Equal(t, "status "+c.tone, e.attr("class"))
		require.Empty(t, e.attr("data-every"), "a finished page does not refresh")
		require.Contains(t, e.read(), c.says)
		require.Empty(t, read().all("noscript", ""))
	}
}

func TestStatementsStandBesideAnswers(t *testing.T) {
	p, _, read := followed(t)
	p.Statement = func(problem string) string {
		return map[string]string{"max-print": "Print the <b>largest</b>."}[problem]
	}
	require.NoError(t, p.Update())
	articles := read().all("article", "")
	require.Equal(t, "Print the <b>largest</b>.", articles[0].all("div", "beside")[0].all("div", "statement")[0].Text)
	require.Len(t, articles[0].all("div", "beside")[0].all("pre", ""), 2)
	require.Empty(t, articles[1].all("div", "statement"), "a problem without a known statement has none")
}

func TestCompressedCompletionsAreShown(t *testing.T) {
	p, _, read := followed(t)
	var packed bytes.Buffer
	for step := 2; step < 5; step++ {
		f, err := jsonl.NewFrame(&packed)
		require.NoError(t, err)
		require.NoError(t, f.Append(map[string]any{"step": step, "problem": "p", "text": fmt.Sprint("answer ", step)}))
		require.NoError(t, f.Close())
	}
	path := filepath.Join(p.Dir, "rollouts.jsonl"+jsonl.PackedSuffix)
	require.NoError(t, os.WriteFile(path, packed.Bytes(), 0o644))
	require.NoError(t, p.Update())
	require.Equal(t, []string{"answer 4"}, readAll(read().all("article", "")[0].all("pre", "")))
	require.NoError(t, os.Truncate(path, int64(packed.Len()*2/3)))
	require.NoError(t, p.Update())
	require.Contains(t, read().all("section", "")[7].read(), "step 3", "the later step of the two files is shown")
	require.NoError(t, os.Remove(filepath.Join(p.Dir, "rollouts.jsonl")))
	require.NoError(t, p.Update())
	require.Equal(t, []string{"answer 3"}, readAll(read().all("article", "")[0].all("pre", "")))
}

func TestRemovedCheckpointsAreMarked(t *testing.T) {
	p, _, read := followed(t)
	var log strings.Builder
	for step := 1; step <= 20; step++ {
		fmt.Fprintf(&log, `{"name":"step_%06d","batch":%[1]d,"epoch":0,"state_path":"at/step_%06[1]d"}`+"\n", step)
	}
	require.NoError(t, os.WriteFile(filepath.Join(p.Dir, "checkpoints.jsonl"), []byte(log.String()), 0o644))
	for _, step := range []int{4, 19, 20} {
		require.NoError(t, os.MkdirAll(filepath.Join(p.Dir, "checkpoints", fmt.Sprintf("step_%06d", step)), 0o755))
	}
	require.NoError(t, p.Finish(nil))
	details := read().all("details", "")
	list := details[len(details)-1]
	require.Equal(t, "Checkpoints: 20 made, 3 still there", list.all("summary", "")[0].read())
	rows := readAll(list.all("tbody", "")[0].all("tr", ""))
	require.Len(t, rows, 11, "the best, and the last ten")
	require.Equal(t, "step_000004 4 0 at/step_000004", rows[0])
	require.Equal(t, "step_000011 11 0 removed", rows[1])
	require.Equal(t, "step_000020 20 0 at/step_000020", rows[10])
	require.Len(t, list.all("tr", "gone"), 8)
}

// Accessibility of a page: its language, its title, headings in order, tables with header cells, charts with descriptions.
func TestThePageCanBeReadByEverybody(t *testing.T) {
	p, _, read := followed(t)
	p.Statement = func(string) string { return "Print it." }
	require.NoError(t, p.Update())
	root := read()
	require.Equal(t, "en", root.attr("lang"))
	require.NotEmpty(t, root.all("title", "")[0].read())
	level := 0
	var walk func(e *element)
	ids := map[string]bool{}
	walk = func(e *element) {
		if name := e.XMLName.Local; len(name) == 2 && name[0] == 'h' && name != "hr" {
			next := int(name[1] - '0')
			require.LessOrEqual(t, next, level+1, "h%d follows h%d: %s", next, level, e.read())
			level = next
		}
		if id := e.attr("id"); id != "" {
			require.False(t, ids[id], "two have the name %s", id)
			ids[id] = true
		}
		for i := range e.Inner {
			walk(&e.Inner[i])
		}
	}
	walk(root)
	require.Len(t, root.all("h1", ""), 1)
	for _, th := range root.all("th", "") {
		require.Contains(t, []string{"col", "row"}, th.attr("scope"))
		require.NotEmpty(t, th.read())
	}
	for _, plot := range root.all("div", "plot") {
		require.Equal(t, "img", plot.attr("role"))
		require.NotEmpty(t, plot.attr("aria-label"))
	}
	for _, d := range root.all("details", "") {
		require.NotEmpty(t, d.attr("id"), "details need an id to stay open")
	}
}

// The contrast of text is at least 4.5 to 1, in light and in dark mode.
func TestTextStandsOut(t *testing.T) {
	css := display.Style
	light, dark, found := strings.Cut(css, "prefers-color-scheme: dark")
	require.True(t, found)
	for _, scheme := range []string{light, dark} {
		color := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]{6})`).FindAllStringSubmatch(scheme, -1) {
			color[m[1]] = luminance(t, m[2])
		}
		for _, text := range []string{"ink", "soft", "good", "bad", "open"} {
			for _, ground := range []string{"paper", "card"} {
				a, b := color[text], color[ground]
				require.GreaterOrEqual(t, (max(a, b)+0.05)/(min(a, b)+0.05), 4.5, "%s on %s", text, ground)
			}
		}
	}
}

func luminance(t *testing.T, hex string) (l float64) {
	t.Helper()
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		require.NoError(t, err)
		c := float64(v) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}
