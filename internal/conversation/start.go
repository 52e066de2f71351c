package conversation

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/procgroup"
	"github.com/seed-7879b91d/grpo/internal/tail"
)

// startupGrace is how long a program is watched after its start: one that cannot work, say for want of a module, mostly exits at once.
// It gets no trial question, as its answers may depend on how often it was asked.
var startupGrace = 500 * time.Millisecond

// checkStarted fails if the program has exited before it was asked anything.
func (p *program) checkStarted() error {
	wait := time.NewTimer(startupGrace)
	defer wait.Stop()
	select {
	case <-p.ended:
	case <-wait.C:
		return nil
	}
	procgroup.Kill(p.cmd) // it may only have closed its output
	p.reap()
	if p.long != nil {
		return p.failed(tooLong, mostAnswer>>20)
	}
	return p.failed("ended before it was asked anything%s; it must read questions, one a line, until its input ends", p.said.Last())
}

// checkPython fails if Python cannot compile the file. It does not run it.
func checkPython(ctx context.Context, cfg *configs.Config, path string) error {
	if err := checkText(cfg, path, false); err != nil {
		return err
	}
	const read = "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')"
	cmd := exec.CommandContext(ctx, cfg.Python, "-I", "-S", "-c", read, path)
	var said tail.Tail
	cmd.Stderr, cmd.WaitDelay = &said, outputGrace
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // Python is done, but a process that it started holds its output
		return nil
	}
	switch err := err.(type) {
	case nil:
		return nil
	case *exec.ExitError:
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return badinput.Errorf("env=%s: the file is no valid Python%s (for python=%s)", cfg.Env, said.Last(), cfg.Python)
	default:
		return badinput.Errorf("env=%s: python=%s cannot be started: %w; type python=FILE", cfg.Env, cfg.Python, err)
	}
}

// checkText refuses an empty file, and a script to be executed that has no #! line or names an interpreter that does not exist.
// Whether a binary can be executed is left to the system.
func checkText(cfg *configs.Config, path string, executed bool) error {
	f, err := os.Open(path)
	if err != nil {
		if executed && os.IsPermission(err) { // an executable file need not be readable
			return nil
		}
		return badinput.Errorf("env=%s: %w; expected a program", cfg.Env, err)
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if n < len(head) && err != io.ErrUnexpectedEOF && err != io.EOF {
		return badinput.Errorf("env=%s: %w", cfg.Env, err)
	}
	head = head[:n]
	if n < cap(head) && len(bytes.TrimSpace(head)) == 0 {
		return badinput.Errorf("env=%s: the file is empty; expected a program", cfg.Env)
	}
	if !executed || bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(head[:max(0, n-utf8.UTFMax)]) {
		return nil
	}
	first, said := strings.CutPrefix(string(head), "#!")
	first, _, _ = strings.Cut(first, "\n")
	words := strings.Fields(strings.TrimSuffix(first, "\r"))
	if !said || len(words) == 0 {
		return badinput.Errorf("env=%s: the first line of the file names no interpreter; expected one such as #!/usr/bin/env python3",
			cfg.Env)
	}
	if info, err := os.Stat(words[0]); err != nil || info.IsDir() || strings.HasSuffix(first, "\r") {
		return badinput.Errorf("env=%s: the first line of the file says %.80q, but there is no such program; expected a line such as "+
			"#!/usr/bin/env python3, with a Unix line end", cfg.Env, "#!"+first)
	}
	return nil
}
