package grpo

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// node is a file or a folder on a disk: its content, and the durable part of that.
type node struct {
	names map[string]*node // of a folder
	text  []byte
	kept  []byte // the text when it was last synced
	least int    // the shortest length since then
}

// nameChange is a rename, or names removed and added together.
type nameChange struct {
	gone, come       *node // removed, added
	goneName, asName string
	moved            *node
}

func (c nameChange) apply(names func(*node) map[string]*node) {
	if c.gone != nil && names(c.gone)[c.goneName] == c.moved {
		delete(names(c.gone), c.goneName)
	}
	if c.come != nil {
		names(c.come)[c.asName] = c.moved
	}
}

// cutDisk knows the content of a disk, and what may remain after a power cut: texts as last synced or as far as they were written, names
// as their folder was last synced, and the first few of the later changes of names, in order.
type cutDisk struct {
	root    string
	top     *node
	kept    map[*node]map[string]*node // durable names
	pending []nameChange
}

func newCutDisk(root string) *cutDisk {
	top := &node{names: map[string]*node{}}
	return &cutDisk{root: root, top: top, kept: map[*node]map[string]*node{top: {}}}
}

func (d *cutDisk) parts(path string) []string {
	rel, err := filepath.Rel(d.root, path)
	if err != nil || rel == "." {
		return nil
	}
	return strings.Split(rel, string(filepath.Separator))
}

func (d *cutDisk) at(path string) *node {
	n := d.top
	for _, name := range d.parts(path) {
		n = n.names[name]
	}
	return n
}

func (d *cutDisk) rename(c nameChange) {
	c.apply(func(n *node) map[string]*node { return n.names })
	d.pending = append(d.pending, c)
}

// do applies an operation to the model of the disk.
func (d *cutDisk) do(op disk.Op) {
	folder, name := filepath.Dir(op.Path), filepath.Base(op.Path)
	switch op.Kind {
	case disk.CreatedFolder, disk.CreatedFile:
		n := &node{}
		if op.Kind == disk.CreatedFolder {
			n.names, d.kept[n] = map[string]*node{}, map[string]*node{}
		}
		d.rename(nameChange{come: d.at(folder), asName: name, moved: n})
	case disk.Wrote:
		n := d.at(op.Path)
		n.text = append(slices.Clone(n.text), op.Text...)
	case disk.Truncated:
		n := d.at(op.Path)
		n.text = slices.Clone(n.text[:op.Size])
		n.least = min(n.least, len(n.text))
	case disk.Synced:
		n := d.at(op.Path)
		n.kept, n.least = n.text, len(n.text)
	case disk.SyncedFolder:
		folder := d.at(op.Path)
		var later []nameChange
		for _, c := range d.pending {
			if c.gone == folder || c.come == folder {
				c.apply(func(n *node) map[string]*node { return d.kept[n] })
			} else {
				later = append(later, c)
			}
		}
		d.pending = later
	case disk.Renamed:
		to := d.at(filepath.Dir(op.To))
		d.rename(nameChange{gone: d.at(folder), goneName: name, come: to, asName: filepath.Base(op.To), moved: d.at(op.Path)})
	case disk.Removed:
		d.rename(nameChange{gone: d.at(folder), goneName: name, moved: d.at(op.Path)})
	}
}

// crashOutcome says what survives a power cut: the first n changes of names, and of an unsynced text what text returns.
type crashOutcome struct {
	names func(pending int) int
	text  func(n *node) []byte
}

func syncedText(n *node) []byte  { return n.kept }
func writtenText(n *node) []byte { return n.text }

// crashOutcomes are the extremes, and some between.
func crashOutcomes(lots *rand.Rand) []crashOutcome {
	none, all := func(int) int { return 0 }, func(n int) int { return n }
	some := func(n int) int { return lots.IntN(n + 1) }
	return []crashOutcome{
		{none, syncedText}, {all, syncedText}, {none, writtenText}, {all, writtenText}, {some, syncedText},
		{some, func(n *node) []byte { // a part of it, and zeros for the rest
			text := slices.Clone(n.text)
			clear(text[n.least+lots.IntN(len(text)-n.least+1):])
			return text
		}},
	}
}

// left writes what a power cut leaves to a folder, and describes it.
func (d *cutDisk) left(l crashOutcome, to string) string {
	kept := map[*node]map[string]*node{}
	for n, names := range d.kept {
		kept[n] = map[string]*node{}
		for name, in := range names {
			kept[n][name] = in
		}
	}
	for _, c := range d.pending[:l.names(len(d.pending))] {
		c.apply(func(n *node) map[string]*node { return kept[n] })
	}
	var tells bytes.Buffer
	var write func(n *node, path string)
	write = func(n *node, path string) {
		if n.names == nil {
			text := n.kept
			if !bytes.Equal(n.text, n.kept) {
				text = l.text(n)
			}
			fmt.Fprintf(&tells, "%s %d %q\n", strings.TrimPrefix(path, to), len(text), text)
			if err := os.WriteFile(path, text, 0o644); err != nil {
				panic(err)
			}
			return
		}
		fmt.Fprintln(&tells, strings.TrimPrefix(path, to))
		if err := os.MkdirAll(path, 0o755); err != nil {
			panic(err)
		}
		for _, name := range sortedNames(kept[n]) {
			write(kept[n][name], filepath.Join(path, name))
		}
	}
	write(d.top, to)
	return tells.String()
}

func sortedNames(names map[string]*node) []string {
	var all []string
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// recorded returns the disk operations below root that do causes.
func recorded(t *testing.T, root string, do func()) (ops []disk.Op) {
	t.Helper()
	var guard sync.Mutex
	disk.Observer = func(op disk.Op) {
		guard.Lock()
		defer guard.Unlock()
		if strings.HasPrefix(op.Path, root) && !strings.Contains(op.Path, "report.html") { // nobody reads it back
			ops = append(ops, op)
		}
	}
	defer func() { disk.Observer = nil }()
	do()
	return ops
}

// A run whose machine loses power can be resumed, and ends like an uninterrupted one, to the byte. The power is cut between any two disk
// operations of a run that begins, saves, is stopped during an evaluation, is resumed, is killed after it resumed from a checkpoint, and
// ends. This tests some of the moments; GRPO_KILLS=20 tests each.
func TestThePowerIsCut(t *testing.T) {
	race.SkipCovered(t)
	for _, recording := range testvariants.EveryNth(2, "compress_rollouts=true", "record_rollouts=all") {
		t.Run(recording, func(t *testing.T) {
			testPowerCut(t, "max_steps=4", "eval_every=2", "eval_samples=0", "eval_k=0", "max_tokens=6",
				"completions_per_prompt=3", "keep_last=1", recording)
		})
	}
}

func testPowerCut(t *testing.T, words ...string) {
	whole := setup{dir: filepath.Join(t.TempDir(), "run"), words: words}
	tr, _ := whole.open(t)
	run(t, tr)
	want := files(t, whole.dir)

	root := t.TempDir()
	s := setup{dir: filepath.Join(root, "runs", "run"), words: words}
	session := func(stop func(l *listener, cancel func())) {
		tr, l := s.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop(l, cancel)
		_ = tr.Run(ctx)
		require.NoError(t, tr.Close())
	}
	ops := recorded(t, root, func() {
		session(func(l *listener, cancel func()) { // during the evaluation after the second step, which is saved before
			stepped := false
			l.onStep = func(m Metrics) { stepped = m.Step == 2 }
			l.onPhase = func(string) {
				if stepped {
					cancel()
				}
			}
		})
		tr, l := s.open(t)
		l.onStep = func(m Metrics) { panic("killed") }
		require.Panics(t, func() { _ = tr.Run(t.Context()) })
		require.NoError(t, tr.Close())
		session(func(*listener, func()) {})
	})
	requireSame(t, want, files(t, s.dir))

	everyCut(t, root, ops, func(left, when string) {
		again := setup{dir: filepath.Join(left, "runs", "run"), words: words}
		tr, _, err := again.tryOpen(t)
		require.NoError(t, err, when)
		require.NoError(t, tr.Run(t.Context()), when)
		require.NoError(t, tr.Close())
		requireSame(t, want, files(t, again.dir))
	})
}

// everyCut calls then with a folder with the remains of each power cut that leaves a different state.
func everyCut(t *testing.T, root string, ops []disk.Op, then func(left, when string)) {
	t.Helper()
	stride := stride(t, 47)
	seed := rand.Uint64()
	lots, seen, d := rand.New(rand.NewPCG(seed, 0)), map[string]bool{}, newCutDisk(root)
	for i, op := range ops {
		if d.do(op); i%stride != 0 && i < len(ops)-1 {
			continue
		}
		for which, l := range crashOutcomes(lots) {
			folder := t.TempDir()
			if left := d.left(l, folder); seen[left] {
				continue
			} else {
				seen[left] = true
			}
			then(folder, fmt.Sprintf("seed %d, after %d things, the last %v of %s, luck %d", seed, i+1, op.Kind, op.Path, which))
		}
	}
	t.Logf("seed %d: %d things done to the disk, %d states of it after a power cut", seed, len(ops), len(seen))
}
