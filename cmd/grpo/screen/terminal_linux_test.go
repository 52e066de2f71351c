package screen

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/data/hub"
)

// openPseudoTerminal is a pseudo-terminal with a number of columns; drawn is its output so far.
func openPseudoTerminal(t *testing.T) (end *os.File, resize func(columns int), drawn func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	got := make(chan string)
	go func() {
		var all bytes.Buffer
		all.ReadFrom(master) // ends with an error when the other end is closed
		got <- all.String()
	}()
	t.Cleanup(func() { master.Close() })
	resize = func(columns int) {
		require.NoError(t, unix.IoctlSetWinsize(int(end.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}))
	}
	return end, resize, func() string { end.Close(); return <-got }
}

// TestMain sets the type of the terminal, wherever the tests run.
func TestMain(m *testing.M) {
	os.Setenv("TERM", "xterm")
	os.Exit(m.Run())
}

// On a terminal that cannot overwrite a line, every line stays.
func TestADumbTerminal(t *testing.T) {
	t.Setenv("TERM", "dumb")
	end, resize, drawn := openPseudoTerminal(t)
	resize(80)
	s := New(end, end, false, false)
	s.Begun("a new run")
	s.Phase("sample", 8)
	s.Advance(4, 4)
	s.End()
	require.Equal(t, "a new run\r\n", drawn())
}

var escapeSequence = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// The progress line stays on one line, also if the window shrinks or does not report its width.
func TestNothingWraps(t *testing.T) {
	var at []*window
	for _, widths := range [][]int{{120, 120}, {80, 80}, {80, 60}, {60, 40}, {40, 20}, {0, 0}} {
		at = append(at, newWindow(t, widths))
	}
	for i := range 8 {
		for _, w := range at {
			w.draw(i)
		}
		time.Sleep(120 * time.Millisecond)
	}
	for _, w := range at {
		w.wrapsNothing(t)
	}
}

// window is a terminal in which samples are drawn while a model is downloaded, and whose width changes halfway.
type window struct {
	widths   []int
	terminal *os.File
	resize   func(int)
	drawn    func() string
	screen   *Screen
	show     func(hub.Progress)
}

func newWindow(t *testing.T, widths []int) *window {
	w := &window{widths: widths}
	w.terminal, w.resize, w.drawn = openPseudoTerminal(t)
	w.resize(widths[0])
	w.screen = New(w.terminal, w.terminal, false, false)
	w.screen.Expect(8, 60, 10)
	w.screen.Phase("sample", 2048)
	w.show = DownloadProgress(w.terminal)
	return w
}

func (w *window) draw(i int) {
	if i == 4 {
		w.screen.End()
		fmt.Fprintln(w.terminal, "=====")
		w.resize(w.widths[1])
		w.screen.Phase("sample", 2048)
	}
	w.screen.Advance(256, 100000)
	w.show(hub.Progress{File: "owner/name/model-00001-of-00003.safetensors", Number: 1, Files: 3, Done: int64(i) * 1e9, Total: 7e9})
}

func (w *window) wrapsNothing(t *testing.T) {
	w.screen.End()
	text := w.drawn()
	require.True(t, strings.Contains(text, "sample"), text)
	frames := regexp.MustCompile(`[\r\n]+`).Split(escapeSequence.ReplaceAllString(text, ""), -1)
	require.Greater(t, len(frames), 8)
	narrower := slices.Index(frames, "=====")
	most := cmp.Or(w.widths[0], defaultWidth)
	for i, frame := range frames {
		if i > narrower {
			most = cmp.Or(w.widths[1], defaultWidth)
		}
		if strings.Contains(frame, "7.0 GB,") { // the line that stays
			continue
		}
		require.Less(t, utf8.RuneCountInString(frame), max(most, 6), "%v: %q", w.widths, frame)
	}
}

// Control characters are escaped on a terminal, and unchanged in a pipe.
func TestWhatOthersWroteOnATerminal(t *testing.T) {
	const text = "a\x1b[2Jb\tc\n"
	end, _, drawn := openPseudoTerminal(t)
	require.Equal(t, "a␛[2Jb\tc\n", Sanitizer(end)(text))
	require.Equal(t, text, Sanitizer(new(bytes.Buffer))(text))
	drawn()

	var kept bytes.Buffer
	PrintLine(&kept, "  ! the server reports: boom\x1b]0;x\x07")
	require.Equal(t, "  ! the server reports: boom␛]0;x␇\n", kept.String(), "what is told is told by grpo, and a log may be shown later")
}
