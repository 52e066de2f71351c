//go:build gpu

package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/apart"
)

// paper is the library of testdata/driver.c, built once for all tests.
var paper string

// tasks are for processes whose driver is not open yet.
var tasks = apart.Tasks{
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
			crash, err := f.Function("crash")
			if err == nil {
				err = s.Launch(crash, Dim{}, Dim{}, 0)
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
			add, err := f.Function("add")
			for _, do := range []func() error{
				func() error { return s.Fill(m.At, 0, 8) },
				func() error { return s.Launch(add, Dim{}, Dim{}, 0, Address(m.At), Float(1), Int(2)) },
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

// work opens a card and makes one thing of each kind on it. A card that is lost meanwhile closes without a word.
func work(use func(*Device, *Stream, *Memory, *Module) error) error {
	d, err := Open(0, Options{})
	if err != nil {
		return err
	}
	s, err := d.NewStream()
	if err != nil {
		return lostOr(err, d.Close())
	}
	m, err := d.Alloc(64)
	if err != nil {
		return lostOr(err, d.Close())
	}
	f, err := d.Load(ptx)
	if err != nil {
		return lostOr(err, d.Close())
	}
	if err = use(d, s, m, f); errors.Is(err, ErrLost) {
		return lostOr(err, d.Close())
	}
	return err
}

// lostOr is the error of a card that was lost, if it closed without a word.
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

func tests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "grpo-cuda-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	paper = filepath.Join(dir, "libpaper.so")
	compiler := "gcc"
	if cc := os.Getenv("CC"); cc != "" {
		compiler = cc
	}
	if given := os.Getenv("GRPO_CUDA_TEST_LIB"); given != "" {
		paper = given // cross-built, where there is no compiler
	} else if out, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", paper, "testdata/driver.c").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", compiler, err, out)
		return 1
	}
	os.Setenv(libraryVariable, paper)
	return m.Run()
}

// opened is the first card, closed at the end of the test with nothing held.
func opened(t *testing.T) *Device {
	t.Helper()
	d, err := Open(0, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// stream is a stream that ends with the test.
func stream(t *testing.T, d *Device) *Stream {
	t.Helper()
	s, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// transfers are those of a stream, which end with the test.
func transfers(t *testing.T, s *Stream) *Transfers {
	t.Helper()
	moves, err := s.NewTransfers()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, moves.Close()) })
	return moves
}
