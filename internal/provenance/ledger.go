package provenance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/version"
	"github.com/seed-7879b91d/grpo/kernels"
)

// ResumeOrigin is what a run resumes from. The zero value is that of a new run.
type ResumeOrigin struct {
	Checkpoint string // "": none
	Fork       bool   // the checkpoint is another run's, and this is a new one
	Order      string // summation order recorded in the checkpoint; "": none
	run        *Run
	before     *configs.Config // the previous settings; nil: unknown
}

// Check refuses to resume a run with settings that would change it, or on a backend with another summation order. It sets
// the backend to the order of the run. made is the step of the checkpoint.
func (p *ResumeOrigin) Check(cfg *configs.Config, made int, b kernels.Backend) error {
	start, err := p.settle(cfg, made, b)
	if err != nil {
		return err
	}
	if cfg.Order, err = kernels.Choose(b, cfg.Order); err != nil {
		return badinput.Errorf("order: %w", err)
	}
	return checkOrder(cfg, p.before, start.Order, b.Order())
}

// settle replaces auto by the value that the run recorded, and refuses settings that would change the run.
func (p *ResumeOrigin) settle(cfg *configs.Config, made int, b kernels.Backend) (start Start, err error) {
	if p.Checkpoint == "" || p.Fork {
		return start, nil
	}
	if p.run, err = Read(cfg.RunDir); err != nil {
		return start, err
	}
	if !p.run.Known() { // without config.json, only the checkpoint tells the order
		was := *cfg
		was.Order = cmp.Or(p.Order, cfg.Order)
		adopt(&cfg.Order, "auto", was.Order)
		return start, CheckSettings(cfg.RunDir, &was, cfg)
	}
	if err = p.run.checkKnown(); err != nil {
		return start, err
	}
	if p.before, start, err = p.run.Last(); cfg.Resume == p.Checkpoint {
		p.before, start, err = p.run.At(made)
	}
	if err != nil {
		return start, err
	}
	p.before.Precision, p.before.KVCacheDtype = cmp.Or(p.before.Precision, "f32"), cmp.Or(p.before.KVCacheDtype, "f32")
	p.before.AdapterPrecision = cmp.Or(p.before.AdapterPrecision, "f32")
	adopt(&cfg.Precision, "auto", p.before.Precision)
	adopt(&cfg.KVCacheDtype, "auto", p.before.KVCacheDtype)
	adopt(&cfg.AdapterPrecision, "auto", p.before.AdapterPrecision)
	adopt(&cfg.Order, "auto", p.before.Order)
	adopt(&cfg.MaxRows, 0, p.before.MaxRows)
	if _, choice := kernels.OrderOf(b); !choice && cfg.Order == p.before.Order { // the order was recorded on another device
		cfg.Order, p.before.Order = "auto", "auto"
	}
	return start, CheckSettings(cfg.RunDir, p.before, cfg)
}

// adopt sets a setting to its value before, unless the user has set it.
func adopt[T comparable](setting *T, unsaid, before T) {
	if *setting == unsaid {
		*setting = before
	}
}

// checkOrder refuses a backend that would give other bits than the run's. Old runs have no recorded order.
func checkOrder(cfg, was *configs.Config, before, now string) error {
	if before == "" || before == now || cfg.Allowed("device") || cfg.Allowed("order") && cfg.Order != was.Order {
		return nil
	}
	return badinput.Errorf("run %s added its sums in another order than this backend (%s, before %s): resume it on the device that it "+
		"began on, type init_from=%s run_dir=DIR for a new run, or allow_change=device to resume it here anyway%s",
		cfg.RunDir, now, before, display.ShellQuote(cfg.RunDir), Rounding(now, before))
}

// Rounding explains two orders that differ only in that one rounds products, as processors without fused multiply-adds do; "" for
// others.
func Rounding(now, before string) string {
	bare, here := strings.CutSuffix(now, kernels.Rounded)
	same, there := strings.CutSuffix(before, kernels.Rounded)
	switch {
	case here == there || bare != same:
		return ""
	case there && runtime.GOARCH == "amd64":
		return "; its products were rounded, as they are here with GRPO_CPU=portable in front of the command"
	case there:
		return "; its products were rounded, as this processor does not"
	case os.Getenv("GRPO_CPU") != "":
		return "; products are rounded by GRPO_CPU=" + os.Getenv("GRPO_CPU") + ", which is in the environment: type unset GRPO_CPU first"
	}
	return "; products are rounded here, as this processor has no fused multiply-adds"
}

// CheckParts refuses to resume with changed files. It reports the changes that are allowed, which are all for a fork.
func (p *ResumeOrigin) CheckParts(cfg *configs.Config, before, now Parts, tell func(string)) error {
	if p.Fork {
		for _, what := range now.Differences(before) {
			tell("different from the run that this one is a fork of: " + what)
		}
		return nil
	}
	allowed, err := CheckParts(cfg.RunDir, before, now, cfg)
	if len(allowed) > 0 {
		tell("changed since the run began, as allowed: " + strings.Join(allowed, ", "))
	}
	return err
}

// Ledger maintains the manifest of a run in training.
type Ledger struct {
	Manifest Manifest
	dir      *rundir.Dir
	cfg      *configs.Config
	weighing *WeightHash // nil: finished
}

// Open records the start of a run in its manifest, and begins to hash all the weights of the model in a directory. m has
// the facts that this package does not know. It calls tell for each change since the last start.
func Open(d *rundir.Dir, cfg *configs.Config, past ResumeOrigin, m Manifest, start Start, model string, tell func(string)) (
	*Ledger, error,
) {
	now := time.Now().UTC().Format(time.RFC3339)
	m.Created, m.Version, m.Git, m.Go = now, version.Program(), version.Checkout(), runtime.Version()
	m.Platform, m.Cores, start.Time = runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), now
	first, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	what := *cfg
	what.Serve, what.ServeKeys, what.Watch = "", "", "" // servers are not part of what the run is
	if m.Began, err = json.Marshal(&what); err != nil {
		return nil, err
	}
	switch {
	case past.Fork:
		if m.Origin, err = resolvePath(past.Checkpoint); err != nil {
			return nil, err
		}
	case past.Checkpoint != "":
		before := past.run.Manifest
		past.tell(cfg, m, start, tell)
		m.Created, m.Origin, m.Resumed = cmp.Or(before.Created, now), before.Origin, append(before.Resumed, now)
		if past.run.Known() { // the record of its first start stays as it was
			first, m.Began, m.Starts = past.run.restored(tell), past.run.first, before.Starts
			if start.Settings, err = past.run.Since(cfg); err != nil {
				return nil, err
			}
		}
	}
	m.Starts = append(m.Starts, start)
	l := &Ledger{Manifest: m, dir: d, cfg: cfg}
	if err := write(d, &l.Manifest, first); err != nil {
		return nil, err
	}
	l.weighing = HashWeights(model)
	return l, nil
}

// resolvePath is an existing path with links resolved, as they may be changed later.
func resolvePath(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// restored is the configuration to rewrite config.json with; nil if the file is sound.
func (r *Run) restored(tell func(string)) json.RawMessage {
	if !r.lost {
		return nil
	}
	tell(fmt.Sprintf("%s was missing or damaged, and is rewritten from %s", filepath.Join(r.Dir, ConfigFile), ManifestFile))
	return r.first
}

// tell reports what has changed since the run was last started.
func (p *ResumeOrigin) tell(cfg *configs.Config, m Manifest, start Start, tell func(string)) {
	before := p.run.Manifest
	for i := range min(len(before.Datasets), len(m.Datasets)) {
		if drift := m.Datasets[i].Drift(before.Datasets[i]); drift != "" {
			tell("the data changed since the run began: " + drift)
		}
	}
	if n := len(before.Starts); n > 0 && before.Starts[n-1].Order != start.Order {
		tell(fmt.Sprintf("this backend adds sums in another order than the one before (%s, before %s): last bits will differ",
			start.Order, before.Starts[n-1].Order))
	}
	if p.before == nil {
		return
	}
	if changed := Changes(p.before, cfg); len(changed) > 0 {
		tell("settings changed since the last start of the run: " + list(changed))
	}
}

// RecordRollback records that this process, with its settings, repeats the steps after the given one.
func (l *Ledger) RecordRollback(step int) error {
	again := l.Manifest.Starts[len(l.Manifest.Starts)-1]
	if again.After <= step {
		return nil
	}
	again.After, again.Time = step, time.Now().UTC().Format(time.RFC3339)
	l.Manifest.Starts = append(l.Manifest.Starts, again)
	return write(l.dir, &l.Manifest, nil)
}

// RecordHash adds the hash of all the weights to the manifest once it is there. Weights that have changed are an error. If
// the hash could not be taken or written, that is only reported, as the run can do without it.
func (l *Ledger) RecordHash(tell func(string)) error {
	if l.weighing == nil {
		return nil
	}
	full, done, err := l.weighing.Done()
	if !done {
		return nil
	}
	if l.weighing = nil; err != nil {
		tell(fmt.Sprintf("fingerprint of the weights: %v", err))
		return nil
	}
	starts := l.Manifest.Starts
	last := &starts[len(starts)-1]
	weights := last.Parts["model"]
	weights.Full = full
	for _, before := range slices.Backward(starts[:len(starts)-1]) {
		was := before.Parts["model"]
		if was.Full == "" { // the earlier process ended before it had the hash, or because it differed
			continue
		}
		if was.SHA256 == weights.SHA256 {
			_, err = CheckParts(l.dir.Path, before.Parts, Parts{"model": weights}, l.cfg)
		}
		break
	}
	if err != nil {
		return err
	}
	last.Parts = last.Parts.with("model", weights)
	if err := write(l.dir, &l.Manifest, nil); err != nil {
		tell(fmt.Sprintf("fingerprint of the weights: %v", err))
	}
	return nil
}

// Close abandons a hash that is not finished.
func (l *Ledger) Close() error {
	if l.weighing == nil {
		return nil
	}
	if _, done, _ := l.weighing.Done(); done {
		return l.RecordHash(func(string) {})
	}
	return l.weighing.Close()
}
