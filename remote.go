package grpo

import (
	"context"

	"github.com/seed-7879b91d/grpo/internal/remote"
)

// Remote is a trainer on a server (grpo serve --sessions): a program takes its steps from elsewhere, with Step, Sample, Save, Download
// and Finish. A call that was lost on its way is made again, and counts once.
type Remote = remote.Session[Metrics]

// RemoteOptions say on which server, with which settings, or which session is gone on with.
type RemoteOptions = remote.Options

// OpenRemote begins a session, or goes on with one.
func OpenRemote(ctx context.Context, o RemoteOptions) (*Remote, error) {
	return remote.Open[Metrics](ctx, o)
}
