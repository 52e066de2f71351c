package handover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/bundle"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// packFlags are the flags of the verb package.
type packFlags struct {
	out, key, newKey, verify string
	step                     int
}

// Package is the verb.
func Package() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{
		Use:   "package RUN --out FILE | --verify FILE | --new-key FILE",
		Short: "Pack a run's adapter and its records into one file that can be verified",
		Long: `Writes one archive, a tar compressed with Zstandard, with the adapter of the run's last checkpoint (with train=full the model), a
model card with the results, and in training/ the settings, the manifest, the metrics of every step and the report. Its SHA256SUMS
has a checksum of every file; --key signs it. The same run gives the same bytes.

--verify finds any flipped bit, and files that are missing, added or duplicated; with --key it also requires the signature of that
key. It unpacks nothing: to unpack, type tar --zstd -xf FILE.

--new-key writes an ed25519 key to sign with, and beside it FILE.pub, with which others verify.`,
		Example: `  grpo package runs/x --out x.tar.zst
  grpo package --verify x.tar.zst
  grpo package --new-key ~/.grpo-key
  grpo package runs/x --out x.tar.zst --key ~/.grpo-key
  grpo package --verify x.tar.zst --key grpo-key.pub`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "`file` to write; it is replaced")
	fl.StringVar(&f.key, "key", "", "`file` of the secret key to sign with; with --verify, of the public key to check the signature with")
	fl.StringVar(&f.newKey, "new-key", "", "make a secret key in this `file`, and its public key in FILE"+bundle.PublicSuffix)
	fl.StringVar(&f.verify, "verify", "", "verify the package in this `file`")
	fl.IntVar(&f.step, "step", -1, "use the checkpoint of this step of the run, not the last")
	cmd.MarkFlagsMutuallyExclusive("out", "verify", "new-key")
	cmd.MarkFlagsMutuallyExclusive("key", "new-key")
	cmd.MarkFlagsMutuallyExclusive("step", "verify")
	cmd.MarkFlagsMutuallyExclusive("step", "new-key")
	return cmd
}

func (f *packFlags) run(args []string, out, talk io.Writer) error {
	switch {
	case (f.verify != "" || f.newKey != "") && len(args) > 0:
		return badinput.Errorf("found %q beside --verify or --new-key, which take no run; leave it out", args[0])
	case f.newKey != "":
		return makeKey(f.newKey, out)
	case f.verify != "":
		return f.check(out)
	case len(args) != 1:
		return badinput.Errorf("expected the directory of one run; type grpo package RUN --out FILE, or grpo package --verify FILE")
	case f.out == "":
		return badinput.Errorf("--out is missing; type grpo package %s --out %s.tar.zst", display.ShellQuote(args[0]), nameOf(args[0]))
	}
	return f.pack(args[0], out, talk)
}

func makeKey(path string, out io.Writer) error {
	key, err := bundle.NewKey(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: the secret key; keep it to yourself\n%s%s: the public key %s, to verify with\n", path, path,
		bundle.PublicSuffix, bundle.Fingerprint(key))
	return nil
}

// check verifies a package.
func (f *packFlags) check(out io.Writer) error {
	c, err := bundle.Verify(f.verify)
	if err != nil {
		return err
	}
	signed := "not signed"
	switch {
	case f.key != "":
		key, err := bundle.PublicKey(f.key)
		if err != nil {
			return err
		}
		if c.Signer == nil {
			return badinput.Errorf("%s is intact, but not signed; expected the signature of %s (%s)", f.verify, f.key, bundle.Fingerprint(key))
		}
		if !key.Equal(c.Signer) {
			return badinput.Errorf("%s: it is signed by the key %s, expected %s (%s); do not use it", f.verify, bundle.Fingerprint(c.Signer),
				f.key, bundle.Fingerprint(key))
		}
		signed = "signed by " + f.key
	case c.Signer != nil:
		signed = fmt.Sprintf("signed by the key %s; type --key FILE%s to hold it to one that you know", bundle.Fingerprint(c.Signer),
			bundle.PublicSuffix)
	}
	fmt.Fprintf(out, "%s: whole: %s, %.1f MiB, each with its checksum; %s\n", f.verify, plural.Of(len(c.Files), "file"),
		float64(c.Bytes)/(1<<20), signed)
	return nil
}

// pack writes a package.
func (f *packFlags) pack(run string, out, talk io.Writer) error {
	place := destination.Place{Flag: "--out", Path: f.out, Name: nameOf(run) + ".tar.zst", Run: run, Inputs: []string{f.key}}
	if err := place.Check(); err != nil {
		return err
	}
	files, saved, err := resultOf(run, f.step, talk)
	if err != nil {
		return err
	}
	if f.key == "" {
		err = bundle.Write(f.out, files, nil)
	} else {
		key, kerr := bundle.SecretKey(f.key)
		if kerr != nil {
			return kerr
		}
		err = bundle.Write(f.out, files, key)
	}
	if err != nil {
		return place.Failed(err)
	}
	info, err := os.Stat(f.out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d files of %s after step %d, %.1f MiB; type grpo package --verify %s to check it\n", f.out, len(files), run,
		saved.Step(), float64(info.Size())/(1<<20), display.ShellQuote(f.out))
	return nil
}

// recordFiles are the files of a run's record to include, if they exist.
var recordFiles = []string{"config.json", "manifest.json", "metrics.jsonl", "evaluations.jsonl", "checkpoints.jsonl", "report.html"}

// resultOf are the files of a package: the trained weights and the card at the top, the record in training/.
func resultOf(run string, step int, talk io.Writer) (files []bundle.File, saved *grpo.Saved, err error) {
	if saved, err = grpo.OpenSaved(run, step, screen.New(io.Discard, talk, true, false)); err != nil {
		return nil, nil, err
	}
	text, err := card(saved)
	if err != nil {
		return nil, nil, err
	}
	files = append(files, bundle.FromBytes("README.md", text))
	dir := saved.Trained()
	err = filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".") || strings.EqualFold(e.Name(), "README.md") {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		files = append(files, onDisk(filepath.ToSlash(rel), at))
		return err
	})
	for _, name := range recordFiles {
		at := filepath.Join(saved.Settings.RunDir, name)
		switch info, serr := os.Stat(at); {
		case errors.Is(serr, fs.ErrNotExist):
		case serr != nil: // it exists but cannot be read: do not omit it silently
			err = errors.Join(err, badinput.Errorf("%w; fix that and type the same again", serr))
		case info.Mode().IsRegular():
			files = append(files, onDisk(path.Join("training", name), at))
		}
	}
	return files, saved, err
}

func onDisk(name, at string) bundle.File {
	return bundle.File{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(at) }}
}
