package version

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"
)

// patience is how long git may take, as it might have to walk millions of files, or remote ones.
var patience = 5 * time.Second

// Checkout is the commit checked out in the working directory, and whether files differ from it; "" without git.
func Checkout() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	commit, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return ""
	}
	changes, err := git(ctx, "status", "--porcelain")
	switch {
	case err != nil:
		return commit + ", changes unknown"
	case changes != "":
		return commit + " with changes"
	}
	return commit
}

// git runs git without optional locks, which could make a user's commit fail. Processes that it leaves may keep the pipe open.
func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks"}, args...)...)
	cmd.WaitDelay = patience / 5
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return strings.TrimSpace(string(out)), err
}
