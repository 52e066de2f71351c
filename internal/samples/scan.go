package samples

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// scan is a pass over the new part of a file.
type scan struct {
	ctx    context.Context
	file   uint8
	frame  int64 // offset of the current frame, in a packed file
	intern func(quoted []byte) int32
	fault  func(Fault)
	found  func(groups []Group, read int64) // called now and then, and at the end

	open   bool // there is an unfinished group
	group  Group
	name   []byte // of its problem, as a JSON string
	batch  []Group
	behind int64 // the offset that was last reported
}

// errFull is the error of a file with more groups than an index may have.
var errFull = fmt.Errorf("there are more than %d groups; the index ends here", mostGroups)

// progressBytes is after how many bytes progress is reported.
const progressBytes = 16 << 20

// plain reads the lines of a file from an offset to another. A line without a newline is left for the next pass.
func (s *scan) plain(f *os.File, from, size int64) error {
	in := bufio.NewReaderSize(io.NewSectionReader(f, from, size-from), 4<<20)
	end, err := s.lines(in, from)
	if err == nil {
		if s.open {
			s.finish()
		}
		s.found(s.batch, end)
	}
	return err
}

// frames reads the complete frames of a packed file from an offset to another.
func (s *scan) frames(f *os.File, from, size int64) error {
	u, err := jsonl.NewUnpacker()
	if err != nil {
		return err
	}
	defer u.Close()
	in := bufio.NewReaderSize(nil, 1<<20)
	at := from
	for at < size && s.ctx.Err() == nil {
		end, err := jsonl.FrameEnd(f, at, size)
		if errors.Is(err, jsonl.ErrUnfinished) {
			break
		}
		if err != nil {
			s.fault(Fault{At: at, Why: err.Error()})
			if at, err = jsonl.NextFrame(f, at+1, size); err != nil {
				return err
			}
			continue
		}
		s.frame = at
		if err = u.Reset(io.NewSectionReader(f, at, end-at)); err == nil {
			in.Reset(u)
			_, err = s.lines(in, 0)
		}
		if s.open {
			s.finish()
		}
		switch {
		case errors.Is(err, errFull):
			return err
		case s.ctx.Err() != nil: // cancelled: what was read is not the whole file
			return s.ctx.Err()
		case err != nil:
			s.fault(Fault{At: at, Why: "damaged: " + err.Error()})
		}
		if at = end; at-s.behind >= progressBytes/8 {
			s.found(s.batch, at)
			s.batch, s.behind = nil, at
		}
	}
	s.found(s.batch, at)
	return s.ctx.Err()
}

// lines reads the lines of a file or a frame; at is the offset of the first. It returns the end of the last complete line.
func (s *scan) lines(in *bufio.Reader, at int64) (end int64, err error) {
	for {
		line, n, why, err := next(in)
		if err == io.EOF {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		if err := s.line(line, at, n, why); err != nil {
			return at, err
		}
		at += n
	}
}

// next returns a line without its newline, and its length with it. why is set for a line that is too long to be shown.
func next(in *bufio.Reader) (line []byte, n int64, why string, err error) {
	line, err = in.ReadSlice('\n')
	if err == nil {
		return line[:len(line)-1], int64(len(line)), "", nil
	}
	var long []byte
	for errors.Is(err, bufio.ErrBufferFull) {
		if n += int64(len(line)); n <= mostLine {
			long = append(long, line...)
		} else {
			long = nil
		}
		line, err = in.ReadSlice('\n')
	}
	if err != nil {
		return nil, 0, "", err
	}
	if n += int64(len(line)); n > mostLine {
		return nil, n, fmt.Sprintf("a line of %d bytes, expected at most %d", n, mostLine), nil
	}
	long = append(long, line...)
	return long[:len(long)-1], n, "", nil
}

// line adds a line to the index.
func (s *scan) line(line []byte, at, n int64, why string) error {
	var l skimmed
	if why == "" {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		l, why = skim(line)
	}
	if why != "" {
		if s.open {
			s.finish()
		}
		where := at
		if s.file == packed {
			where = s.frame
		}
		s.fault(Fault{At: where, Why: why})
		return nil
	}
	if s.open && (l.step != s.group.Step || l.group != s.group.Number || !bytes.Equal(l.problem, s.name)) {
		s.finish()
	}
	if !s.open {
		problem := s.intern(l.problem)
		if problem < 0 {
			return errFull
		}
		l.begin(&s.group, problem)
		s.group.File, s.group.Frame, s.group.At = s.file, s.frame, at
		s.open, s.name = true, append(s.name[:0], l.problem...)
	}
	l.add(&s.group)
	s.group.Size = at + n - s.group.At
	if s.file != packed && at-s.behind >= progressBytes {
		s.behind = at
		s.found(s.batch, s.group.At)
		s.batch = nil
		return s.ctx.Err()
	}
	return nil
}

// finish ends the unfinished group.
func (s *scan) finish() {
	s.batch, s.open = append(s.batch, s.group), false
}
