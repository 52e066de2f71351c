package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/mcp"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/reward/tools"
)

// kit has the tools of a conversation, those of the sandbox and those of MCP servers, and counts calls that failed.
type kit struct {
	local   *tools.Kit
	servers *mcp.Kit
	unknown int // calls of tools that do not exist
}

// Wrong counts the calls that failed.
func (k *kit) Wrong() int {
	wrong := k.unknown
	if k.local != nil {
		wrong += k.local.Stats().Wrong
	}
	if k.servers != nil {
		wrong += k.servers.Wrong()
	}
	return wrong
}

// Call calls a tool of the sandbox or of a server by its name.
func (k *kit) Call(ctx context.Context, name string, args json.RawMessage) (string, error) {
	switch {
	case k.servers != nil && k.servers.Has(name):
		text, err := k.servers.Call(ctx, name, args)
		return tools.Fit(text, tools.DefaultText), err
	case k.local != nil && (k.servers == nil || slices.Contains(tools.Names(), name)):
		return k.local.Call(ctx, name, args)
	}
	k.unknown++
	return fmt.Sprintf("there is no tool %.40q", name), nil
}

func (k *kit) Close() {
	if k.servers != nil {
		k.servers.Close()
	}
	if k.local != nil {
		k.local.Close()
	}
}

// openTools opens env=tools. From then on the language's prompts tell the model of the tools.
func (r *Sampler) openTools(ctx context.Context, cfg *configs.Config, l *sources.Language, j *judging.Judging) error {
	o := options(cfg, j)
	o.Tools = cfg.Tools
	if o.Judge == nil && len(o.Tools) > 0 {
		return badinput.Errorf("env=tools runs programs in a sandbox, and the grader is the program's own; type env=%s or none",
			CallerEnvironment)
	}
	if cfg.MCP != "" {
		if err := r.startServers(ctx, cfg); err != nil {
			return err
		}
	}
	l.Tools = func(ctx context.Context, p *data.Problem) (list []chat.Tool, err error) {
		if len(o.Tools) > 0 {
			k, err := tools.Open(ctx, p, o)
			if err != nil {
				return nil, err
			}
			defer k.Close()
			for _, t := range k.Tools() {
				list = append(list, t.Schema())
			}
		}
		for _, t := range r.servers.Tools() {
			list = append(list, t.Schema)
		}
		return list, nil
	}
	r.env = episode.Tools(func(ctx context.Context, p *data.Problem) (episode.Kit, error) {
		made := &kit{}
		var err error
		if r.servers != nil { // everyone takes a server's slot before a sandbox: a fixed order cannot deadlock
			if made.servers, err = r.servers.Kit(ctx); err != nil {
				return nil, err
			}
		}
		if len(o.Tools) > 0 {
			made.local, err = tools.Open(ctx, p, o)
		}
		if err != nil && made.servers != nil {
			made.servers.Close()
		}
		return made, err
	}, j.Grader)
	return nil
}

// startServers starts the MCP servers that the settings name.
func (r *Sampler) startServers(ctx context.Context, cfg *configs.Config) error {
	named, err := mcp.Read(cfg.MCP)
	if err != nil {
		return err
	}
	o := mcp.Options{CallTimeout: time.Duration(cfg.TurnSeconds * float64(time.Second)), ReservedNames: cfg.Tools}
	if r.servers, err = mcp.Open(ctx, named, o); err != nil {
		return fmt.Errorf("%w (or 'grpo tool mcp %s')", err, cfg.MCP)
	}
	r.Notes = append(r.Notes, r.servers.Notes...)
	r.close = func() error {
		r.servers.Close()
		return nil
	}
	return nil
}
