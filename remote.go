package grpo

import (
	"context"

	"github.com/seed-7879b91d/grpo/internal/remote"
)

// Remote is the client of a trainer on a server (grpo serve --sessions), with Step, Sample, Save, Download and Finish.
// A call that is lost on the network is retried, and takes effect once.
type Remote = remote.Session[Metrics]

// RemoteOptions name the server and the settings of a new session, or the session to continue.
type RemoteOptions = remote.Options

// OpenRemote starts a session, or continues one.
func OpenRemote(ctx context.Context, o RemoteOptions) (*Remote, error) {
	return remote.Open[Metrics](ctx, o)
}
