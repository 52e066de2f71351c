package readers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/rows"
	"github.com/seed-7879b91d/grpo/internal/rows/wandb"
	"github.com/seed-7879b91d/grpo/internal/tail"
)

// HandOver says at the end of a run which commands read it. With WANDB_MODE=online it has the installed client send the run,
// unless the user stopped the run. With quiet it reports only failures.
func HandOver(ctx context.Context, cfg *configs.Config, dir string, quiet bool, say func(string)) {
	for _, l := range wanted(cfg, dir) {
		f, err := rows.Open(dir)
		if err != nil {
			continue // the run has reported it
		}
		command := l.ReadCommand(l.dir, f.Run)
		switch {
		case l.Name == "wandb" && os.Getenv("WANDB_MODE") == "online" && ctx.Err() == nil:
			if err := sync(ctx, filepath.Join(l.dir, wandb.Folder(f.Run))); err != nil {
				say(fmt.Sprintf("wandb: the run was not sent: %v, then type %s", err, command))
			} else if !quiet {
				say("wandb: sent by " + command)
			}
		case !quiet:
			say(l.Name + ": type " + command)
		}
	}
}

// afterEnd is how long the client's child processes, such as its service, may keep its output open after it ended.
const afterEnd = 2 * time.Second

// sync lets the client send an offline run.
func sync(ctx context.Context, dir string) error {
	client, err := exec.LookPath("wandb")
	if err != nil {
		return errors.New("WANDB_MODE=online needs the command wandb, which is not on PATH; pip install wandb")
	}
	cmd := exec.CommandContext(ctx, client, "sync", dir)
	said := &tail.Tail{}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = afterEnd
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("wandb sync: %w%s; fix that", err, said.Last())
	}
	return nil
}
