package sandbox

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/reward/internal/program"
)

//go:embed attack.py
var attackSource string

// resourceAttacks exceed one limit each. The pool kills the cell of the last one; it makes a new cell only when a program
// needs it.
var resourceAttacks = []struct {
	name, code string
	limits     Limits
	want       Status
}{
	{"output", "while True: print('x' * 4096)", Limits{Output: 64 << 10}, OLE},
	{"memory", "held = []\nwhile True: held.append(bytearray(1 << 20))", Limits{Memory: 32 << 20, Output: 1 << 20}, MLE},
	{"processor time", "while True: pass", Limits{CPU: 10 * time.Millisecond}, TLE},
}

// expectWork runs an honest program: a cell in which nothing works would repel every attack.
func (p *Pool) expectWork(ctx context.Context) error {
	r, err := p.runOne(ctx, "", Program{Code: "print(int(input()) + 1)"}, Input{Stdin: []byte("41\n")}, Limits{}.effective())
	if err != nil {
		return err
	}
	if r.Status != OK || string(r.Stdout) != "42\n" {
		return fmt.Errorf("an honest program ended with %s and printed %.40q: %s", r.Status, r.Stdout, lastLine(r.Stderr))
	}
	return nil
}

// attack tries every attack on a cell and makes a Claim of each. It must not be used on RungUnsafe, where
// nothing would stop the attacks.
func (p *Pool) attack(ctx context.Context) ([]Claim, error) {
	names := []string{"HOME", "TMPDIR"}
	for _, v := range program.Environment {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	// The interpreter may set this one itself.
	names = append(names, "LC_CTYPE")
	r, err := p.runOne(ctx, "", Program{Code: attackSource}, Input{Stdin: []byte(strings.Join(names, " "))}, Limits{}.effective())
	if err != nil {
		return nil, err
	}
	claims, err := readClaims(r)
	if err != nil {
		return nil, err
	}
	for _, a := range resourceAttacks {
		r, err := p.runOne(ctx, "", Program{Code: a.code}, Input{}, a.limits.effective())
		if err != nil {
			return nil, fmt.Errorf("attack on %s: %w", a.name, err)
		}
		claims = append(claims,
			Claim{a.name, r.Status == a.want, fmt.Sprintf("ended with %s after %v", r.Status, r.Wall.Round(time.Millisecond))})
	}
	return claims, nil
}

func readClaims(r Result) ([]Claim, error) {
	var claims []Claim
	lines := json.NewDecoder(bytes.NewReader(r.Stdout))
	for {
		var c Claim
		if err := lines.Decode(&c); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("the attacks ended with %s: %s", r.Status, lastLine(r.Stderr))
		}
		claims = append(claims, c)
	}
	if r.Status != OK || len(claims) == 0 {
		return nil, fmt.Errorf("the attacks ended with %s: %s", r.Status, lastLine(r.Stderr))
	}
	return claims, nil
}

// proofKey identifies what was attacked.
type proofKey struct {
	rung  Rung
	exe   string
	owner int // the user who makes the cells
}

// proofs has the claims that were tested in this process, by proofKey. Pools with the same key differ only in what they
// preload, which is trusted, so they are attacked only once.
var proofs sync.Map

// prove attacks the pool, unless a pool with the same proofKey was attacked, and returns the claims. An attack that succeeds is an error.
func (p *Pool) prove(ctx context.Context, py *interpreter) ([]Claim, error) {
	key := proofKey{p.report.Rung, py.Exe, os.Geteuid()}
	if claims, known := proofs.Load(key); known {
		return slices.Clone(claims.([]Claim)), nil
	}
	claims, err := p.attack(ctx)
	if err != nil {
		return nil, err
	}
	var succeeded []error
	for _, c := range claims {
		if !c.Holds {
			succeeded = append(succeeded, fmt.Errorf("an attack on %s: %s", c.Name, c.Detail))
		}
	}
	if len(succeeded) > 0 {
		return nil, errors.Join(succeeded...)
	}
	proofs.Store(key, slices.Clone(claims))
	return claims, nil
}

// notProtected lists what a rung leaves open: its own gaps and those of every stronger rung.
func notProtected(r Rung) []string {
	gaps := []string{
		"a flaw in the kernel itself: programs share it with everything else on this machine",
		"side channels: a program can measure how busy the processor and its caches are",
		"the version of the kernel and of Python, the number of processors, the time",
	}
	if r < RungFull {
		gaps = append(gaps, "memory is watched every 10 ms rather than bounded by the kernel: a program can hold up to "+
			"4 GiB for that long")
	}
	if r < RungNamespaces {
		gaps = append(gaps, "names, sizes and dates of files of this machine, though not their contents",
			"process ids of this machine, and whether one exists",
			"the disk under TMPDIR: what a program writes to its scratch directory is watched every 10 ms rather than "+
				"bounded by the kernel, and files that it has removed but holds open, or mapped, are not seen",
			"programs that write to /tmp by that name: their scratch directory has another")
	}
	if r < RungUID {
		gaps = append(gaps, "the number of threads, bounded only by address space")
	}
	if r == RungUnsafe {
		return []string{"everything: a program can do whatever the user can who runs this"}
	}
	return gaps
}
