//go:build gpu

package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"github.com/seed-7879b91d/grpo/kernels/cuda/emu"
	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

// tasks run in processes of their own, because a driver is opened once per process.
var tasks = subprocess.Tasks{
	"nothing": func() error { return nil },
	"before": func() error {
		_, count := cu.NumDevices()
		_, memory := cu.MemAlloc(1 << 20)
		fmt.Println(count, memory, cu.Version())
		return nil
	},
	"probe": func() error {
		driver, err := Probe(context.Background())
		fmt.Println(driver)
		for _, c := range driver.Cards {
			if c.Trouble != nil {
				fmt.Println(c.Trouble)
				continue
			}
			fmt.Printf("%s: compute capability %s, %s of memory, %s of it free\n", c, c.Capability, size(c.Total), size(c.Free))
		}
		return err
	},
	"open": func() error {
		d, err := Open(1, Options{})
		if err != nil {
			return err
		}
		return d.Close()
	},
	"crash": func() error {
		return work(func(d *Device, s *Stream, m *Memory, f *Module) error {
			collatz, err := f.Function("collatz")
			if err == nil {
				err = s.Launch(collatz, Dim{}, Dim{X: 128}, 0, Address(m.At), Int(128)) // the memory has room for 16
			}
			if err != nil {
				return err
			}
			first := s.Read(make([]byte, 4), m.At)
			_, second := d.Alloc(1)
			fmt.Printf("%v\n%v\n", first, second)
			if _, err = d.NewStream(); !errors.Is(err, ErrLost) {
				return fmt.Errorf("not lost: %v", err)
			}
			return d.Close()
		})
	},
	"work": func() error {
		err := work(func(d *Device, s *Stream, m *Memory, f *Module) error {
			saxpy, err := f.Function("saxpy")
			for _, do := range []func() error{
				func() error { return s.Fill(m.At, 0, 8) },
				func() error { return s.Launch(saxpy, Dim{}, Dim{}, 0, Address(m.At), Address(m.At), Float(1), Int(1)) },
				s.Sync, f.Close, m.Free, s.Close, d.Sync,
			} {
				if err == nil {
					err = do()
				}
			}
			if err == nil {
				err = d.Close()
			}
			return err
		})
		if err == nil {
			fmt.Println("done")
		}
		if errors.Is(err, ErrLost) {
			fmt.Println(err)
			return nil
		}
		return err
	},
}

// work opens a card and calls use with one resource of each kind. If the card is lost, closing it must not return an error.
func work(use func(*Device, *Stream, *Memory, *Module) error) error {
	d, err := Open(0, Options{})
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	s, err := d.NewStream()
	if err != nil {
		return lostOr(err, d.Close())
	}
	m, err := d.Alloc(64)
	if err != nil {
		return lostOr(err, d.Close())
	}
	text, err := probeKernels("kernels")
	if err != nil {
		return err
	}
	f, err := d.Load(text)
	if err != nil {
		return lostOr(err, d.Close())
	}
	if err = use(d, s, m, f); errors.Is(err, ErrLost) {
		return lostOr(err, d.Close())
	}
	return err
}

// lostOr returns the error by which a card was lost, or another error if that is not ErrLost or if closing the card failed.
func lostOr(lost, closing error) error {
	if closing != nil {
		return fmt.Errorf("closing: %v", closing)
	}
	if !errors.Is(lost, ErrLost) {
		return fmt.Errorf("not lost: %v", lost)
	}
	return lost
}

func TestMain(m *testing.M) {
	tasks.Main()
	os.Exit(tests(m))
}

// tests uses the emulated device as the driver; GRPO_CUDA_TEST_LIB names another library, such as one that was built elsewhere.
func tests(m *testing.M) int {
	library := os.Getenv("GRPO_CUDA_TEST_LIB")
	if library == "" {
		var err error
		if library, err = emu.Library(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	for name, value := range map[string]string{libraryVariable: library, "GRPO_EMU_NAME": "Test Card", "GRPO_EMU_MEMORY": "512M"} {
		os.Setenv(name, value)
	}
	return m.Run()
}

// probeKernels is the PTX of the kernels that test the emulated device.
func probeKernels(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join("../src/probe", file+".ptx"))
	return string(text), err
}

// openDevice opens the first card. It is closed at the end of the test, when nothing may be allocated.
func openDevice(t *testing.T) *Device {
	t.Helper()
	d, err := Open(0, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// stream makes a stream, which is closed at the end of the test.
func stream(t *testing.T, d *Device) *Stream {
	t.Helper()
	s, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// transfers makes the Transfers of a stream, which are closed at the end of the test.
func transfers(t *testing.T, s *Stream) *Transfers {
	t.Helper()
	moves, err := s.NewTransfers()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, moves.Close()) })
	return moves
}
