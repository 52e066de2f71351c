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

// scan is a pass over what was written to a file since the last one.
type scan struct {
	ctx    context.Context
	file   uint8
	frame  int64 // that is read, of a packed file
	intern func(quoted []byte) int32
	fault  func(Fault)
	found  func(groups []Group, read int64) // called now and then, and at the end

	open   bool // there is a group that goes on
	group  Group
	name   []byte // of its problem, quoted
	batch  []Group
	behind int64 // since when nobody was told
}

// errFull is a file with more groups than an index has.
var errFull = fmt.Errorf("there are more than %d groups; the index ends here", mostGroups)

// tell is how often others hear of what was read, in bytes.
const tell = 16 << 20

// plain reads the lines of a file from a byte to another. What has no newline is left for the next time.
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

// frames reads the whole frames of a packed file from a byte to another.
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
		case s.ctx.Err() != nil: // there are more frames, and nobody is to take what was read for all of them
			return s.ctx.Err()
		case err != nil:
			s.fault(Fault{At: at, Why: "damaged: " + err.Error()})
		}
		if at = end; at-s.behind >= tell/8 {
			s.found(s.batch, at)
			s.batch, s.behind = nil, at
		}
	}
	s.found(s.batch, at)
	return s.ctx.Err()
}

// lines takes the lines of a file, or of a frame, of which the first is at a byte, and gives where the last whole one ends.
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

// next gives a line without its newline, and its length with it. One that nobody could show is passed over.
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

// line takes one.
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
	if s.file != packed && at-s.behind >= tell {
		s.behind = at
		s.found(s.batch, s.group.At)
		s.batch = nil
		return s.ctx.Err()
	}
	return nil
}

// finish ends the group that goes on.
func (s *scan) finish() {
	s.batch, s.open = append(s.batch, s.group), false
}
