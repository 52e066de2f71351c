package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// Kit has the tools of one conversation, which are called one at a time.
type Kit struct {
	all   *Servers
	own   map[*host]*link // sessions of this conversation alone
	wrong int
}

// Kit opens the tools of a conversation. If there are isolated servers it waits for a slot; each is started by the first call to
// it.
func (all *Servers) Kit(ctx context.Context) (*Kit, error) {
	if all.places != nil {
		select {
		case all.places <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return &Kit{all: all, own: map[*host]*link{}}, nil
}

// Has reports whether there is a tool of that name.
func (k *Kit) Has(name string) bool { return k.find(name) >= 0 }

func (k *Kit) find(name string) int {
	return slices.IndexFunc(k.all.tools, func(t Tool) bool { return t.Name == name })
}

// Wrong counts the calls that failed.
func (k *Kit) Wrong() int { return k.wrong }

// Call calls an existing tool.
func (k *Kit) Call(ctx context.Context, name string, args json.RawMessage) (string, error) {
	t := k.all.tools[k.find(name)]
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	if !json.Valid(args) || bytes.TrimSpace(args)[0] != '{' {
		k.wrong++
		return "error: the arguments are no JSON object", nil
	}
	l := t.at.shared
	if t.at.Isolate {
		if l = k.own[t.at]; l == nil {
			l = k.all.link(t.at)
			k.own[t.at] = l
		}
	}
	select {
	case t.at.slots <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-t.at.slots }()
	text, wrong, err := l.call(ctx, t.ServerName, args)
	if wrong {
		k.wrong++
	}
	return strings.ToValidUTF8(text, "\ufffd"), err
}

// Close ends the sessions of the conversation.
func (k *Kit) Close() {
	var wait sync.WaitGroup
	for _, l := range k.own {
		wait.Go(l.close)
	}
	wait.Wait()
	if k.all.places != nil {
		<-k.all.places
	}
}
