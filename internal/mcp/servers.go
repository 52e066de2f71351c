package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

const (
	callsAtOnce = 8  // calls to one server
	apartAtOnce = 32 // conversations with isolated servers
)

// Options say how servers are called.
type Options struct {
	CallTimeout   time.Duration // limit for a call
	ReservedNames []string      // names of other tools
}

// Tool is a tool of a server, under the name that the model calls it by.
type Tool struct {
	Name       string
	Server     string
	ServerName string          // its name on the server
	Schema     json.RawMessage // a function as in "tools" of OpenAI's requests

	at *host
}

// host is a server, with what its conversations share.
type host struct {
	Server
	shared *link
	slots  chan struct{} // semaphore of concurrent calls
}

// Servers are the servers of a file.
type Servers struct {
	// Notes say which tools were renamed.
	Notes []string

	options Options
	waits   patience
	hosts   []*host
	tools   []Tool
	places  chan struct{} // semaphore of conversations with isolated servers; nil: there are none
}

// Open starts or connects to all servers at once, and lists their tools.
func Open(ctx context.Context, servers []Server, o Options) (*Servers, error) {
	return openWith(ctx, servers, o, usualPatience)
}

func openWith(ctx context.Context, servers []Server, o Options, p patience) (*Servers, error) {
	all := &Servers{options: o, waits: p}
	found := make([][]*sdk.Tool, len(servers))
	errs := make([]error, len(servers))
	var wait sync.WaitGroup
	for i := range servers {
		h := &host{Server: servers[i], slots: make(chan struct{}, callsAtOnce)}
		h.shared = all.link(h)
		all.hosts = append(all.hosts, h)
		if h.Isolate && all.places == nil {
			all.places = make(chan struct{}, apartAtOnce)
		}
		wait.Go(func() { found[i], errs[i] = h.list(ctx) })
	}
	wait.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = all.name(found)
	}
	if err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

func (all *Servers) link(h *host) *link {
	return &link{server: &h.Server, within: all.options.CallTimeout, patience: all.waits, begins: make(chan struct{}, 1)}
}

// list asks a server for its tools. An isolated server is started just for this.
func (h *host) list(ctx context.Context) (tools []*sdk.Tool, err error) {
	s, err := h.shared.get(ctx)
	if err != nil {
		return nil, h.advice(err)
	}
	missing := slices.Clone(h.Tools)
	names := []string{}
	limited, cancel := context.WithTimeout(ctx, h.shared.start)
	defer cancel()
	for t, err := range s.Tools(limited, nil) {
		switch {
		case err != nil && ctx.Err() == nil && limited.Err() != nil:
			err = fmt.Errorf("(%s) did not answer \"tools/list\" within %v%s", &h.Server, h.shared.start, s.said.Last())
			return nil, h.advice(&UnavailableError{h.Name, err})
		case err != nil:
			return nil, h.advice(fmt.Errorf("mcp: the server %q does not list its tools: %w%s", h.Name, err, s.said.Last()))
		}
		names = append(names, t.Name)
		if h.Tools == nil || slices.Contains(h.Tools, t.Name) {
			tools = append(tools, t)
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == t.Name })
		}
	}
	switch {
	case len(missing) > 0:
		return nil, badinput.Errorf("mcp: server %q: tools: it has no tool %q; it has %s", h.Name, missing[0], strings.Join(names, ", "))
	case len(tools) == 0:
		return nil, badinput.Errorf("mcp: the server %q has no tools; take it out of the file, or set \"disabled\": true", h.Name)
	}
	if h.Isolate {
		h.shared.drop(s)
	}
	return tools, nil
}

// advice says what to do about a server that cannot be started.
func (h *host) advice(err error) error {
	var down *UnavailableError
	if !errors.As(err, &down) {
		return err
	}
	do := "run its command by itself to see what is wrong"
	if h.URL != "" {
		do = "check that the server is up, and its headers"
	}
	return badinput.Errorf("%w; %s", err, do)
}

var illegal = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// legal is a name with only characters that every chat format can write.
func legal(name string) string {
	name = illegal.ReplaceAllString(name, "_")
	return name[:min(len(name), 64)]
}

// once removes duplicates from the tools of a server: they could not be told apart in a call.
func (all *Servers) once(h *host, listed []*sdk.Tool) (tools []*sdk.Tool) {
	for _, t := range listed {
		if slices.ContainsFunc(tools, func(u *sdk.Tool) bool { return u.Name == t.Name }) {
			note := fmt.Sprintf("mcp: the server %s lists its tool %s more than once; it is taken as listed first", h.Name, t.Name)
			if !slices.Contains(all.Notes, note) {
				all.Notes = append(all.Notes, note)
			}
			continue
		}
		tools = append(tools, t)
	}
	return tools
}

// name gives all tools unique names: their own, prefixed by their server's if several have the same.
func (all *Servers) name(found [][]*sdk.Tool) error {
	for i, h := range all.hosts {
		found[i] = all.once(h, found[i])
	}
	times := map[string]int{}
	for _, name := range all.options.ReservedNames {
		times[name]++
	}
	for _, tools := range found {
		for _, t := range tools {
			times[legal(t.Name)]++
		}
	}
	used := slices.Clone(all.options.ReservedNames)
	for i, tools := range found {
		h := all.hosts[i]
		for _, t := range tools {
			name := legal(t.Name)
			if times[name] > 1 {
				name = legal(h.Name + "_" + t.Name)
			}
			if name != t.Name {
				all.Notes = append(all.Notes, fmt.Sprintf("mcp: the tool %s of the server %s is called %s", t.Name, h.Name, name))
			}
			if slices.Contains(used, name) {
				return badinput.Errorf("mcp: two tools would be called %s; give the server %q another name, or list its \"tools\"", name, h.Name)
			}
			used = append(used, name)
			schema, err := describe(name, t)
			if err != nil {
				return fmt.Errorf("mcp: server %q: tool %s: %w", h.Name, t.Name, err)
			}
			all.tools = append(all.tools, Tool{Name: name, Server: h.Name, ServerName: t.Name, Schema: schema, at: h})
		}
	}
	return nil
}

// describe is a tool in the form of requests.
func describe(name string, t *sdk.Tool) (json.RawMessage, error) {
	type function struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Parameters  any    `json:"parameters"`
	}
	parameters, _ := t.InputSchema.(map[string]any)
	if parameters == nil {
		parameters = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	delete(parameters, "$schema")
	return json.Marshal(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", function{name, t.Description, parameters}})
}

// Tools are the tools of all servers.
func (all *Servers) Tools() []Tool {
	if all == nil {
		return nil
	}
	return all.tools
}

// String is a summary for messages.
func (all *Servers) String() string {
	var parts []string
	for _, h := range all.hosts {
		var names []string
		for _, t := range all.tools {
			if t.at == h {
				names = append(names, t.Name)
			}
		}
		parts = append(parts, h.Name+" ("+strings.Join(names, ", ")+")")
	}
	return strings.Join(parts, ", ")
}

// Close ends all servers that were started.
func (all *Servers) Close() {
	var wait sync.WaitGroup
	for _, h := range all.hosts {
		wait.Go(h.shared.close)
	}
	wait.Wait()
}
