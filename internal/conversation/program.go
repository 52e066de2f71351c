package conversation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/procgroup"
	"github.com/seed-7879b91d/grpo/internal/tail"
	"github.com/seed-7879b91d/grpo/sampler"
)

// mostAnswer is the longest answer. Without a limit, a program that prints forever would fill the memory before its time is up.
const mostAnswer = 16 << 20

const tooLong = "answered with a line of more than %d MiB; make it shorter"

// outputGrace is how long its child processes may keep the program's output open after it ended.
const outputGrace = 2 * time.Second

// program is the environment of env=program: one process of the user's, which answers requests, one line of JSON each. It has all
// conversations, each with an ID, and one request at a time.
type program struct {
	path   string
	within time.Duration // limit for one answer

	mu     sync.Mutex
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan []byte   // of its standard output; closed at the end of it
	ended  chan struct{} // closed after lines
	long   error         // valid once lines is closed: the last line was too long
	said   tail.Tail     // the end of its standard error
	opened int           // conversations opened so far
	asked  int           // questions asked so far
	broken error
}

// request is a request to the program: one of Open, Turn and Close.
type request struct {
	ID       int          `json:"id"`
	Question int          `json:"question"` // numbered from 1 over all conversations
	Open     *data.Record `json:"open,omitempty"`
	Turn     *turn        `json:"turn,omitempty"`
	Close    bool         `json:"close,omitempty"`
}

// turn is a turn of the model, as the program reads it.
type turn struct {
	Text   string               `json:"text"`
	Turn   int                  `json:"turn"` // counts from 0
	Last   bool                 `json:"last"` // no other turn follows
	Finish sampler.FinishReason `json:"finish_reason"`
}

// reply is the program's answer, which may be {} for Open and Close. If it repeats the question's number, the number must be right:
// that detects an extra line printed while the next question was being asked.
type reply struct {
	Question *int           `json:"question"`
	Messages []chat.Message `json:"messages"`
	Reward   float64        `json:"reward"`
	Over     bool           `json:"over"`
	Error    string         `json:"error"`
}

// program starts the program of env=program:FILE.
func (r *Sampler) program(ctx context.Context, cfg *configs.Config) error {
	path := cfg.EnvProgram()
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return badinput.Errorf("env=%s: this is no ordinary file; expected a program, such as env=program:./env.py", cfg.Env)
	case err != nil:
		return badinput.Errorf("env=%s: found no such file; expected a program, such as env=program:./env.py", cfg.Env)
	}
	args := []string{path}
	switch {
	case filepath.Ext(path) == ".py":
		args, err = []string{cfg.Python, path}, checkPython(ctx, cfg, path)
	case info.Mode()&0o111 == 0:
		return badinput.Errorf("env=%s: the file is neither Python (.py) nor may be executed; type chmod +x %s", cfg.Env,
			display.ShellQuote(path))
	case !strings.ContainsRune(path, filepath.Separator):
		args = []string{"." + string(filepath.Separator) + path}
		fallthrough
	default:
		err = checkText(cfg, path, true)
	}
	if err != nil {
		return err
	}
	p := &program{path: path, within: time.Duration(cfg.TurnSeconds * float64(time.Second)), cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Stderr, p.cmd.WaitDelay, p.lines = &p.said, outputGrace, make(chan []byte, 1)
	p.ended = make(chan struct{})
	procgroup.Set(p.cmd)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return badinput.Errorf("env=%s cannot be started: %w", cfg.Env, err)
	}
	go p.listen(out)
	r.env, r.close = p, p.end
	return p.checkStarted()
}

// listen passes on the lines of the program's output, until it ends.
func (p *program) listen(out io.Reader) {
	defer close(p.ended)
	defer close(p.lines)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, mostAnswer)
	for lines.Scan() {
		p.lines <- bytes.Clone(lines.Bytes())
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		p.long = lines.Err()
	}
}

// end closes the program's input, and kills it if it does not exit by itself in time.
func (p *program) end() error {
	if p.cmd.ProcessState != nil {
		return nil // already gone
	}
	late := time.AfterFunc(p.within, func() { procgroup.Kill(p.cmd) })
	defer late.Stop()
	_ = p.in.Close()
	p.reap()
	return nil // its exit code does not matter here
}

// reap waits for the program to exit, and kills what it left running.
func (p *program) reap() {
	heard := make(chan struct{})
	go func() { // drains its output, or it may block on a full pipe
		defer close(heard)
		for range p.lines {
		}
	}()
	_ = p.cmd.Wait()
	procgroup.Kill(p.cmd)
	<-heard
}

// ask asks one question. After a failure the program is asked nothing more, as its next answer could be to an earlier question.
func (p *program) ask(ctx context.Context, q request) (a reply, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return a, err
	}
	if p.broken != nil {
		return a, p.broken
	}
	p.asked++
	q.Question = p.asked
	text, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	line, err := p.exchange(ctx, append(text, '\n'))
	if err == nil {
		a, err = p.read(line)
	}
	if p.broken = err; cancelled(ctx) && err != nil {
		return a, context.Cause(ctx)
	}
	return a, err
}

// cancelled reports whether the context was cancelled, as by an interruption. A timeout is not: other questions are asked after it.
func cancelled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// exchange writes a line and reads the answer. If it fails or is called off, the program is gone afterwards.
func (p *program) exchange(ctx context.Context, line []byte) (answer []byte, err error) {
	select {
	case early, there := <-p.lines:
		if there { // or each answer from now on would be taken for that to another question
			return nil, p.failed("printed %.200q without being asked; print one line for each line read, and everything else to standard "+
				"error", early)
		}
	default:
	}
	over := make(chan struct{})
	giveUp := sync.OnceFunc(func() {
		procgroup.Kill(p.cmd)
		_ = p.in.Close() // a process that the program left behind may hold the pipe without reading it
		close(over)
	})
	timer := time.AfterFunc(p.within, giveUp)
	heeds := context.AfterFunc(ctx, func() {
		if cancelled(ctx) {
			giveUp()
		}
	})
	there := false
	if _, err = p.in.Write(line); err == nil {
		select {
		case answer, there = <-p.lines:
		case <-over:
		}
	}
	inTime, off := timer.Stop(), !heeds() && cancelled(ctx)
	if there && inTime && !off {
		return answer, nil
	}
	procgroup.Kill(p.cmd)
	p.reap() // its standard error is complete now
	switch {
	case off:
		return nil, p.failed("was stopped, as its question was cancelled")
	case !inTime:
		return nil, p.failed("gave no answer within turn_seconds=%g; make it faster, or raise turn_seconds", p.within.Seconds())
	case p.long != nil:
		return nil, p.failed(tooLong, mostAnswer>>20)
	}
	return nil, p.failed("ended without an answer%s; it must answer each line that it reads, until its input ends", p.said.Last())
}

// read parses an answer.
func (p *program) read(line []byte) (a reply, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err = d.Decode(&a); err == nil {
		err = jsonl.CheckEnd(line, d.InputOffset())
	}
	if err != nil {
		return a, p.failed("answered %.200q (%v); expected a line such as "+
			`{"messages": [{"role": "user", "content": "…"}], "reward": 0.5, "over": false}`, bytes.TrimSpace(line), jsonl.Explain(err))
	}
	if a.Error != "" {
		return a, p.failed("reports: %s", a.Error)
	}
	if a.Question != nil && *a.Question != p.asked {
		return a, p.failed(`answered question %d when it was asked question %d; print one line for each line read, with its "question"`,
			*a.Question, p.asked)
	}
	return a, nil
}

func (p *program) failed(format string, args ...any) error {
	return badinput.Errorf("env=program:%s %s", p.path, fmt.Sprintf(format, args...))
}

// Open opens a conversation about a problem. The program gets the problem with its tests.
func (p *program) Open(ctx context.Context, problem *data.Problem) (episode.Episode, error) {
	record := data.Record{Problem: *problem}
	if problem.NumTests > 0 {
		var err error
		if record.Tests, err = problem.Tests(ctx); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	p.opened++
	id := p.opened
	p.mu.Unlock()
	if _, err := p.ask(ctx, request{ID: id, Open: &record}); err != nil {
		return nil, err
	}
	return &programEpisode{p, id}, nil
}

// programEpisode is one conversation with the program.
type programEpisode struct {
	*program
	id int
}

func (o *programEpisode) Turn(ctx context.Context, said episode.Said) (episode.Answer, error) {
	a, err := o.ask(ctx, request{ID: o.id, Turn: &turn{Text: said.Raw, Turn: said.Turn, Last: said.Last, Finish: said.Finish}})
	if err == nil && !a.Over && !said.Last && len(a.Messages) == 0 {
		err = o.failed(`answered a turn without "messages" and without "over": true; unless "last" is true, one of them is needed`)
	}
	return episode.Answer{Messages: a.Messages, Reward: a.Reward, Over: a.Over}, err
}

func (o *programEpisode) Close() error {
	if o.fault() != nil {
		return nil // the failure has ended the episode
	}
	_, err := o.ask(context.Background(), request{ID: o.id, Close: true})
	return err
}

// fault is the error after which the program is asked nothing more.
func (p *program) fault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}
