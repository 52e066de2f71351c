package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

// watchTime is how long an idle worker stays awake.
const watchTime = C.WATCH_MICROSECONDS * time.Microsecond

// A pool is the caller of run and the threads that help it; see pool.c.
type pool struct{ c *C.grpo_pool }

func newPool(workers int) (pool, error) {
	c := C.grpo_pool_open(C.int(workers))
	if c == nil {
		return pool{}, fmt.Errorf("cpu: the system gives no %d threads", workers)
	}
	return pool{c}, nil
}

// run does the tasks and waits. A goroutine that is 10 ms on a processor without a pause, as Go sees it, wakes
// the monitor that then looks every few microseconds for more of its kind; so it pauses in time.
func (p pool) run(kernel *C.grpo_kernel, args unsafe.Pointer, tasks, grain int) {
	C.grpo_pool_start(p.c, kernel, args, C.int64_t(tasks), C.int64_t(grain))
	for C.grpo_pool_work(p.c) != 0 {
		runtime.Gosched()
	}
}

func (p pool) close() { C.grpo_pool_close(p.c) }
