package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// verifyFlags are the flags of `osm-gitops verify`.
type verifyFlags struct {
	access         clusters.InspectFlags
	repo           load.RepoFlags
	cache          string
	keys           []string
	withoutSecrets bool
	match          bool
	output         string
	auditLog       auditLogFlags
}

func newVerifyCommand() *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify node/NAME | machinedeployment/[NAMESPACE/]NAME | --audit-log FILE...",
		Short: "prove the origin of the configuration of a node or a pool",
		Long: `Prove the origin of a node's configuration, or of the current configuration of a pool.

The profile is read from the recorded commit of the recorded repository, and rendered
again from the recorded inputs, with placeholders for credentials. The result is
compared with the objects of the cluster: the NodeProvenance, the record, the settings, the
OperatingSystemProfile, the OperatingSystemConfig and the Secrets. The report says for each
of them whether it agrees, otherwise the first difference, never a credential.

The repository is fetched with the credentials of its ProfileSource. With --repo it is
read from a clone, or from another place, at --revision, as in osm-gitops render.
With --from a file of osm-gitops trace --dump is verified, which has no Secrets.

With --match the node must also have reported that its files and units are still those of
its configuration. That is the word of the node: it finds mistakes, not attackers.

With --audit-log the audit log of the controller is verified instead of a node: that no
line of it was changed, removed, inserted or moved, otherwise the first such line.

Nothing is written except to --cache-dir. The exit status is 0 if everything agrees, 1 if
not, 2 for misuse, and 3 if the record was created by a release with another engine.`,
		Example: "  osm-gitops verify node/workers-7c9f-x2x4k\n  osm-gitops verify machinedeployment/kube-system/workers --repo ~/src/osps -o json",
		Args: func(_ *cobra.Command, args []string) error {
			if flags.auditLog.isSet() {
				return flags.auditLog.check()
			}
			_, err := parseVerifyTarget(args)
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.auditLog.isSet() {
				return flags.auditLog.verifyAuditLog(args, cli.NewEscapingWriter(cmd.OutOrStdout(), flags.output), cmd.ErrOrStderr())
			}
			return runVerify(cmd.Context(), flags, args, cli.NewEscapingWriter(cmd.OutOrStdout(), flags.output))
		},
	}
	flags.bind(cmd)
	cmd.Flags().BoolVar(&flags.match, "match", false, "require that the node reports that its files and units are still those of its configuration")
	flags.auditLog.bind(cmd.Flags())
	cli.BindOutput(cmd.Flags(), &flags.output, "text", "json", "yaml")
	return cmd
}

// bind binds the flags for what to read and what to trust.
func (f *verifyFlags) bind(cmd *cobra.Command) {
	f.access.Bind(cmd)
	fs := cmd.Flags()
	f.repo.Bind(fs)
	fs.Lookup("repo").Usage = "`PATH-or-URL` of the Git repository to trust; empty: the recorded one"
	fs.Lookup("revision").Usage = "`REV` of --repo, with the profile in its first-parent history: a branch, tag or commit; default what the ProfileSource follows"
	fs.Lookup("path").Usage = "`FOLDER` of the profiles in --repo; default the folder of the ProfileSource"
	fs.StringVar(&f.cache, "cache-dir", "", "`FOLDER` for fetched repositories; empty: a temporary one")
	fs.StringArrayVar(&f.keys, "keys", nil, "`FILE` with trusted public keys for commits: OpenPGP in ASCII armor, or allowed_signers; repeatable. Empty: those of the ProfileSource")
	fs.BoolVar(&f.withoutSecrets, "without-secrets", false, "exclude Secrets from which machines boot")
}

const verifyUsage = "osm-gitops verify node/NAME, or osm-gitops verify machinedeployment/NAMESPACE/NAME"

// parseVerifyTarget reads node/NAME or the name of a pool from the arguments.
func parseVerifyTarget(args []string) (subject, error) {
	if len(args) != 1 {
		return subject{}, cli.Misusef(verifyUsage, "%d arguments found, one is expected", len(args))
	}
	of, err := parseSubject(args[0])
	if err != nil || of.kind != "node" && of.kind != "machinedeployment" {
		return subject{}, cli.Misusef(verifyUsage, "%q is neither a node nor a pool", args[0])
	}
	return of, nil
}

// statusError ends the program with a specific exit status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func runVerify(ctx context.Context, f verifyFlags, args []string, stdout io.Writer) error {
	if err := f.repo.CheckOptional(); err != nil {
		return err
	}
	of, err := parseVerifyTarget(args)
	if err != nil {
		return err
	}
	if f.match && of.kind != "node" {
		return cli.Misusef("osm-gitops verify node/NAME --match", "--match has no effect on a pool: only nodes report")
	}
	if of.key.Namespace, err = f.access.ResolveObjectNamespace(of.kind != "node", of.key.Namespace); err != nil {
		return err
	}
	if of.key.Namespace == "" && of.kind != "node" {
		if f.access.From != "" { // the kubeconfig's namespace is that of another cluster
			return cli.Misusef("osm-gitops verify machinedeployment/NAMESPACE/"+of.key.Name+" --from FILE", "--from needs the namespace of pool %q", of.key.Name)
		}
		of.key.Namespace = f.access.DefaultPoolNamespace()
	}
	v, done, err := f.newVerifier()
	if err != nil {
		return err
	}
	defer done()
	var report *verify.Report
	if of.kind == "node" {
		report, err = v.Node(ctx, of.key.Name)
	} else {
		report, err = v.Pool(ctx, of.key)
	}
	if err != nil {
		return err
	}
	if err := cli.Print(stdout, f.output, report, func() string { return reportText(report) }); err != nil {
		return err
	}
	switch {
	case report.Agrees():
		return nil
	case report.NeedsOnlyOtherEngine():
		v, _ := buildVersion()
		return &statusError{exitOtherRelease, fmt.Errorf("%s: the record was created by engine %q, and this release, %s, has engine %q: use a release whose osm-gitops version prints %q; docs/verify.md lists the releases of each engine",
			report.Subject, redact.PrintableLine(report.Engine), v, render.EngineVersion, "engine "+redact.PrintableLine(report.Engine))}
	}
	return fmt.Errorf("%s: %s", report.Subject, report.Verdict)
}

// newVerifier creates a Verifier from the flags. The caller calls done at the end.
func (f *verifyFlags) newVerifier() (v *verify.Verifier, done func(), err error) {
	from, err := f.access.Open()
	if err != nil {
		return nil, nil, err
	}
	v = &verify.Verifier{
		Management: from.Management, Worker: from.Worker, Namespace: from.Namespace,
		Engine: render.NewEngine(), Builtin: catalog.Builtin(),
		Match:          f.match,
		WithoutSecrets: f.withoutSecrets || f.access.From != "", // a dump has no Secrets
	}
	v.Check = lint.TemplateCheck(v.Engine)
	if v.Keys, err = readKeys(f.keys); err != nil {
		return nil, nil, err
	}
	if v.Repository, err = f.repo.Repository(); err != nil {
		return nil, nil, err
	}
	if f.cache == "" {
		v.Git, done, err = load.TemporaryMirrors(f.repo.AllowedCIDRs, f.repo.AllowInsecure)
		return v, done, err
	}
	mirrors := &source.Mirrors{Dir: f.cache, AllowInsecure: f.repo.AllowInsecure}
	if mirrors.AllowedCIDRs, err = load.ParseCIDRs(f.repo.AllowedCIDRs); err != nil {
		return nil, nil, err
	}
	v.Git = mirrors
	if done, err = mirrors.Lock(); err != nil {
		return nil, nil, fmt.Errorf("--cache-dir: %w", err)
	}
	return v, done, nil
}

// readKeys reads public keys; none without files.
func readKeys(files []string) (*signature.Keys, error) {
	if len(files) == 0 {
		return nil, nil
	}
	contents := map[string][]byte{}
	for _, path := range files {
		b, err := load.File(path, nil)
		if err != nil {
			return nil, fmt.Errorf("--keys: %w", err)
		}
		contents[filepath.Base(path)] = b
	}
	keys, err := signature.ParseKeys(contents)
	if err != nil {
		return nil, fmt.Errorf("--keys: %w", err)
	}
	return keys, nil
}

// reportText formats a report as text: the verdict, then a line for each check, and the
// place and values of each difference.
func reportText(r *verify.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Subject)
	if r.Profile != "" {
		fmt.Fprintf(&b, "profile: %s %s\n", r.Profile, r.Version)
	}
	if r.Commit != "" {
		fmt.Fprintf(&b, "commit:  %s of %s\n", r.Commit, r.Repository)
	}
	fmt.Fprintf(&b, "verdict: %s\n\n", r.Verdict)
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "  %-14s %-8s  %s\n", c.Thing, c.Result, c.Name)
		if c.Note != "" && c.Difference == nil {
			fmt.Fprintf(&b, "  %-14s %-8s  %s\n", "", "", c.Note)
		}
		if d := c.Difference; d != nil {
			fmt.Fprintf(&b, "  %-14s %-8s  %s\n", "", "", d.Where())
			fmt.Fprintf(&b, "  %-14s %-8s    expected: %s\n", "", "", d.Expected)
			fmt.Fprintf(&b, "  %-14s %-8s    found:    %s\n", "", "", d.Found)
		}
	}
	return b.String()
}

// auditLogFlags are the flags of `osm-gitops verify --audit-log`.
type auditLogFlags struct {
	files []string
	hash  string
}

func (f *auditLogFlags) bind(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.files, "audit-log", nil, "`FILE` of the controller's --audit-log to verify instead of a node; further files follow in any order")
	fs.StringVar(&f.hash, "audit-log-hash", "", "last `HASH` of an earlier verify, which has to exist")
}

// lineHash is the form of a hash that verify prints.
var lineHash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// isSet reports whether an audit log should be verified.
func (f *auditLogFlags) isSet() bool { return len(f.files) > 0 || f.hash != "" }

func (f *auditLogFlags) check() error {
	if len(f.files) == 0 {
		return cli.Misusef("osm-gitops verify --audit-log FILE... --audit-log-hash HASH", "--audit-log-hash has no effect without --audit-log")
	}
	if f.hash != "" && !lineHash.MatchString(f.hash) { // a typing error would look like a deleted line
		return cli.Misusef("osm-gitops verify --audit-log FILE... --audit-log-hash HASH", "--audit-log-hash: %q is not the hash of a line: write sha256: and 64 hex digits", f.hash)
	}
	return nil
}

// verifyAuditLog verifies the chain across files; the arguments are further files.
func (f *auditLogFlags) verifyAuditLog(args []string, stdout, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	sum, err := auditlog.Verify(append(f.files, args...), f.hash, nil)
	if _, ok := errors.AsType[*auditlog.BrokenError](err); ok {
		return fmt.Errorf("the audit log is broken at %w", err)
	}
	if err != nil {
		return err
	}
	if sum.Lines == 0 {
		return errors.New("the audit log is empty")
	}
	if sum.First > 1 {
		cli.Warn(stderr, fmt.Errorf("it begins with line number %d: name the files with earlier lines to verify these as well", sum.First))
	}
	fmt.Fprintf(stdout, "the chain is intact: %d lines, number %d to %d, in %s\nlast hash %s\n", sum.Lines, sum.First, sum.Last.Sequence, strings.Join(sum.Files, ", "), sum.Last.Hash)
	if f.hash != "" && !sum.Anchored {
		return fmt.Errorf("--audit-log-hash: no line has the hash %s: lines up to it were changed or removed, or are in a file that is not named", f.hash)
	}
	return nil
}
