package screen

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/seed-7879b91d/grpo/data/hub"
)

// lineInterval is the interval of lines about a download, without a terminal.
const lineInterval = 5 * time.Second

// fetching shows the progress of downloads, one file after the other.
type fetching struct {
	errs io.Writer
	now  func() time.Time

	file         string
	bar          *progressbar.ProgressBar // nil: lines are printed
	first        int64                    // bytes that were downloaded earlier
	began, spoke time.Time
}

// DownloadProgress returns a function that shows downloads on errs: as a bar on a terminal, else as a line every few seconds.
func DownloadProgress(errs io.Writer) func(hub.Progress) {
	return (&fetching{errs: errs, now: time.Now}).show
}

func (f *fetching) show(p hub.Progress) {
	if p.File != f.file {
		f.begin(p)
	}
	if f.bar != nil {
		_ = f.bar.Set64(p.Done) // failing to draw a bar is no error
		if p.Done == p.Total {
			_ = f.bar.Finish()
		}
	}
	if now := f.now(); p.Done == p.Total || f.bar == nil && now.Sub(f.spoke) >= lineInterval {
		f.spoke = now
		fmt.Fprintln(f.errs, f.line(p, now))
	}
}

func (f *fetching) begin(p hub.Progress) {
	f.file, f.first, f.bar, f.began, f.spoke = p.File, p.Done, nil, f.now(), f.now()
	if columns, can := drawingWidth(f.errs); can {
		f.bar = newBar(f.errs, p.Total, 75, progressbar.OptionSetDescription(label(p, columns/3)),
			progressbar.OptionShowBytes(true), progressbar.OptionShowCount(), progressbar.OptionSetElapsedTime(false))
	}
}

// label says which file it is of how many, in about that many characters; 0: no limit.
func label(p hub.Progress, columns int) string {
	number := fmt.Sprintf("%d/%d ", p.Number, p.Files)
	return number + shortened(p.File, columns-len(number))
}

// shortened drops the beginning of a long name, as its end distinguishes files.
func shortened(text string, columns int) string {
	runes := []rune(text)
	if len(runes) <= columns || columns < 1 {
		return text
	}
	return "…" + string(runes[len(runes)-columns+1:])
}

// line is the progress of a file in words.
func (f *fetching) line(p hub.Progress, now time.Time) string {
	text := fmt.Sprintf("%s: %s", label(p, 0), size(p.Done))
	if p.Total >= 0 && p.Done < p.Total {
		text += fmt.Sprintf(" of %s", size(p.Total))
	}
	if seconds := now.Sub(f.began).Seconds(); seconds > 0.1 && p.Done > f.first {
		rate := float64(p.Done-f.first) / seconds
		text += fmt.Sprintf(", %s/s", size(int64(rate)))
		if left := float64(p.Total - p.Done); left > 0 {
			text += fmt.Sprintf(", %s left", formatDuration(left/rate))
		}
	}
	return text
}

// size formats a number of bytes.
func size(bytes int64) string {
	value, unit := float64(bytes), 0
	for units := 4; value >= 1000 && unit < units; unit++ {
		value /= 1000
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, []string{"", "kB", "MB", "GB", "TB"}[unit])
}

// ReadProgress returns a function that shows the progress of reading a data set, if there is a terminal.
func ReadProgress(errs io.Writer) func(done, total int64) {
	if _, can := drawingWidth(errs); !can {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int64) {
		if bar == nil {
			bar = newBar(errs, total, 62,
				progressbar.OptionSetDescription("reading"), progressbar.OptionShowBytes(true), progressbar.OptionShowCount())
		}
		_ = bar.Set64(done) // failing to draw a bar is no error
	}
}

// BuildProgress returns a function that shows the progress of a build, if there is a terminal.
func BuildProgress(errs io.Writer) func(done, total int) {
	if _, can := drawingWidth(errs); !can {
		return func(int, int) {}
	}
	var bar *progressbar.ProgressBar
	return func(done, total int) {
		if bar == nil {
			bar = newBar(errs, int64(total), 62, progressbar.OptionSetDescription("building"), progressbar.OptionShowCount())
		}
		_ = bar.Set(done) // failing to draw a bar is no error
	}
}
