package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/loopback"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
	"github.com/seed-7879b91d/grpo/internal/serving/page"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
)

// TrainingServer serves the policy that this process trains, as of the last complete step. A nil TrainingServer does nothing.
type TrainingServer struct {
	flags    flags
	listener net.Listener
	stderr   io.Writer
	local    bool       // only reachable from this machine
	turn     sync.Mutex // of the trainer, and of the samplers that serve

	backend kernels.Backend
	trainer *grpo.Trainer

	base  serving.NamedDir
	name  string // of the trained policy
	fresh chan trainedPolicy
	step  atomic.Int64 // of the served policy
}

// trainedPolicy is the policy after a step.
type trainedPolicy struct {
	step    int
	adapter *lora.Adapter
}

// drainTimeout is how long requests in progress may take when the training ends.
const drainTimeout = 2 * time.Second

// Listen opens the address of the setting serve, if there is one, before anything is loaded. A dry run closes it again at once.
func Listen(cfg *configs.Config, dry bool, stderr io.Writer) (b *TrainingServer, err error) {
	if cfg.Serve == "" {
		return nil, nil
	}
	b = &TrainingServer{stderr: stderr, fresh: make(chan trainedPolicy, 1)}
	f := &b.flags
	f.listen, f.keys, f.level, f.door.DrainTimeout = cfg.Serve, cfg.ServeKeys, slog.LevelError, drainTimeout
	f.speech = serving.PromptOptions{Renderer: cfg.Renderer, ChatDate: cfg.ChatDate, ChatVars: cfg.ChatVars}
	if b.local, err = loopback.Is(cfg.Serve); err != nil {
		return nil, badinput.Errorf("serve: %w", err)
	}
	switch {
	case cfg.ServeKeys != "":
		if f.gate.Keys, err = gate.ReadKeys(cfg.ServeKeys); err != nil {
			return nil, fmt.Errorf("serve_keys: %w", err)
		}
	case !b.local:
		return nil, badinput.Errorf("serve=%s: other machines can reach it without a key; type serve_keys=FILE "+
			"(grpo serve --new-key NAME makes one)", cfg.Serve)
	}
	if b.local {
		f.gate.Hosts = loopback.Names
	}
	if b.base, err = serving.DefaultName(cfg.Model); err != nil {
		return nil, err
	}
	if b.listener, err = net.Listen("tcp", cfg.Serve); err != nil {
		return nil, badinput.Errorf("serve: %w; type another address, such as serve=127.0.0.1:8001", err)
	}
	if dry {
		return nil, b.listener.Close()
	}
	return b, nil
}

// Open opens a trainer like grpo.Open, such that its policy can be served.
func (b *TrainingServer) Open(ctx context.Context, cfg *configs.Config, backend kernels.Backend, w grpo.Watcher, options ...grpo.Option) (
	t *grpo.Trainer, err error) {
	if b == nil {
		return grpo.Open(ctx, cfg, backend, w, options...)
	}
	b.backend = backend
	b.trainer, err = grpo.Open(ctx, cfg, backend, servedWatcher{w, b}, append(options, grpo.WithTurn(&b.turn))...)
	return b.trainer, err
}

// servedWatcher is the watcher of a run that is served.
type servedWatcher struct {
	grpo.Watcher
	beside *TrainingServer
}

func (w servedWatcher) StepDone(m grpo.Metrics, t grpo.Timing, a []grpo.Advice) {
	w.Watcher.StepDone(m, t, a)
	if err := w.beside.offer(m.Step); err != nil {
		w.Warn(fmt.Sprintf("step %d is not served: %v", m.Step, err))
	}
}

// offer passes the policy to publish, replacing one that publish has not taken yet.
func (b *TrainingServer) offer(step int) error {
	b.turn.Lock()
	a, err := b.trainer.Policy().Adapter()
	b.turn.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-b.fresh:
	default:
	}
	b.fresh <- trainedPolicy{step, a}
	return nil
}

// During serves the trainer that Open has opened, while train runs.
func (b *TrainingServer) During(ctx context.Context, train func() error) error {
	if b == nil {
		return train()
	}
	host, err := b.open()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	g, _, err := b.flags.open(host, b.stderr)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	b.flags.greet(b.stderr, b.listener.Addr(), host)
	if !b.local {
		fmt.Fprintln(b.stderr, "grpo: warning: keys travel in the clear; type serve=127.0.0.1:8000 behind a proxy that has TLS")
	}
	defer b.flags.hearHangups(ctx, g.Log)()
	ctx, stop := context.WithCancel(ctx)
	served, published := make(chan error, 1), make(chan struct{})
	go func() { served <- b.flags.serve(ctx, g, host, b.listener) }()
	go func() {
		defer close(published)
		b.publish(ctx, host, g.Log)
	}()
	err = train()
	stop()
	<-published
	return errors.Join(err, <-served)
}

// Close closes the address.
func (b *TrainingServer) Close() {
	if b != nil {
		b.listener.Close()
	}
}

// open makes a host over the weights in training, with the current policy.
func (b *TrainingServer) open() (*serving.Host, error) {
	t := b.trainer
	cfg := t.Settings()
	sampling, err := footprint.SamplerBesideTraining(t.Policy())
	if err != nil {
		return nil, err
	}
	sampling.NoDrafts = !cfg.Speculate
	host, err := serving.NewHostOver(b.backend, &b.turn, b.base.Name, t.Language(), t.Policy(), sampling)
	if err != nil {
		return nil, err
	}
	b.name = filepath.Base(cmp.Or(t.RunDir(), "trained"))
	if b.name == b.base.Name || serving.CheckName(b.name) != nil {
		b.name = "trained"
	}
	if err := b.offer(t.StepsDone()); err != nil {
		return nil, err
	}
	if _, err := b.serve(host, <-b.fresh); err != nil {
		return nil, err
	}
	about := &b.flags.page
	about.Keys, about.Report = b.flags.gate.Keys != nil, filepath.Join(t.RunDir(), "report.html")
	about.PromptTemplate, _ = sources.PromptTemplate(cfg)
	about.Run = func() *page.Run {
		return &page.Run{Name: b.name, Step: int(b.step.Load()), Base: b.base.Name, Trained: b.name, Temperature: cfg.Temperature,
			Follows: true, GoesOn: true}
	}
	return host, nil
}

// serve serves a policy under the run's name.
func (b *TrainingServer) serve(host *serving.Host, now trainedPolicy) (freed <-chan struct{}, err error) {
	if freed, err = host.Publish(b.name, b.base.Name, now.adapter); err == nil {
		b.step.Store(int64(now.step))
	}
	return freed, err
}

// publish serves the policy of each step, or the latest of several, until ctx ends.
func (b *TrainingServer) publish(ctx context.Context, host *serving.Host, log *slog.Logger) {
	freed := make(chan struct{})
	for read := 0; ; {
		fresh := b.fresh
		if read > 1 { // two old ones are still in use beside the current one: there is no slot for another
			fresh = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-freed:
			read--
		case now := <-fresh:
			later, err := b.serve(host, now)
			if err != nil {
				log.Error("a step is not served", "step", now.step, "why", err.Error())
				continue
			}
			read++
			go func() {
				<-later
				select {
				case freed <- struct{}{}:
				case <-ctx.Done():
				}
			}()
		}
	}
}
