package serve

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/loopback"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/adapters"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
)

// given checks the flags as typed. An empty name, such as that of an unset shell variable, must not count as none: a server without
// its keys answers everyone.
func (f *flags) given(typed *pflag.FlagSet) error {
	for _, name := range []string{"adapters", "run", "store", "sessions", "keys", "tls-cert", "tls-key"} {
		if flag := typed.Lookup(name); flag.Changed && flag.Value.String() == "" {
			return badinput.Errorf("--%s: found an empty name; type one, or leave --%s out", name, name)
		}
	}
	if f.newAdmin && !typed.Changed("new-key") {
		return badinput.Errorf("--admin is for a new key; type --new-key NAME --admin, or write admin behind its name " +
			"in the file of --keys")
	}
	return usage.CheckTemplateFlags(typed, f.speech.Renderer)
}

// check checks what can be checked before anything is loaded.
func (f *flags) check() (served serving.Options, local bool, err error) {
	if err := f.bounds(); err != nil {
		return served, false, err
	}
	if f.hosts, err = hostNames(f.hosts); err != nil {
		return served, false, err
	}
	if local, err = loopback.Is(f.listen); err != nil {
		return served, false, badinput.Errorf("--listen: %w", err)
	}
	if f.keys != "" {
		if f.gate.Keys, err = gate.ReadKeys(f.keys); err != nil {
			return served, local, fmt.Errorf("--keys: %w", err)
		}
	} else if !local {
		return served, local, badinput.Errorf("--listen %s: other machines can reach it without a key; type --keys FILE "+
			"(grpo serve --new-key NAME makes one)", f.listen)
	}
	if f.loadable != "" {
		if f.loadable, err = adapters.Directory(f.loadable); err != nil {
			return served, local, fmt.Errorf("--adapters: %w", err)
		}
	}
	if err = f.checkSessions(); err != nil {
		return served, local, err
	}
	if f.cert != "" {
		if f.door.TLS, err = gate.LoadTLS(f.cert, f.key); err != nil {
			return served, local, err
		}
	}
	if len(f.runs) > 1 {
		return served, local, badinput.Errorf("--run: found %d, expected one; serve several as adapters: --model DIR "+
			"--adapter NAME=RUN/checkpoints/step_N/adapter for each", len(f.runs))
	}
	if len(f.runs) > 0 {
		if err := f.openRun(); err != nil {
			return served, local, fmt.Errorf("--run: %w", err)
		}
	}
	served.Speech, served.Sampling = f.speech, f.sampling
	err = f.named(&served)
	return served, local, err
}

// bounds checks the numbers.
func (f *flags) bounds() error {
	for _, limit := range []struct {
		flag         string
		value, least int64
	}{{"max-n", int64(f.maxN), 1}, {"max-body", f.gate.MaxBody, 1}, {"concurrent", int64(f.gate.MaxConcurrent), 1},
		{"queue", int64(f.gate.MaxQueued), 1}, {"max-connections", int64(f.door.MaxConnections), 1},
		{"max-context", int64(f.sampling.MaxLength), 0}, {"max-sequences", int64(f.sampling.MaxSequences), 0},
		{"max-waiting", int64(f.sampling.MaxWaiting), 0},
		{"max-sessions", int64(f.maxSessions), 1}, {"max-adapters", int64(f.sampling.Adapters), 1}, {"cache-bytes", f.sampling.CacheBytes, 0},
		{"store-bytes", f.storeBytes, 0}} {
		if limit.value < limit.least {
			return badinput.Errorf("--%s: found %d, expected %d or more", limit.flag, limit.value, limit.least)
		}
	}
	if f.sampling.MaxLength == 1 {
		return badinput.Errorf("--max-context: found 1, expected room for a prompt and its completion, 2 or more")
	}
	if f.keepSessions < 0 {
		return badinput.Errorf("--keep-sessions: found %v, expected a time such as 720h, or 0", f.keepSessions)
	}
	if f.door.DrainTimeout <= 0 {
		return badinput.Errorf("--drain: found %v, expected a time above 0, such as 30s", f.door.DrainTimeout)
	}
	return nil
}

// hostNames are the host names in canonical form: in lower case, trimmed.
func hostNames(given []string) (names []string, err error) {
	for _, name := range given {
		if name == "" || net.ParseIP(name) == nil && strings.ContainsAny(name, ":/@?#[] \t\r\n") {
			return nil, badinput.Errorf("--host: found %q, expected a name alone, without scheme, port or spaces, such as gpu.example.com", name)
		}
		names = append(names, strings.ToLower(name))
	}
	return names, nil
}

// named parses the models and adapters to serve.
func (f *flags) named(o *serving.Options) error {
	if f.recorded != nil {
		f.recorded.serve(o)
		f.models = nil
	}
	for _, text := range f.models {
		m, err := serving.ParseNamedDir(text)
		if err != nil {
			return fmt.Errorf("--model: %w", err)
		}
		o.Models = append(o.Models, m)
		f.places = append(f.places, m)
	}
	for _, text := range f.adapters {
		a, err := serving.ParseNamedDir(text)
		if err != nil {
			return fmt.Errorf("--adapter: %w", err)
		}
		adapter := serving.Adapter{NamedDir: a}
		adapter.Name, adapter.Base, _ = strings.Cut(a.Name, "@")
		if err := serving.CheckName(adapter.Name); err != nil {
			return fmt.Errorf("--adapter %s: %w", text, err)
		}
		if adapter.Base == "" && len(o.Models) > 1 {
			return badinput.Errorf("--adapter %s: there are several models; type NAME@MODEL=DIR with the name of its base model", text)
		}
		if below := adapter.Base; below != "" && !slices.ContainsFunc(o.Models, func(m serving.NamedDir) bool { return m.Name == below }) {
			return badinput.Errorf("--adapter %s: there is no model %q; type NAME@MODEL=DIR with the name of a --model", text, below)
		}
		o.Adapters = append(o.Adapters, adapter)
	}
	return nil
}
