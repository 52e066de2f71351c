package handover

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/bundle"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// publishFlags are the flags of the verb publish.
type publishFlags struct {
	repo, message   string
	private, dryRun bool
	step            int
}

// Publish is the verb.
func Publish() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish RUN --repo OWNER/NAME",
		Short: "Upload a run's adapter or model to the Hub, with a model card",
		Long: `Creates the repository if there is none, and adds one commit: the adapter of the run's last checkpoint (with train=full the
model), a model card with the training data and the held-out results, and in training/ the settings, the manifest, the metrics of
every step and the report. Other files in the repository stay. Problems and completions are not sent, but the settings may have paths
of this machine: look at --dry-run, which prints what would be sent, and sends nothing.

The token is HF_TOKEN, or the one that hf auth login saved; it needs write access. HF_ENDPOINT names another Hub.`,
		Example: `  grpo publish runs/x --repo me/coder --dry-run
  grpo publish runs/x --repo me/coder --private
  grpo publish runs/x --step 20 --repo me/coder`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", "", "`owner/name` of the repository")
	fl.StringVar(&f.message, "message", "", "message of the commit (default: the run and its step)")
	fl.BoolVar(&f.private, "private", false, "if the repository is new, make it private")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print what would be sent, but send nothing")
	fl.IntVar(&f.step, "step", -1, "use the checkpoint of this step of the run, not the last")
	return cmd
}

func (f *publishFlags) run(ctx context.Context, args []string, out, talk io.Writer) error {
	switch {
	case len(args) != 1:
		return badinput.Errorf("expected the directory of one run; type grpo publish RUN --repo OWNER/NAME")
	case f.repo == "":
		return badinput.Errorf("--repo is missing; type grpo publish %s --repo OWNER/%s", display.ShellQuote(args[0]), nameOf(args[0]))
	}
	if err := hub.CheckName(f.repo); err != nil {
		return badinput.Errorf("--repo: %w", err)
	}
	files, saved, err := resultOf(args[0], f.step, talk)
	if err != nil {
		return err
	}
	if f.message == "" {
		f.message = fmt.Sprintf("%s after step %d", nameOf(saved.Settings.RunDir), saved.Step())
	}
	uploads, total, err := asUploads(files)
	if err != nil {
		return err
	}
	client, err := hub.FromEnv()
	if err != nil {
		return err
	}
	if f.dryRun {
		return f.show(client, files, uploads, total, out)
	}
	done, err := client.Publish(ctx, hub.Repo{Type: hub.Model, ID: f.repo}, f.private, f.message, uploads, func(what string) {
		screen.PrintLine(talk, "sending "+what)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s/%s: %d files, %.1f MiB, commit %.10s\n", client.Endpoint, f.repo, len(uploads), float64(total)/(1<<20), done.Commit)
	return nil
}

// asUploads are the files with their sizes.
func asUploads(files []bundle.File) (all []hub.Upload, total int64, err error) {
	for _, f := range files {
		r, err := f.Open()
		if err != nil {
			return nil, 0, badinput.Errorf("%w", err)
		}
		n, err := io.Copy(io.Discard, r)
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, 0, err
		}
		all, total = append(all, hub.Upload{Path: f.Name, Size: n, Open: f.Open}), total+n
	}
	return all, total, nil
}

// show prints what would be uploaded.
func (f *publishFlags) show(c *hub.Client, files []bundle.File, uploads []hub.Upload, total int64, out io.Writer) error {
	kind, token := "public", "with a token"
	if f.private {
		kind = "private"
	}
	if c.Token == "" {
		token = "but there is no token yet: set HF_TOKEN"
	}
	fmt.Fprintf(out, "would make %s/%s, %s, unless it is there, %s\nand the commit %q of %d files, %.1f MiB:\n", c.Endpoint, f.repo, kind,
		token, f.message, len(uploads), float64(total)/(1<<20))
	for _, u := range uploads {
		fmt.Fprintf(out, "%12d  %s\n", u.Size, u.Path)
	}
	card, err := files[0].Open()
	if err != nil {
		return err
	}
	defer card.Close()
	fmt.Fprintf(out, "\nREADME.md:\n\n")
	_, err = io.Copy(out, card)
	return err
}
