package optim

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// A run that is saved and resumed ends with the same bits as an uninterrupted one.
func TestStateContinues(t *testing.T) {
	race.SkipSerial(t)
	onEach(t, func(t *testing.T, b kernels.Backend) {
		const n = chunk + 5
		path, again := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "state")
		through := newProblem(t, b, draws(1, n), Defaults())
		through.step(draws(2, n), 0.1)
		through.step(draws(3, n), 0.1)
		if err := through.SaveState(path); err != nil {
			t.Fatal(err)
		}
		resumed := newProblem(t, b, through.get(through.params), Defaults())
		if err := resumed.LoadState(path); err != nil {
			t.Fatal(err)
		}
		if resumed.Steps() != 2 {
			t.Errorf("resumed at step %d, expected 2", resumed.Steps())
		}
		if err := resumed.SaveState(again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(t, path), read(t, again)) {
			t.Error("the same state was saved as two different files")
		}
		if u1, u2 := through.step(draws(4, n), 0.1), resumed.step(draws(4, n), 0.1); u1 != u2 ||
			!slices.Equal(through.all(), resumed.all()) {
			t.Errorf("the runs part: %+v and %+v", u1, u2)
		}
	})
}

func TestLoadStateRefuses(t *testing.T) {
	b := kerneltest.NewReference()
	good := newProblem(t, b, draws(1, 40), Defaults())
	good.step(draws(2, 40), 0.1)
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := good.SaveState(path); err != nil {
		t.Fatal(err)
	}
	saved := read(t, path)
	other := newProblem(t, b, draws(1, 41), Defaults())
	if err := other.SaveState(filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	if err := tensorfile.Write(foreign, []tensorfile.Source{tensorfile.FromFloat32s("m", make([]float32, 40), 40)}, nil); err != nil {
		t.Fatal(err)
	}
	replace := func(name, old, new string) string {
		if !bytes.Contains(saved, []byte(old)) {
			t.Fatalf("%q is not in the file", old)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Replace(saved, []byte(old), []byte(new), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flipped := bytes.Clone(saved)
	flipped[len(flipped)-1] ^= 1
	if err := os.WriteFile(filepath.Join(dir, "flipped"), flipped, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "short"), saved[:len(saved)-4], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "none"), "there is no such file"},
		{filepath.Join(dir, "other"), `tensor "m" has shape [41], expected [40]`},
		{filepath.Join(dir, "flipped"), "the file is damaged"},
		{filepath.Join(dir, "short"), "the file is truncated"},
		{foreign, "this is not a saved optimizer state"},
		{replace("step", `"step":"1"`, `"step":"2"`), "the file is damaged"},
		{replace("nostep", `"step":"1"`, `"step":"x"`), `"step" is "x", expected a number`},
		{replace("nov", `"v":`, `"w":`), `tensor "v" is missing`},
	} {
		p := newProblem(t, b, draws(1, 40), Defaults())
		p.step(draws(5, 40), 0.1)
		before := p.all()
		err := p.LoadState(c.path)
		if err == nil || !badinput.Is(err) || !strings.Contains(err.Error(), c.path+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, expected %q", err, c.want)
		}
		if p.Steps() != 1 || !slices.Equal(p.all(), before) {
			t.Errorf("%s changed something", c.path)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A state that no steps can produce is refused by name, parked or saved, and changes nothing.
func TestAStateThatCannotBe(t *testing.T) {
	const n = 40
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	with := func(at int, x float32) []float32 {
		values := make([]float32, n)
		values[at] = x
		return values
	}
	for _, c := range []struct {
		s    State
		want string
	}{
		{State{Steps: -1}, "found -1 steps, expected 0 to 2147483647"},
		{State{Steps: math.MaxInt}, "steps, expected 0 to 2147483647"},
		{State{Steps: 1, M: make([]float32, n), V: make([]float32, n-1)}, "V: found 39 numbers, expected 40"},
		{State{Steps: 1, M: make([]float32, n+1), V: make([]float32, n)}, "M: found 41 numbers, expected 40"},
		{State{Steps: 1, M: with(7, nan)}, "M: element 7 is NaN, expected finite numbers"},
		{State{Steps: 1, M: with(0, inf)}, "M: element 0 is -Inf, expected finite numbers"},
		{State{Steps: 1, V: with(n-1, nan)}, "V: element 39 is NaN, expected finite numbers of at least 0"},
		{State{Steps: 1, V: with(2, -inf)}, "V: element 2 is +Inf, expected finite numbers of at least 0"},
		{State{Steps: 1, M: with(3, 1)}, "found 40 numbers in M and 0 in V, expected both or neither"},
		{State{Steps: 1, V: with(3, -1e-30)}, "V: element 3 is -1e-30, expected finite numbers of at least 0"},
	} {
		onEach(t, func(t *testing.T, b kernels.Backend) {
			p := newProblem(t, b, draws(1, n), Defaults())
			p.step(draws(2, n), 0.1)
			before := p.all()
			if err := p.Resume(&c.s); !badinput.Is(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, expected %q", err, c.want)
			}
			if p.Steps() != 1 || !slices.Equal(p.all(), before) {
				t.Errorf("%q changed something", c.want)
			}
		})
	}
	b := kerneltest.NewReference()
	p := newProblem(t, b, draws(1, n), Defaults())
	p.b.Upload(p.v, with(11, -2))
	path := filepath.Join(t.TempDir(), "state")
	if err := p.SaveState(path); err != nil {
		t.Fatal(err)
	}
	q := newProblem(t, b, draws(1, n), Defaults())
	q.step(draws(2, n), 0.1)
	before := q.all()
	if err := q.LoadState(path); !badinput.Is(err) || !strings.Contains(err.Error(), path+`: tensor "v": element 11 is -2, expected`) {
		t.Errorf("%v", err)
	}
	p.Adam.step = mostSteps + 1
	if err := p.SaveState(path); err != nil {
		t.Fatal(err)
	}
	if err := q.LoadState(path); !badinput.Is(err) || !strings.Contains(err.Error(), `metadata "step" is "2147483648", expected`) {
		t.Errorf("%v", err)
	}
	if q.Steps() != 1 || !slices.Equal(q.all(), before) {
		t.Error("a saved state that cannot be changed something")
	}
}

// Two sets of parameters that are trained by turns in one memory end with the bits of each alone; the first turn of each begins from
// zero, whatever the other left.
func TestSetsByTurns(t *testing.T) {
	const n, rounds = 40, 3
	gradient := func(set, round int) []float32 { return draws(uint64(10*set+round+5), n) }
	onEach(t, func(t *testing.T, b kernels.Backend) {
		shared := newProblem(t, b, make([]float32, n), Defaults())
		var states [2]State
		params := [2][]float32{draws(1, n), draws(2, n)}
		for round := range rounds {
			for set := range states {
				b.Upload(shared.params, params[set])
				if err := shared.Resume(&states[set]); err != nil {
					t.Fatal(err)
				}
				shared.step(gradient(set, round), 0.1)
				params[set] = shared.get(shared.params)
				if err := shared.Park(&states[set]); err != nil {
					t.Fatal(err)
				}
			}
		}
		for set, s := range states {
			alone := newProblem(t, b, draws(uint64(set+1), n), Defaults())
			for round := range rounds {
				alone.step(gradient(set, round), 0.1)
			}
			if s.Steps != rounds || !slices.Equal(slices.Concat(params[set], s.M, s.V), alone.all()) {
				t.Errorf("set %d is another after %d steps", set, s.Steps)
			}
		}
	})
}

// hookedUploads calls f before each upload.
type hookedUploads struct {
	kernels.Backend
	f func()
}

func (w hookedUploads) Upload(dst kernels.Buffer, src any) {
	w.f()
	w.Backend.Upload(dst, src)
}

// A state is read in pieces: mapping the file would take as much memory as both moments, which is not planned.
func TestAStateIsNotMapped(t *testing.T) {
	if _, err := os.Stat("/proc/self/maps"); err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "state")
	if err := newProblem(t, kerneltest.NewReference(), draws(1, 40), Defaults()).SaveState(path); err != nil {
		t.Fatal(err)
	}
	looked := 0
	p := newProblem(t, hookedUploads{kerneltest.NewReference(), func() {
		looked++
		if strings.Contains(string(read(t, "/proc/self/maps")), path) {
			t.Error("the state is mapped")
		}
	}}, draws(1, 40), Defaults())
	before := looked
	if err := p.LoadState(path); err != nil || looked-before != 2 {
		t.Errorf("got %v after %d pieces", err, looked-before)
	}
}
