package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/watch"
)

// Escape sequences: the alternate screen without cursor and line wrapping, and back; cursor to the upper left corner; clear the rest of
// a line, or of the screen.
const (
	enter, leave = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
	cursorHome   = "\x1b[H"
	clearLine    = "\x1b[K"
	clearBelow   = "\x1b[J"
)

// watchInTerminal draws a run in the terminal until ctx ends; or just once, if asked or if there is no terminal that can redraw.
func watchInTerminal(ctx context.Context, out io.Writer, paths []string, once bool) error {
	s, err := watch.New(watch.Options{Paths: paths})
	if err != nil {
		return err
	}
	runs := s.Runs()
	switch len(runs) {
	case 0:
		return badinput.Errorf("%s: there is no run yet; type grpo watch without --tui to wait for one", strings.Join(paths, ", "))
	case 1:
	default:
		dir, _, _ := s.Where(runs[0])
		return badinput.Errorf("--tui shows one run, and there are %d here; type grpo watch %s --tui", len(runs), display.ShellQuote(dir))
	}
	if columns, _ := screen.Width(out); once || !screen.Redraws(out) {
		text, err := picture(s, runs[0], columns, 0)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, strings.Join(text, "\n")+"\n")
		return err
	}
	fmt.Fprint(out, enter)
	defer fmt.Fprint(out, leave)
	go s.Watch(ctx)
	tick := time.NewTicker(time.Second) // also notices a resized window
	defer tick.Stop()
	for version, last := "", ""; ; {
		now, fresh := s.Version(runs[0])
		columns, rows, _ := screen.Size(out)
		if now = fmt.Sprint(now, columns, rows); now != version {
			text, err := picture(s, runs[0], columns-1, rows) // clearing the rest of a line would erase its last column
			if err != nil {
				return err
			}
			if drawn := strings.Join(text, clearLine+"\r\n"); drawn != last {
				fmt.Fprint(out, cursorHome, drawn, clearLine, clearBelow)
				last = drawn
			}
			version = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-fresh:
		case <-tick.C:
		}
	}
}

// picture is a run as lines; columns or rows of 0 are unlimited.
func picture(s *watch.Server, name string, columns, rows int) ([]string, error) {
	dir, state, ok := s.Where(name)
	if _, err := os.Stat(dir); !ok || errors.Is(err, fs.ErrNotExist) {
		return []string{"the run no longer exists"}, nil
	}
	l, err := report.ReadRun(dir, name, state)
	if err != nil {
		return nil, err
	}
	lines := frame(l, columns)
	if rows > 0 && len(lines) > rows {
		lines = lines[:rows]
	}
	return lines, nil
}
