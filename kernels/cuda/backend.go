//go:build gpu

package cuda

import (
	"embed"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"sync"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

//go:embed ptx/*.ptx
var ptxFiles embed.FS

// entry finds the kernels of a file.
var entry = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

var _ interface { // and what a backend may tell besides
	kernels.Backend
	kernels.Rounder
	kernels.Sizer
	kernels.Prober
} = (*Backend)(nil)

// Backend computes on a card. Its operations take for granted what kernels.Checked checks, and are called by one goroutine at a
// time.
type Backend struct {
	device   *driver.Device
	stream   *driver.Stream
	moves    *driver.Transfers // by which everything goes up and comes down
	modules  []*driver.Module
	kernels  map[string]*driver.Function
	tiled    map[tiledKernel]*driver.Function
	products *products
	memory   heap
	scratch  *driver.Memory // what an operation keeps between two of its launches
	failed   error          // the first failure since Sync told one
	alone    bool           // nobody else uses the device, which is closed with the backend
}

// NewBackend loads all kernels on a card.
func NewBackend(d *driver.Device) (*Backend, error) {
	b := &Backend{device: d, kernels: map[string]*driver.Function{}, tiled: map[tiledKernel]*driver.Function{}}
	b.memory.live = map[*driver.Memory]struct{}{}
	if err := b.load(); err != nil {
		if closing := b.Close(); !errors.Is(err, driver.ErrLost) { // else it is the same once more
			err = errors.Join(err, closing)
		}
		return nil, err
	}
	return b, nil
}

func (b *Backend) load() (err error) {
	if b.stream, err = b.device.NewStream(); err != nil {
		return err
	}
	if b.moves, err = b.stream.NewTransfers(); err != nil {
		return err
	}
	if err = b.loadFiles(); err != nil {
		return err
	}
	if err = b.allowAttention(); err != nil {
		return err
	}
	b.products, err = newProducts(b.device.Card(), func(name string) (*driver.Function, error) {
		if f := b.kernels[name]; f != nil {
			return f, nil
		}
		return nil, fmt.Errorf("there is no kernel %s", name)
	})
	return err
}

// loadFiles has the driver compile all files at once: on a card that never ran them it takes its time.
func (b *Backend) loadFiles() error {
	files, err := ptxFiles.ReadDir("ptx")
	if err != nil {
		return err
	}
	texts, modules, failed := make([]string, len(files)), make([]*driver.Module, len(files)), make([]error, len(files))
	for i, f := range files {
		text, err := ptxFiles.ReadFile(path.Join("ptx", f.Name()))
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	var all sync.WaitGroup
	for i, text := range texts {
		all.Go(func() { modules[i], failed[i] = b.device.Load(text) })
	}
	all.Wait()
	for i, m := range modules {
		if m != nil {
			b.modules = append(b.modules, m)
		}
		if failed[i] == nil {
			failed[i] = b.addKernels(m, texts[i])
		}
		if failed[i] != nil && err == nil {
			err = fmt.Errorf("%s: %w", files[i].Name(), failed[i])
		}
	}
	return err
}

func (b *Backend) addKernels(m *driver.Module, text string) (err error) {
	for _, name := range entry.FindAllStringSubmatch(text, -1) {
		if b.kernels[name[1]] != nil {
			return fmt.Errorf("another file has a kernel %s, too", name[1])
		}
		if b.kernels[name[1]], err = m.Function(name[1]); err != nil {
			return err
		}
	}
	return nil
}

// OpenBackend opens a card by its number, and gives a checked backend that has it for itself: Close gives back both.
func OpenBackend(index int, o driver.Options) (kernels.Backend, error) {
	d, err := driver.Open(index, o)
	if err != nil {
		return nil, err
	}
	b, err := NewBackend(d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	b.alone = true
	return kernels.Checked(b), nil
}

// Name is the card's.
func (b *Backend) Name() string { return "cuda: " + b.device.Card().String() }

// Order is one for all cards of a compute capability: how a card sums within mma is its own affair, and all else is the kernels'.
func (b *Backend) Order() string {
	return fmt.Sprintf("f32 in series, bf16 and gradients of weights by mma in steps of 16, compute capability %s", b.device.Card().Capability)
}

// Rounds is so: products of bf16 are what a card is made for.
func (b *Backend) Rounds() bool { return true }

// Sync waits for all that was queued, and tells the first failure since it last did.
func (b *Backend) Sync() error {
	b.note(b.moves.Sync())
	err := b.failed
	b.failed = nil
	return err
}

// Close waits, and gives back everything that was taken from the card. The card stays open, unless OpenBackend opened it.
func (b *Backend) Close() error {
	var failures []error
	if b.moves != nil {
		failures = append(failures, b.Sync(), b.moves.Close())
	}
	failures = append(failures, b.memory.freeAll())
	for _, m := range b.modules {
		failures = append(failures, m.Close())
	}
	if b.stream != nil {
		failures = append(failures, b.stream.Close())
	}
	b.modules, b.stream, b.moves = nil, nil, nil
	if b.alone {
		failures = append(failures, b.device.Close())
	}
	for _, err := range failures {
		if errors.Is(err, driver.ErrLost) { // and so are all the others
			return err
		}
	}
	return errors.Join(failures...)
}

// note keeps a failure for Sync.
func (b *Backend) note(err error) {
	if b.failed == nil {
		b.failed = err
	}
}

// threads are those of a block, whatever the kernel: kernel.h counts on it.
const threads = 256

// launch queues a kernel, if there is anything to do.
func (b *Backend) launch(name string, grid dims, args ...arg) {
	if grid.X == 0 {
		return
	}
	f := b.kernels[name]
	if f == nil {
		panic(fmt.Sprintf("cuda: there is no kernel %s", name))
	}
	b.note(b.stream.Launch(f, grid, dims{X: threads}, 0, args...))
}

// blocks is how many blocks treat n things, of which each has so many.
func blocks(n, each int) dims {
	count := (n + each - 1) / each
	if count > math.MaxInt32 {
		panic(fmt.Sprintf("cuda: %d numbers are too many for a launch", n))
	}
	return dims{X: count}
}

// fours is a thread for each four of n numbers.
func fours(n int) dims { return blocks(n, 4*threads) }

// between gives memory that holds so many bytes from one launch to the next; false where there is nothing to hold, or it could not
// be had, which Sync tells.
func (b *Backend) between(bytes int) (ptr, bool) {
	if bytes == 0 {
		return 0, false
	}
	if b.scratch != nil && b.scratch.Bytes >= int64(bytes) {
		return b.scratch.At, true
	}
	if b.scratch != nil {
		b.note(b.moves.Sync())
		b.note(b.memory.free(b.scratch))
		b.scratch = nil
	}
	m, err := b.memory.take(b, int64(bytes))
	if err != nil {
		b.note(err)
		return 0, false
	}
	b.scratch = m
	return m.At, true
}
