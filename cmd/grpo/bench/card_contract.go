package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// CheckContract runs the contract tests of the kernels on a GPU, the suite that every backend passes. It prints like go test, and
// exits the process.
func (c *Card) CheckContract() error {
	size, known := cardSizes[c.Size]
	if !known {
		return c.badSize()
	}
	if err := c.there(); err != nil {
		return err
	}
	suite := func(t *testing.T) {
		kerneltest.RunDevice(t, kerneltest.OnCard, 1, func() kernels.Backend {
			b, err := c.open()
			if err != nil {
				t.Fatal(err)
			}
			return kernels.Checked(b)
		})
	}
	os.Args = []string{os.Args[0], "-test.v", "-test.run=" + size.contract}
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: "Contract", F: suite}}, nil, nil)
	return nil
}

// open opens the GPU. A device that is none is refused.
func (c *Card) open() (kernels.Backend, error) {
	b, err := c.Open(c.Device, 0)
	if err != nil {
		return nil, err
	}
	if room, _ := b.Free(); !room.GPU {
		err = badinput.Errorf("there is no card here that computes, only %s; type grpo doctor, or --device cuda:0, which say why", b.Name())
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// there returns why there is no GPU, or nil.
func (c *Card) there() error {
	b, err := c.open()
	if err != nil {
		return err
	}
	return b.Close()
}

func (c *Card) badSize() error {
	return badinput.Errorf("--size: found %q, expected full or smoke", c.Size)
}

// contract runs CheckContract in a child process, as a faulty kernel may kill it. Nothing else uses the GPU meanwhile, as it may
// only serve one process.
func (c *Card) contract(ctx context.Context) (checkResult, error) {
	p := checkResult{What: "the contract of the kernels"}
	out, err := exec.CommandContext(ctx, c.Contract[0], c.Contract[1:]...).CombinedOutput()
	if ctx.Err() != nil {
		return p, ctx.Err()
	}
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		return p, fmt.Errorf("%s: %w", strings.Join(c.Contract, " "), err)
	}
	cases, failed := countCases(out)
	switch {
	case len(failed) > 0:
		p.Saw = fmt.Sprintf("%d of %d cases fail, %s among them; --contract shows them all", len(failed), cases, failed[0])
	case err != nil:
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		p.Saw = fmt.Sprintf("%v after %d cases: %s; --contract shows all", err, cases, cmp.Or(lines[len(lines)-1], "it said nothing"))
	default:
		p.Holds, p.Saw = cases > 0, fmt.Sprintf("%d cases %s", cases, cardSizes[c.Size].holding)
	}
	return p, nil
}

// countCases counts the leaf tests in the output of go test -v, and names those that failed.
func countCases(out []byte) (cases int, failed []string) {
	var all []string // a test is listed before its subtests
	for line := range bytes.Lines(out) {
		verdict, rest, found := strings.Cut(strings.TrimSpace(string(line)), ": ")
		if !found || (verdict != "--- PASS" && verdict != "--- FAIL") {
			continue
		}
		name, _, _ := strings.Cut(rest, " (")
		if len(all) > 0 && strings.HasPrefix(name, all[len(all)-1]+"/") {
			if cases--; len(failed) > 0 && failed[len(failed)-1] == all[len(all)-1] {
				failed = failed[:len(failed)-1]
			}
		}
		all = append(all, name)
		if cases++; verdict == "--- FAIL" {
			failed = append(failed, name)
		}
	}
	return cases, failed
}
