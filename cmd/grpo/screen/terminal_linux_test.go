package screen

import (
	"bytes"
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

// pseudo is a terminal of so many columns, and what was drawn on it so far.
func pseudo(t *testing.T) (end *os.File, resize func(columns int), drawn func() string) {
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
		all.ReadFrom(master) // which ends with an error when the other end is closed
		got <- all.String()
	}()
	t.Cleanup(func() { master.Close() })
	resize = func(columns int) {
		require.NoError(t, unix.IoctlSetWinsize(int(end.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}))
	}
	return end, resize, func() string { end.Close(); return <-got }
}

// TestMain has a terminal that draws, wherever the tests run.
func TestMain(m *testing.M) {
	os.Setenv("TERM", "xterm")
	os.Exit(m.Run())
}

// A terminal that does not know how to draw over a line has lines that stay alone.
func TestADumbTerminal(t *testing.T) {
	t.Setenv("TERM", "dumb")
	end, resize, drawn := pseudo(t)
	resize(80)
	s := New(end, end, false, false)
	s.Begun("a new run")
	s.Phase("sample", 8)
	s.Advance(4, 4)
	s.End()
	require.Equal(t, "a new run\r\n", drawn())
}

var control = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// What is drawn over and over stays on one line, also when the window is made smaller, or does not say how wide it is.
func TestNothingWraps(t *testing.T) {
	for _, widths := range [][]int{{120, 120}, {80, 80}, {80, 60}, {60, 40}, {40, 20}, {0, 0}} {
		t.Run(fmt.Sprint(widths), func(t *testing.T) {
			t.Parallel()
			nothingWraps(t, widths)
		})
	}
}

func nothingWraps(t *testing.T, widths []int) {
	end, resize, drawn := pseudo(t)
	resize(widths[0])
	most := widths[0]
	if most == 0 {
		most = usual
	}
	s := New(end, end, false, false)
	s.Expect(8, 60, 10)
	s.Phase("sample", 2048)
	show := Fetching(end)
	for i := range 8 {
		if i == 4 {
			s.End()
			fmt.Fprintln(end, "=====")
			resize(widths[1])
			s.Phase("sample", 2048)
		}
		s.Advance(256, 100000)
		show(hub.Progress{File: "owner/name/model-00001-of-00003.safetensors", Number: 1, Files: 3, Done: int64(i) * 1e9, Total: 7e9})
		time.Sleep(120 * time.Millisecond)
	}
	s.End()
	text := drawn()
	require.True(t, strings.Contains(text, "sample"), text)
	frames := regexp.MustCompile(`[\r\n]+`).Split(control.ReplaceAllString(text, ""), -1)
	require.Greater(t, len(frames), 8)
	at := slices.Index(frames, "=====")
	for i, frame := range frames {
		if i > at && widths[1] > 0 {
			most = widths[1]
		}
		if strings.Contains(frame, "7.0 GB,") { // the line that stays
			continue
		}
		require.Less(t, utf8.RuneCountInString(frame), max(most, 6), "%v: %q", widths, frame)
	}
}

// A terminal shows what it should not obey; a pipe has what was written.
func TestWhatOthersWroteOnATerminal(t *testing.T) {
	const text = "a\x1b[2Jb\tc\n"
	end, _, drawn := pseudo(t)
	require.Equal(t, "a␛[2Jb\tc\n", Shown(end)(text))
	require.Equal(t, text, Shown(new(bytes.Buffer))(text))
	drawn()

	var kept bytes.Buffer
	Tell(&kept, "  ! the server reports: boom\x1b]0;x\x07")
	require.Equal(t, "  ! the server reports: boom␛]0;x␇\n", kept.String(), "what is told is told by grpo, and a log may be shown later")
}
