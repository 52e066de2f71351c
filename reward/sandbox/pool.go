package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
)

// Pool is a set of cells that run programs.
type Pool struct {
	factory  workerFactory
	queue    *queue // of slots, each the right to run one program now
	places   *queue // of slots whose cells hold the process of a session, also between its calls
	sessions holders
	report   Report

	closing context.Context
	close   context.CancelFunc
	once    sync.Once
}

// workerFactory makes the workers of one rung.
type workerFactory interface {
	open(ctx context.Context, slot int) (worker, error)
	close()
}

// worker runs one test at a time. After an error, or when it is no longer usable, it is closed and
// replaced.
type worker interface {
	run(ctx context.Context, p Program, in Input, l Limits) (Result, error)
	usable() bool
	close()
}

// slot is the right to run one program at a time, with the worker that runs it, nil until it is needed.
type slot struct {
	number int
	worker worker
}

func (s *slot) close() {
	if s.worker != nil {
		s.worker.close()
	}
}

// maxCode is the largest size of a program in bytes. No honest one comes near it.
const maxCode = 4 << 20

// ReadyTimeout is how long a cell may take to start: to import its modules, some tens of milliseconds on a machine that is not
// overloaded, and to run Options.Preload.
const ReadyTimeout = 60 * time.Second

// attempts is how often a run is tried when the machine fails, each time on a fresh cell.
const attempts = 4

// Open builds a pool with the strongest isolation that this machine allows, found by trying: it takes the
// highest rung on which a cell can be made and every attack fails. Wrong options, or a machine that allows
// no isolation at all, are an input error: errors.As finds it as an interface{ BadInput() bool }.
func Open(ctx context.Context, o Options) (*Pool, error) {
	slots, err := countSlots(o.Slots)
	if err != nil {
		return nil, err
	}
	py, err := findInterpreter(ctx, o.Python)
	if err != nil {
		return nil, err
	}
	var passed []Refusal
	for rung := RungFull; rung >= RungUnsafe; rung-- {
		if o.Strongest != 0 && rung > o.Strongest {
			continue
		}
		if rung == RungUnsafe && !o.Unsafe {
			break
		}
		p, err := openRung(ctx, rung, slots, o, py)
		if err == nil {
			p.report.Passed = passed
			return p, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var low *lowLimit
		if errors.As(err, &low) && !o.Unsafe {
			return nil, badinput.Errorf("%w", low) // it would fail lower rungs as well
		}
		passed = append(passed, Refusal{rung, err.Error()})
	}
	return nil, refuse(passed)
}

// lowLimit is the error that a resource limit of this process is lower than what programs need.
type lowLimit struct{ text string }

func (l *lowLimit) Error() string { return l.text }

func countSlots(n int) (int, error) {
	if n > 0 {
		return n, nil
	}
	const variable = "SANDBOX_MAX_CONCURRENCY"
	text := os.Getenv(variable)
	if n < 0 || text == "" {
		return runtime.NumCPU(), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, badinput.Errorf("environment variable %s is %q, expected a number of programs to run at once", variable, text)
	}
	return n, nil
}

func refuse(passed []Refusal) error {
	text := "this machine can isolate no program:"
	for _, r := range passed {
		text += fmt.Sprintf(" %s: %s;", r.Rung, r.Why)
	}
	return badinput.Errorf("%s %s", text, remedy(text))
}

// remedy says what the user can do about the reasons for which programs cannot be isolated, or not even started.
func remedy(why string) string {
	_, err := os.Stat("/proc/self/exe")
	advice := processLimitAdvice()
	switch {
	case advice != "":
		return advice
	case strings.Contains(why, syscall.EMFILE.Error()):
		return "raise the number of files that a process may open, as with ulimit -n 1024"
	case strings.Contains(strings.ToLower(why), syscall.EAGAIN.Error()):
		return "the system gives no more processes or threads: end some, or raise what it allows (ulimit -u, pids.max of a container)"
	case runtime.GOOS == "linux" && err != nil:
		return "there is no /proc here: mount it first, as with mount -t proc proc /proc"
	}
	return "run on Linux 5.13 or later with user namespaces or landlock, or accept that programs can do whatever you can with sandbox=unsafe"
}

// openRung builds a pool on one rung, and attacks it unless it is RungUnsafe.
func openRung(ctx context.Context, rung Rung, slots int, o Options, py *interpreter) (*Pool, error) {
	k, err := newWorkerFactory(rung, py, o.Preload)
	if err != nil {
		return nil, err
	}
	p := &Pool{factory: k, report: Report{
		Rung: rung, Python: py.Exe, Version: py.Version, Slots: slots, NotProtected: notProtected(rung),
	}}
	p.closing, p.close = context.WithCancel(context.Background())
	p.queue, p.places = newQueue(0, slots), newQueue(slots, cmp.Or(max(o.Sessions, 0), 4*slots))
	// The first cell is not retried as later ones are: a failure here means that the rung is not available.
	first := p.queue.free[slots-1]
	if first.worker, err = k.open(ctx, first.number); err != nil {
		first.worker = nil
	} else if err = p.expectWork(ctx); err == nil && rung != RungUnsafe {
		p.report.Claims, err = p.prove(ctx, py)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Isolation reports how programs are isolated in this pool.
func (p *Pool) Isolation() Report { return p.report }

// ErrClosed is the error of runs on a pool that has been closed.
var ErrClosed = errors.New("the sandbox pool is closed")

// Run runs the program on the inputs in order and calls each with every result, until each returns
// false. It is safe for concurrent use. When all slots are busy, groups take turns, however many runs
// of a group are waiting; each is called while no slot is held. The error is the context's, ErrClosed, an *InfraError, or names an
// input whose Args are not JSON.
func (p *Pool) Run(ctx context.Context, group string, prog Program, inputs []Input, l Limits,
	each func(i int, r Result) (more bool)) error {
	precondition.NotNil("sandbox.Pool.Run", "ctx", ctx)
	l = l.effective()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.closing, cancel)()
	for i, in := range inputs {
		r, err := p.runOne(ctx, group, prog, in, l)
		if p.closing.Err() != nil {
			return ErrClosed
		}
		if err != nil {
			return err
		}
		if r.Status == RTE { // such an input fails every program: that says nothing about this one
			if err := in.check(prog); err != nil {
				return fmt.Errorf("sandbox: input %d: %w", i, err)
			}
		}
		precondition.NotNil("sandbox.Pool.Run", "each", each)
		if !each(i, r) {
			return nil
		}
	}
	return nil
}

func (p *Pool) runOne(ctx context.Context, group string, prog Program, in Input, l Limits) (Result, error) {
	if len(prog.Code) > maxCode {
		return Result{Status: CE, Stderr: fmt.Sprintf("the program has %d bytes; at most %d are compiled", len(prog.Code), maxCode)}, nil
	}
	s, err := p.queue.acquire(ctx, group)
	if err != nil {
		return Result{}, err
	}
	defer p.queue.release(s)
	for attempt := 1; ; attempt++ {
		r, err := p.try(ctx, s, prog, in, l)
		if err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		if attempt == attempts {
			if advice := processLimitAdvice(); advice != "" {
				err = fmt.Errorf("%w; %s", err, advice)
			}
			return Result{}, &InfraError{Attempts: attempt, Err: err}
		}
		pause(ctx, 5*time.Millisecond<<(2*attempt)) // 20, 80, 320 ms, for file descriptors or disk space to be freed
	}
}

// try runs a test once, on the slot's worker or a new one. A worker that cannot be reused is
// closed.
func (p *Pool) try(ctx context.Context, s *slot, prog Program, in Input, l Limits) (r Result, err error) {
	if s.worker == nil {
		if s.worker, err = p.factory.open(ctx, s.number); err != nil {
			s.worker = nil
			return r, err
		}
	}
	r, err = s.worker.run(ctx, prog, in, l)
	if err != nil || !s.worker.usable() {
		s.worker.close()
		s.worker = nil
	}
	return r, err
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Close ends every cell and waits until they are gone. Runs in progress fail with ErrClosed.
func (p *Pool) Close() error {
	p.once.Do(func() {
		p.close()
		for range p.report.Slots {
			// Runs in progress fail and release their slots. A slot taken here is never released again.
			s, _ := p.queue.acquire(context.Background(), "")
			s.close()
		}
		p.sessions.closeAll()
		for range p.places.slots {
			s, _ := p.places.acquire(context.Background(), "")
			s.close()
		}
		p.factory.close()
	})
	return nil
}
