package version

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"
)

// patience is how long git may take: a run does not wait for it to walk a tree of millions of files, or one that is far away.
var patience = 5 * time.Second

// Checkout is the commit that is checked out here, and whether files differ from it; "" without git.
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

// git says what git says, which takes no lock that somebody's commit would meet. What it leaves running may keep its pipe.
func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks"}, args...)...)
	cmd.WaitDelay = patience / 5
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return strings.TrimSpace(string(out)), err
}
