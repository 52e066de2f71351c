package serve

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// hangups is a context in which SIGHUP has the file of keys read again, which ends no answer. Without such a file it ends the context,
// as the first interrupt does: a terminal that is closed cuts no answer off, either. Where it is ignored (nohup), that stays so.
func (f *flags) hangups(ctx context.Context, log *slog.Logger) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	keys := f.gate.Keys
	if keys == nil && signal.Ignored(syscall.SIGHUP) {
		return ctx, stop
	}
	hung := make(chan os.Signal, 1)
	signal.Notify(hung, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hung)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hung:
			}
			if keys == nil {
				stop()
				return
			}
			if err := keys.Reread(); err != nil {
				log.Error("the keys stay as they are", "file", f.keys, "why", err.Error())
				continue
			}
			log.Info("the keys are read again", "file", f.keys)
		}
	}()
	return ctx, stop
}
