// Package serve is the verb that serves policies to other programs: its flags, its help, and how the handlers are
// combined. It knows neither how a policy is opened nor the protocols.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/loopback"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/adapters"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
	"github.com/seed-7879b91d/grpo/internal/serving/openai"
	"github.com/seed-7879b91d/grpo/internal/serving/page"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/internal/serving/sessions"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Machine opens a device by the flags of the command line, and by the run's settings if there is a run. The caller closes it.
type Machine func(run *configs.Config) (kernels.Backend, model.Options, error)

// flags are the flags of the verb.
type flags struct {
	models, adapters []string
	runs             []string   // NAME=DIR, at most one
	recorded         *servedRun // that run; nil: none
	store            string
	sessions         string           // file with the configuration of sessions
	base             *configs.Config  // its content
	trainers         *sessions.Server // nil: none
	places           []serving.NamedDir
	loadable         string // directory that requests may load adapters from
	storeBytes       int64
	listen, newKey   string
	newAdmin         bool
	speech           serving.PromptOptions
	sampling         sampler.Options

	keys, cert, key string
	hosts, origins  []string
	maxN            int
	maxSessions     int
	keepSessions    time.Duration
	gate            gate.Options
	door            gate.ListenOptions
	page            page.Options
	level           slog.Level // of the log
	logPrompts      bool
	quiet           bool
}

// Command is the verb.
func Command(machine Machine) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "serve [--run NAME=DIR | --model NAME=DIR …] [--adapter NAME=DIR …]",
		Short: "Serve models and adapters by OpenAI's API",
		Long: `Serves models, and adapters over them, to any client of OpenAI's API: /v1/chat/completions, /v1/completions and /v1/models. The
same request with the same seed gets the same answer, whatever other requests run meanwhile. / is a page to chat with them.

--run serves the model of a run and, by the name of the run's directory, the policy of its last checkpoint, with the run's chat format
and numerics. While the run continues, newer checkpoints replace it.

On this machine's own address (--listen 127.0.0.1:8000) no key is needed. Any other address needs --keys, a file with a line for each
key; --new-key makes one. The first interrupt lets running answers finish, for at most --drain; the second stops at once.
docs/serve.md describes requests, metrics and limits.`,
		Example: `  grpo serve
  grpo serve --run runs/x
  grpo serve --model ~/Qwen3-0.6B --adapter trained=runs/x/checkpoints/step_000060/adapter
  grpo serve --new-key ada >> keys
  grpo serve --model ~/Qwen3-0.6B --listen 0.0.0.0:8443 --keys keys --tls-cert cert.pem --tls-key key.pem`,
		Args: usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.given(cmd.Flags()); err != nil {
				return err
			}
			if cmd.Flags().Changed("new-key") { // even if empty, which is refused
				return f.makeKey(cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return f.start(cmd.Context(), machine, cmd.ErrOrStderr())
		},
	}
	f.register(cmd)
	return cmd
}

func (f *flags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.models, "model", []string{"tiny"},
		"model to serve: `NAME=DIR`, DIR, a name on the Hub, or tiny; may be given several times")
	fl.StringArrayVar(&f.adapters, "adapter", nil,
		"PEFT adapter to serve: `NAME=DIR`, or NAME@MODEL=DIR if there are several models; may be given several times")
	fl.StringVar(&f.loadable, "adapters", "", "`directory` from which requests may load adapters (POST /v1/load_lora_adapter)")
	fl.IntVar(&f.sampling.Adapters, "max-adapters", serving.DefaultAdapters, "most adapters of a model at a time")
	fl.StringArrayVar(&f.runs, "run", nil,
		"run to serve, `NAME=DIR` or DIR: its model, and its policy as NAME, or by the name of the directory")
	fl.StringVar(&f.store, "store", "", "serve Tinker clients below /api/v1, and store what they train in this `directory`")
	fl.Int64Var(&f.storeBytes, "store-bytes", 0,
		"most `bytes` of the store; 0: all of its disk except the last GiB or twentieth")
	fl.StringVar(&f.sessions, "sessions", "",
		"`configuration` of training sessions of clients (POST /v1/sessions): a preset or a file; needs --store")
	fl.IntVar(&f.maxSessions, "max-sessions", 8, "most unfinished training sessions at a time")
	fl.DurationVar(&f.keepSessions, "keep-sessions", 0,
		"remove a finished session after this `time` without requests, such as 720h; 0: keep it until it is deleted")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8000", "`address` to listen on; port 0: any free port")
	fl.StringVar(&f.keys, "keys", "", "`file` of the accepted keys; a key with admin behind its name may also load and unload adapters")
	fl.StringVar(&f.newKey, "new-key", "", "make a key for `NAME`: print it to standard error, and its line for --keys to standard output")
	fl.BoolVar(&f.newAdmin, "admin", false, "with --new-key: the key may load and unload adapters")
	fl.StringVar(&f.cert, "tls-cert", "", "PEM `file` of the TLS certificate")
	fl.StringVar(&f.key, "tls-key", "", "PEM `file` of the certificate's private key")
	fl.StringArrayVar(&f.hosts, "host", nil, "host `name` to accept in requests, besides this machine's own; may be given several times")
	fl.StringArrayVar(&f.origins, "origin", nil,
		"`origin` of web pages that may send requests, such as https://example.com; may be given several times")
	fl.StringVar(&f.speech.Renderer, "renderer", "",
		"chat format: plain, "+strings.Join(chat.Names(), ", ")+"; if not given, the model's template")
	fl.StringVar(&f.speech.ChatDate, "chat-date", configs.Defaults().ChatDate, "`day` that the model's chat template uses as today")
	fl.StringVar(&f.speech.ChatVars, "chat-vars", "", "`JSON` object of variables for the model's chat template")
	fl.IntVar(&f.sampling.MaxLength, "max-context", 0,
		"most `tokens` of a prompt with its completion; 0: 4,096, or the model's positions if these are fewer")
	fl.IntVar(&f.sampling.MaxSequences, "max-sequences", 0, "completions sampled at a time; 0: 64")
	fl.BoolVar(&f.sampling.NoDrafts, "no-drafts", false,
		"no speculative decoding, which is used where it is faster. Answers do not depend on it")
	fl.IntVar(&f.sampling.MaxWaiting, "max-waiting", 0, "most waiting prompts of a key for a model; more are refused (429); 0: 1,024")
	fl.Int64Var(&f.sampling.CacheBytes, "cache-bytes", 0,
		"memory of a model's KV cache; 0: room for --max-sequences of --max-context, up to half of the free memory")
	fl.IntVar(&f.maxN, "max-n", 128, "most completions of each prompt of a request")
	fl.Int64Var(&f.gate.MaxBody, "max-body", 4<<20, "most `bytes` of a request")
	fl.IntVar(&f.gate.MaxConcurrent, "concurrent", 64, "most running requests of a key")
	fl.IntVar(&f.gate.MaxQueued, "queue", 256, "most waiting requests of a key; more are told to retry later (429)")
	fl.IntVar(&f.door.MaxConnections, "max-connections", 1024, "most connections at a time; more are closed")
	fl.DurationVar(&f.door.DrainTimeout, "drain", 30*time.Second, "`time` for running answers to finish when the server stops")
	fl.BoolVar(&f.logPrompts, "log-prompts", false, "also log the prompts")
	fl.BoolVar(&f.quiet, "quiet", false, "log nothing")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	for _, own := range []string{"model", "renderer", "chat-date", "chat-vars"} {
		cmd.MarkFlagsMutuallyExclusive("run", own)
	}
}

func (f *flags) makeKey(out, aside io.Writer) error {
	key, line, err := gate.NewKey(f.newKey)
	if err != nil {
		return fmt.Errorf("--new-key: %w", err)
	}
	fmt.Fprintf(aside, "grpo: the key of %s, which is shown this once: %s\n", f.newKey, key)
	if f.newAdmin {
		line += " admin"
	}
	fmt.Fprintln(out, line)
	return nil
}

func (f *flags) start(ctx context.Context, machine Machine, stderr io.Writer) (err error) {
	options, local, err := f.check()
	if err != nil {
		return err
	}
	if f.recorded != nil {
		if _, err := f.recorded.saved.Language(ctx); err != nil { // also checks that the weights are unchanged
			return fmt.Errorf("--run: %w", err)
		}
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return badinput.Errorf("--listen: %w; type another address, such as --listen 127.0.0.1:8001", err)
	}
	defer listener.Close()
	if options.Backend, options.Model, err = machine(f.recorded.settings()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, options.Backend.Close()) }()
	host, err := serving.Open(ctx, options)
	if err != nil {
		return err
	}
	if local {
		f.gate.Hosts = slices.Concat(loopback.Names, f.hosts)
	}
	f.page = f.recorded.page(f.gate.Keys != nil)
	g, tinkerServer, err := f.open(host, stderr)
	if err != nil {
		return err
	}
	defer f.hearHangups(ctx, g.Log)()
	if tinkerServer != nil {
		defer context.AfterFunc(ctx, tinkerServer.Drain)()
		defer func() { err = errors.Join(err, tinkerServer.Close()) }()
	}
	if f.trainers != nil {
		defer context.AfterFunc(ctx, f.trainers.Drain)()
		defer func() { err = errors.Join(err, f.trainers.Close()) }()
	}
	f.greet(stderr, listener.Addr(), host)
	if !local && f.door.TLS == nil {
		fmt.Fprintln(stderr, "grpo: warning: keys travel in the clear; type --tls-cert FILE --tls-key FILE, "+
			"or --listen 127.0.0.1:8000 behind a proxy that has TLS")
	}
	return f.serve(ctx, g, host, listener)
}

// open combines the handlers behind the gate.
func (f *flags) open(host *serving.Host, stderr io.Writer) (g *gate.Gate, tinkerServer *tinker.Server, err error) {
	log := slog.New(slog.DiscardHandler)
	if !f.quiet {
		log = slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: f.level}))
	}
	mux := http.NewServeMux()
	api := openai.New(openai.NewHost(host, f.speech), openai.Options{
		MaxN:        f.maxN,
		OtherRoutes: f.extraRoutes(),
		Methods:     func(r *http.Request) []string { return refusal.Methods(mux, r, "/") },
		ClientID:    gate.KeyName,
		OnAnswer: func(s openai.Latency) {
			g.Metrics.CountAnswer(s.Model, s.First)
		},
		OnUsage: func(d openai.TokenUsage) { g.Metrics.CountTokens(d.Model, d.Prompt, d.Cached, d.Completion) },
		OnError: func(r *http.Request, err error) { f.refused(log.With("id", r.Header.Get("X-Request-Id")), err) },
	})
	mux.Handle("/", api)
	mux.Handle("/v1/models", api) // or the mux would redirect DELETE of it to /v1/models/
	adapters.New(host, adapters.Options{
		Dir:       f.loadable,
		Authorize: f.adminOnly(),
		OnChange:  func(loaded int) { g.Metrics.SetAdapters(loaded) },
		OnError:   func(r *http.Request, err error) { f.refused(log.With("id", r.Header.Get("X-Request-Id")), err) },
	}).Register(mux)
	f.page.Authorized = func(ctx context.Context) bool { return gate.KeyName(ctx) != "" }
	welcome := page.New(f.page)
	for _, path := range page.Paths() {
		mux.Handle(path, welcome)
	}
	f.gate.PathLimits = func(path string) (int64, bool, bool) { return 0, page.Public(path), false }
	if f.store != "" {
		if tinkerServer, err = tinker.New(tinker.Options{Store: f.store, Bases: tinker.Bases(host), Log: log,
			Owner: f.owner(), MaxStoreBytes: f.storeBytes}); err != nil {
			return nil, nil, fmt.Errorf("--store: %w", err)
		}
		mux.Handle("/api/v1/", tinkerServer)
		f.gate.PathLimits = func(path string) (int64, bool, bool) {
			bytes, public, own := tinkerServer.PathLimits(path)
			return bytes, public || page.Public(path), own
		}
	}
	if err := f.openSessions(host, mux, tinkerServer, log); err != nil {
		if tinkerServer != nil {
			err = errors.Join(err, tinkerServer.Close())
		}
		return nil, nil, err
	}
	f.gate.Log, f.gate.LogBodies, f.gate.Origins, f.gate.Healthy = log, f.logPrompts, f.origins, host.Healthy
	if g, err = gate.New(mux, f.gate); err != nil {
		if tinkerServer != nil {
			err = errors.Join(err, tinkerServer.Close())
		}
		return nil, nil, badinput.Errorf("--origin: %w; expected one such as https://example.com", err)
	}
	return g, tinkerServer, nil
}

// owner returns the name of a request's key, if there are keys.
func (f *flags) owner() func(*http.Request) string {
	if f.gate.Keys == nil {
		return nil
	}
	return func(r *http.Request) string { return gate.KeyName(r.Context()) }
}

// adminOnly refuses requests whose key may not load and unload adapters; nil: no keys are needed.
func (f *flags) adminOnly() func(*http.Request) error {
	if f.gate.Keys == nil {
		return nil
	}
	return func(r *http.Request) error {
		if gate.Admin(r.Context()) {
			return nil
		}
		return refusal.Errorf(http.StatusForbidden, "the key %s may neither load nor unload adapters; write admin behind its name in the "+
			"file of --keys, and send the server SIGHUP", gate.KeyName(r.Context()))
	}
}

// refused logs a refused request. The error may quote the request, so it is only logged where prompts are.
func (f *flags) refused(log *slog.Logger, err error) {
	theirs := (*refusal.Error)(nil)
	switch {
	case openai.ClientLeft(err):
		log.Info("the client left")
	case !errors.As(err, &theirs) || theirs.Status >= 500:
		log.Error("not answered", "why", err.Error())
	case f.logPrompts:
		log.Info("refused", "why", err.Error())
	default:
		log.Info("refused", "status", theirs.Status, "field", theirs.Param, "code", theirs.Code)
	}
}

// serve samples and answers until the context ends.
func (f *flags) serve(ctx context.Context, g *gate.Gate, host *serving.Host, listener net.Listener) error {
	drawing, stop := context.WithCancel(context.WithoutCancel(ctx)) // requests in progress may finish
	defer stop()
	drawn := make(chan error, 1)
	served, fail := context.WithCancel(ctx)
	defer fail()
	go func() {
		drawn <- host.Run(drawing)
		fail() // the backend failed: stop serving
	}()
	following := f.recorded.follow(served, host, g.Log)
	err := g.Serve(served, listener, f.door, openai.ShutdownCause())
	stop()
	<-following
	if why := <-drawn; !errors.Is(why, context.Canceled) {
		err = errors.Join(why, err)
	}
	return err
}
