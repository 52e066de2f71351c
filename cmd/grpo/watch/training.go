package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/loopback"
	"github.com/seed-7879b91d/grpo/internal/samples/browser"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
	"github.com/seed-7879b91d/grpo/internal/watch"
)

// TrainingServer shows the run of this process to browsers. A nil TrainingServer does nothing.
type TrainingServer struct {
	listener net.Listener
	keys     *gate.Keys
	local    bool
	stderr   io.Writer
}

// Listen opens the address of the setting watch, if there is one, before anything is loaded. A dry run closes it again at once.
func Listen(cfg *configs.Config, dry bool, stderr io.Writer) (b *TrainingServer, err error) {
	if cfg.Watch == "" {
		return nil, nil
	}
	b = &TrainingServer{stderr: stderr}
	if b.local, err = loopback.Is(cfg.Watch); err != nil {
		return nil, badinput.Errorf("watch: %w", err)
	}
	switch {
	case cfg.ServeKeys != "":
		if b.keys, err = gate.ReadKeys(cfg.ServeKeys); err != nil {
			return nil, fmt.Errorf("serve_keys: %w", err)
		}
	case !b.local:
		return nil, badinput.Errorf("watch=%s: other machines can reach it without a key; type serve_keys=FILE "+
			"(grpo serve --new-key NAME makes one)", cfg.Watch)
	}
	if b.listener, err = net.Listen("tcp", cfg.Watch); err != nil {
		return nil, badinput.Errorf("watch: %w; type another address, such as watch=127.0.0.1:7771", err)
	}
	if dry {
		return nil, b.listener.Close()
	}
	return b, nil
}

// During shows the run of t while train runs. It reads files like grpo watch, so the run does not depend on it.
func (b *TrainingServer) During(ctx context.Context, t *grpo.Trainer, train func() error) error {
	if b == nil || t.RunDir() == "" {
		return train()
	}
	about := trainerInfo{ctx, t}
	o := watch.Options{Paths: []string{t.RunDir()}, AllowMissing: true, LowPriority: true, Statement: about.statement,
		Samples: browser.Lookup{Problem: about.problem, Pieces: about.pieces}}
	if b.local {
		o.Hosts = loopback.Names
	}
	if b.keys != nil {
		o.Authorize = b.keys.Contains
	}
	s, err := watch.New(o)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	where, elsewhere := addressOf(b.listener.Addr())
	if b.keys != nil {
		where += "?ticket=KEY"
	}
	fmt.Fprintf(b.stderr, "grpo: the run is at %s%s\n", where, elsewhere)
	if !b.local {
		fmt.Fprintln(b.stderr, "grpo: warning: keys are sent unencrypted; type watch=127.0.0.1:7770 behind a proxy with TLS")
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serve(ctx, s, b.listener) }()
	err = train()
	stop()
	return errors.Join(err, <-served)
}

// Close closes the address.
func (b *TrainingServer) Close() {
	if b != nil {
		b.listener.Close()
	}
}

// trainerInfo is what a trainer knows of its own run.
type trainerInfo struct {
	ctx context.Context
	*grpo.Trainer
}

func (t trainerInfo) statement(_, name string) string {
	p, _ := t.Pool().Problem(name)
	return p.Statement
}

func (t trainerInfo) problem(_, name string) *browser.Problem {
	if p, ok := t.Pool().Problem(name); ok {
		return browserProblem(t.ctx, &p)
	}
	return nil
}

func (t trainerInfo) pieces(_ string, tokens []int32) []string {
	return tokenTexts(t.Language().Tokenizer, tokens)
}
