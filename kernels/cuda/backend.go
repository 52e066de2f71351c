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

// kernelEntry matches the name of each kernel in a PTX file.
var kernelEntry = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

var _ interface { // and optional interfaces
	kernels.Backend
	kernels.Rounder
	kernels.Sizer
	kernels.Prober
} = (*Backend)(nil)

// Backend computes on a card. Its operations assume what kernels.Checked checks, and must be called by one goroutine at a time.
type Backend struct {
	device     *driver.Device
	stream     *driver.Stream
	moves      *driver.Transfers // all uploads and downloads
	modules    []*driver.Module
	kernels    map[string]*driver.Function
	tiled      map[tiledKernel]*driver.Function // those of attention, also in kernels
	products   *products
	memory     heap
	scratch    *driver.Memory // intermediate results of an operation between its launches
	failed     error          // the first failure since the last Sync
	ownsDevice bool           // the backend owns the device and closes it
}

// NewBackend loads all kernels on a card.
func NewBackend(d *driver.Device) (*Backend, error) {
	b := &Backend{device: d, kernels: map[string]*driver.Function{}, tiled: map[tiledKernel]*driver.Function{}}
	b.memory.live = map[*driver.Memory]struct{}{}
	if err := b.load(); err != nil {
		if closing := b.Close(); !errors.Is(err, driver.ErrLost) { // closing a lost card fails with the same error
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

// loadFiles lets the driver compile all PTX files in parallel, because that is slow on the first use of a card.
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
	for _, name := range kernelEntry.FindAllStringSubmatch(text, -1) {
		if b.kernels[name[1]] != nil {
			return fmt.Errorf("another file has a kernel %s, too", name[1])
		}
		if b.kernels[name[1]], err = m.Function(name[1]); err != nil {
			return err
		}
	}
	return nil
}

// OpenBackend opens a card by its index and returns a checked backend that owns it: Close closes both.
func OpenBackend(index int, o driver.Options) (kernels.Backend, error) {
	d, err := driver.Open(index, o)
	if err != nil {
		return nil, err
	}
	b, err := NewBackend(d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	b.ownsDevice = true
	return kernels.Checked(b), nil
}

// Name is the name of the card.
func (b *Backend) Name() string { return "cuda: " + b.device.Card().String() }

// Order is the same for all cards of a compute capability: the hardware determines the order of sums within mma, the kernels all others.
func (b *Backend) Order() string {
	return fmt.Sprintf("f32 in series, bf16 and gradients of weights by mma in steps of 16, compute capability %s", b.device.Card().Capability)
}

// Rounds reports true, because products of bf16 are fastest on a card.
func (b *Backend) Rounds() bool { return true }

// Sync waits for all queued work and returns the first failure since the last Sync.
func (b *Backend) Sync() error {
	b.note(b.moves.Sync())
	err := b.failed
	b.failed = nil
	return err
}

// Close waits for all queued work and frees everything on the card. The card stays open, unless OpenBackend opened it.
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
	if b.ownsDevice {
		failures = append(failures, b.device.Close())
	}
	for _, err := range failures {
		if errors.Is(err, driver.ErrLost) { // the others follow from it
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

// threads is the number of threads in a block of every kernel that launch queues; kernel.h relies on it.
const threads = 256

// launch queues a kernel, unless the grid is empty.
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

// blocks is the grid of blocks that handle n elements, `each` elements per block.
func blocks(n, each int) dims {
	count := (n + each - 1) / each
	if count > math.MaxInt32 {
		panic(fmt.Sprintf("cuda: %d numbers are too many for a launch", n))
	}
	return dims{X: count}
}

// gridOfFours is a grid with one thread for each four of n elements.
func gridOfFours(n int) dims { return blocks(n, 4*threads) }

// scratchFor returns scratch memory for the launches of one operation; the next operation overwrites it. It reports false if bytes is 0,
// or if the allocation failed, an error that Sync returns.
func (b *Backend) scratchFor(bytes int) (ptr, bool) {
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
