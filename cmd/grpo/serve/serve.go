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
	runs             []string  // NAME=DIR, at most one
	recorded         *recorded // that run; nil: none
	store            string
	sessions         string           // file with the configuration of sessions
	base             *configs.Config  // its content
	trainers         *sessions.Server // nil: none
	places           []serving.NamedDir
	loadable         string // directory that requests may load adapters from
	storeBytes       int64
	listen, newKey   string
	newAdmin         bool
	speech           serving.Speech
	sampling         sampler.Options

	keys, cert, key string
	hosts, origins  []string
	maxN            int
	maxSessions     int
	keepSessions    time.Duration
	gate            gate.Options
	door            gate.Door
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
		Short: "Serve policies to clients of OpenAI's API",
		Long: `Serves models, and adapters over them, to any client of OpenAI's API: /v1/chat/completions, /v1/completions and
/v1/models. The same request with the same seed gets the same answer, whatever else is asked meanwhile. At / there is a page to
talk to them.

With --run, it serves the model of a run and, named as the run's directory, the policy of its last checkpoint, in the words that it
was trained with. While the run goes on, newer checkpoints take its place.

On this machine's own address (--listen 127.0.0.1:8000) nobody needs a key. On any other one there must be --keys, a file with a
line for each; --new-key makes one. The first interrupt lets running answers finish, for --drain at the most; the second ends at once.
docs/serve.md has the fields of requests, metrics, and limits.`,
		Example: `  grpo serve
  grpo serve --run runs/x
  grpo serve --model ~/Qwen3-0.6B --adapter trained=runs/x/checkpoints/step_000060/adapter
  grpo serve --new-key ada >> keys
  grpo serve --model ~/Qwen3-0.6B --listen 0.0.0.0:8443 --keys keys --tls-cert cert.pem --tls-key key.pem`,
		Args: usage.Takes(),
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
		"PEFT adapter to serve, `NAME=DIR`; NAME@MODEL=DIR where there are several models")
	fl.StringVar(&f.loadable, "adapters", "", "`directory` below which requests may load adapters from (POST /v1/load_lora_adapter)")
	fl.IntVar(&f.sampling.Adapters, "max-adapters", serving.UsualAdapters, "adapters of a model at a time")
	fl.StringArrayVar(&f.runs, "run", nil,
		"run to serve, `NAME=DIR` or DIR: its model, and its policy, which is NAME or goes by the directory's name")
	fl.StringVar(&f.store, "store", "", "`directory` of what Tinker's clients train: with it they are served, below /api/v1")
	fl.Int64Var(&f.storeBytes, "store-bytes", 0,
		"`bytes` that the store may have; 0: as many as its disk has, but for the last GiB or twentieth")
	fl.StringVar(&f.sessions, "sessions", "",
		"`configuration`, a preset or a file, that training sessions of clients begin with (POST /v1/sessions); needs --store")
	fl.IntVar(&f.maxSessions, "max-sessions", 8, "training sessions that are not finished, at a time")
	fl.DurationVar(&f.keepSessions, "keep-sessions", 0,
		"`time` after which a finished session is removed that nobody asks for, such as 720h; 0: it stays until it is deleted")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8000", "`address` to listen on; port 0: any that is free")
	fl.StringVar(&f.keys, "keys", "", "`file` of the keys that may ask; admin behind the name of one: it may load and unload adapters, too")
	fl.StringVar(&f.newKey, "new-key", "", "make a key for `NAME`: it goes to standard error, and its line for --keys to standard output")
	fl.BoolVar(&f.newAdmin, "admin", false, "of --new-key: the key may load and unload adapters")
	fl.StringVar(&f.cert, "tls-cert", "", "certificate, a PEM `file`")
	fl.StringVar(&f.key, "tls-key", "", "its key, a PEM `file`")
	fl.StringArrayVar(&f.hosts, "host", nil, "`name` that requests may be sent to, besides this machine's own; may be given several times")
	fl.StringArrayVar(&f.origins, "origin", nil,
		"`origin` of pages that may ask from a browser, such as https://example.com; may be given several times")
	fl.StringVar(&f.speech.Renderer, "renderer", "",
		"chat format: plain, "+strings.Join(chat.Names(), ", ")+"; if not given, the model's template")
	fl.StringVar(&f.speech.ChatDate, "chat-date", configs.Defaults().ChatDate, "`day` that the model's template takes for today")
	fl.StringVar(&f.speech.ChatVars, "chat-vars", "", "`JSON` object with variables of the model's template")
	fl.IntVar(&f.sampling.MaxLength, "max-context", 0,
		"`tokens` of a prompt and its completion; 0: 4,096, or the model's positions where they are fewer")
	fl.IntVar(&f.sampling.MaxSequences, "max-sequences", 0, "completions at work at a time; 0: 64")
	fl.BoolVar(&f.sampling.NoDrafts, "no-drafts", false,
		"compute one token of a completion at a time; else those that may come next, too, where that is faster. Answers do not depend on it")
	fl.IntVar(&f.sampling.MaxWaiting, "max-waiting", 0, "prompts of a key that wait for a model, beyond which it gets no more; 0: 1,024")
	fl.Int64Var(&f.sampling.CacheBytes, "cache-bytes", 0,
		"memory for keys and values of a model; 0: for --max-sequences of --max-context, but no more than half of what is free")
	fl.IntVar(&f.maxN, "max-n", 128, "completions of each prompt of a request at the most")
	fl.Int64Var(&f.gate.MaxBody, "max-body", 4<<20, "`bytes` of a request at the most")
	fl.IntVar(&f.gate.Concurrent, "concurrent", 64, "requests of a key at work at a time")
	fl.IntVar(&f.gate.Queue, "queue", 256, "requests of a key that wait beside them; more are told to come back later (429)")
	fl.IntVar(&f.door.Connections, "max-connections", 1024, "connections at a time; more are closed")
	fl.DurationVar(&f.door.Drain, "drain", 30*time.Second, "`time` that running answers have when the server stops")
	fl.BoolVar(&f.logPrompts, "log-prompts", false, "log what is asked, too")
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
	g, tuition, err := f.open(host, stderr)
	if err != nil {
		return err
	}
	defer f.hearHangups(ctx, g.Log)()
	if tuition != nil {
		defer context.AfterFunc(ctx, tuition.Drain)()
		defer func() { err = errors.Join(err, tuition.Close()) }()
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
func (f *flags) open(host *serving.Host, stderr io.Writer) (g *gate.Gate, tuition *tinker.Server, err error) {
	log := slog.New(slog.DiscardHandler)
	if !f.quiet {
		log = slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: f.level}))
	}
	mux := http.NewServeMux()
	api := openai.New(openai.Of(host, f.speech), openai.Options{
		MaxN:    f.maxN,
		Beside:  f.beside(),
		Methods: func(r *http.Request) []string { return refusal.Methods(mux, r, "/") },
		From:    gate.KeyName,
		Watch: func(s openai.Served) {
			g.Metrics.Answer(s.Model, s.First)
		},
		Drawn:   func(d openai.Drawn) { g.Metrics.Drawn(d.Model, d.Prompt, d.Cached, d.Completion) },
		Refused: func(r *http.Request, err error) { f.refused(log.With("id", r.Header.Get("X-Request-Id")), err) },
	})
	mux.Handle("/", api)
	mux.Handle("/v1/models", api) // or the mux would redirect DELETE of it to /v1/models/
	adapters.New(host, adapters.Options{
		Dir:     f.loadable,
		Barred:  f.barred(),
		Changed: func(loaded int) { g.Metrics.Adapters(loaded) },
		Refused: func(r *http.Request, err error) { f.refused(log.With("id", r.Header.Get("X-Request-Id")), err) },
	}).Register(mux)
	f.page.Known = func(ctx context.Context) bool { return gate.KeyName(ctx) != "" }
	welcome := page.New(f.page)
	for _, path := range page.Paths() {
		mux.Handle(path, welcome)
	}
	f.gate.Own = func(path string) (int64, bool, bool) { return 0, page.Public(path), false }
	if f.store != "" {
		if tuition, err = tinker.New(tinker.Options{Store: f.store, Bases: tinker.Bases(host), Log: log,
			Owner: f.owner(), Room: f.storeBytes}); err != nil {
			return nil, nil, fmt.Errorf("--store: %w", err)
		}
		mux.Handle("/api/v1/", tuition)
		f.gate.Own = func(path string) (int64, bool, bool) {
			bytes, public, own := tuition.Own(path)
			return bytes, public || page.Public(path), own
		}
	}
	if err := f.openSessions(host, mux, tuition, log); err != nil {
		if tuition != nil {
			err = errors.Join(err, tuition.Close())
		}
		return nil, nil, err
	}
	f.gate.Log, f.gate.Bodies, f.gate.Origins, f.gate.Healthy = log, f.logPrompts, f.origins, host.Healthy
	if g, err = gate.New(mux, f.gate); err != nil {
		if tuition != nil {
			err = errors.Join(err, tuition.Close())
		}
		return nil, nil, badinput.Errorf("--origin: %w; expected one such as https://example.com", err)
	}
	return g, tuition, nil
}

// owner returns the name of a request's key, if there are keys.
func (f *flags) owner() func(*http.Request) string {
	if f.gate.Keys == nil {
		return nil
	}
	return func(r *http.Request) string { return gate.KeyName(r.Context()) }
}

// barred refuses requests whose key may not load and unload adapters; nil: no keys are needed.
func (f *flags) barred() func(*http.Request) error {
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
	case openai.Left(err):
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
	err := g.Serve(served, listener, f.door, openai.Stopping())
	stop()
	<-following
	if why := <-drawn; !errors.Is(why, context.Canceled) {
		err = errors.Join(why, err)
	}
	return err
}
