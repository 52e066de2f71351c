package serve

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// RereadsKeys is set while SIGHUP makes the server reread its keys, and so does not stop the program.
var RereadsKeys atomic.Bool

// hearHangups rereads the keys at each SIGHUP, if there is a file of keys, until deaf is called. Requests in progress are not affected.
func (f *flags) hearHangups(ctx context.Context, log *slog.Logger) (deaf func()) {
	keys := f.gate.Keys
	if keys == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	RereadsKeys.Store(true)
	hung, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hung, syscall.SIGHUP)
	go func() {
		defer close(ended)
		defer RereadsKeys.Store(false)
		defer signal.Stop(hung)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hung:
			}
			if err := keys.Reread(); err != nil {
				log.Error("the keys could not be read again, and stay as they were", "file", f.keys, "why", err.Error())
				continue
			}
			log.Info("the keys were read again", "file", f.keys)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
