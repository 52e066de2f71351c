//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/reward/internal/program"
)

// testFiles are the descriptors of one test. Input and output are memory files: nothing has to be written
// or read while the program runs, no process that it leaves behind can hold a pipe open, and RLIMIT_FSIZE
// bounds its output. All are new for every test, because even the flags of a shared descriptor would be
// visible to the next test.
type testFiles struct {
	request, stdin, stdout, stderr, result int // passed to the cell; result is -1 for a program that is not called
	tail                                   int // our end of stderr
}

func newTestFiles(p Program, in Input) (f *testFiles, err error) {
	f = &testFiles{-1, -1, -1, -1, -1, -1}
	defer func() {
		if err != nil {
			f.close()
			f, err = nil, fmt.Errorf("files of a test: %w", err)
		}
	}()
	if f.request, err = memoryFile("request", program.Request(p.Code, p.Call, in.Args)); err != nil {
		return
	}
	if f.stdin, err = memoryFile("stdin", in.Stdin); err != nil {
		return
	}
	if f.stdout, err = memoryFile("stdout", nil); err != nil {
		return
	}
	if p.Call != "" {
		if f.result, err = memoryFile("result", nil); err != nil {
			return
		}
	}
	var pipe [2]int
	if err = unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return
	}
	f.tail, f.stderr = pipe[0], pipe[1]
	return f, unix.SetNonblock(f.tail, true)
}

// forZygote are the descriptors that are passed to the zygote.
func (f *testFiles) forZygote() []int {
	fds := []int{f.request, f.stdin, f.stdout, f.stderr}
	if f.result >= 0 {
		fds = append(fds, f.result)
	}
	return fds
}

func (f *testFiles) close() {
	for _, fd := range []int{f.request, f.stdin, f.stdout, f.stderr, f.result, f.tail} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// memoryFile makes a memfd with the given content and its offset at 0.
func memoryFile(name string, content []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	for at := 0; at < len(content); {
		n, err := unix.Pwrite(fd, content[at:], int64(at))
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		at += n
	}
	return fd, nil
}

// readMemoryFile reads at most limit bytes, and returns the size of the whole file.
func readMemoryFile(fd int, limit int64) (content []byte, size int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, 0, err
	}
	content = make([]byte, min(st.Size, limit))
	for at := 0; at < len(content); {
		n, err := unix.Pread(fd, content[at:], int64(at))
		if err != nil {
			return nil, 0, err
		}
		if n == 0 {
			content = content[:at]
			break
		}
		at += n
	}
	return content, st.Size, nil
}

// drain reads what the pipe holds without blocking. The number of reads is bounded, because a program may
// write as fast as we read.
func (t *tail) drain(fd int) {
	var buf [16 << 10]byte
	for range 64 {
		n, err := unix.Read(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		t.add(buf[:n])
	}
}
