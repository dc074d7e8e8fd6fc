package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/attestation"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/offline"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// traceFlags are the flags of `osm-gitops trace`.
type traceFlags struct {
	access clusters.InspectFlags
	output string
	diff   bool
	dump   string
	limit  int
	after  string
	sign   string
}

func newTraceCommand() *cobra.Command {
	var flags traceFlags
	cmd := &cobra.Command{
		Use:   "trace KIND/NAME [-o text|json|yaml|intoto] [--diff]",
		Short: "show the commit from which a node or object was provisioned",
		Long: `Show the commit from which a node was provisioned, and every step between the two: which
objects exist, were deleted, are missing, were edited, or have another owner.

KIND/NAME is one of
  node/NAME                         an existing or deleted node
  nodeprovenance/NAME               one of several nodes with the same name
  machine/[NAMESPACE/]NAME
  machinedeployment/[NAMESPACE/]NAME  with its nodes
  osc/NAME                          an OperatingSystemConfig
  osp/[NAMESPACE/]NAME              an OperatingSystemProfile, with its pools and nodes; or a
                                    profile as its file and the pools name it, with its versions
  secret/NAME                       a Secret of cloud-init-settings; its data is not read
  commit/ID                         what comes from a commit: profiles, pools, nodes

The exit status is 0 if the origin is known, and 1 if it is unknown or if records
disagree, which is printed nevertheless.

--diff adds the changes in the files of the node since then: between its version and the
pool's current one, rendered with placeholders for credentials.

-o intoto prints an in-toto statement about a node for other tools, with SLSA's
provenance: the commit, and the digests of the documents from which it booted, rendered
with placeholders. --sign FILE signs it in an envelope.

--dump FILE writes everything that trace reads into a file, without credentials, and
--from FILE reads it instead of a cluster. A FILE that ends in .gz is compressed.`,
		Example: "  osm-gitops trace node/workers-7c9f-x2x4k\n  osm-gitops trace commit/3f2a9c1 -o json\n  osm-gitops trace --dump audit.jsonl.gz",
		Args:    func(_ *cobra.Command, args []string) error { return flags.checkArgs(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTrace(cmd.Context(), flags, args, cli.NewEscapingWriter(cmd.OutOrStdout(), flags.output), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	flags.access.Bind(cmd)
	cli.BindOutput(fs, &flags.output, "text", "json", "yaml", outputIntoto)
	fs.StringVar(&flags.sign, "sign", "", "`FILE` with a private key in PEM, Ed25519 or ECDSA, to sign -o intoto in a DSSE envelope")
	fs.BoolVar(&flags.diff, "diff", false, "add the later changes in files of the node")
	fs.StringVar(&flags.dump, "dump", "", "new `FILE` for everything that trace reads")
	fs.IntVar(&flags.limit, "limit", 20, "the most nodes to list")
	fs.StringVar(&flags.after, "after", "", "`NAME` after which the next page begins, from the previous page")
	return cmd
}

// traceOutput writes a result.
type traceOutput func(ctx context.Context, out io.Writer, from trace.Clusters, t *traceReport) error

// traceReport is the printed result.
type traceReport struct {
	*trace.Result

	// Diff is what has changed since, by file; nil without --diff.
	Diff *trace.Diff `json:"diff,omitempty"`
}

// write prints a result in the form of --output.
func (f *traceFlags) write(ctx context.Context, out io.Writer, from trace.Clusters, t *traceReport) error {
	if f.output == outputIntoto {
		return printStatements(ctx, out, from, t)
	}
	return cli.Print(out, f.output, t, func() string { return traceText(t) })
}

func (f *traceFlags) checkArgs(args []string) error {
	const usage = "osm-gitops trace node/NAME"
	switch {
	case f.dump != "" && (len(args) > 0 || f.access.From != "" || f.diff):
		return cli.Misusef("osm-gitops trace --dump FILE", "--dump writes the objects of a cluster, and traces nothing")
	case f.dump != "":
		return nil
	case len(args) == 0:
		return cli.Misusef(usage, "KIND/NAME is missing")
	case len(args) > 1:
		return cli.Misusef(usage, "unexpected argument %q", args[1])
	case f.output == outputIntoto && f.diff:
		return cli.Misusef("osm-gitops trace node/NAME -o intoto", "--diff has no effect on -o intoto")
	case f.sign != "" && f.output != outputIntoto:
		return cli.Misusef("osm-gitops trace node/NAME -o intoto --sign FILE", "--sign needs -o intoto")
	case f.limit < 0:
		return cli.Misusef("--limit 20", "--limit: is %d", f.limit)
	}
	_, err := parseSubject(args[0])
	return err
}

// errUnknown follows a printed result that is incomplete or contradictory.
var errUnknown = errors.New("its origin is not certain: see above")

func runTrace(ctx context.Context, f traceFlags, args []string, stdout, stderr io.Writer) error {
	write := f.write
	if f.sign != "" {
		var err error
		if write, err = signedStatementOutput(f.sign); err != nil {
			return err
		}
	}
	var of subject
	if f.dump == "" {
		var err error
		if of, err = parseSubject(args[0]); err != nil {
			return err
		}
		if of.key.Namespace, err = f.access.ResolveObjectNamespace(of.kind == "machine" || of.kind == "machinedeployment", of.key.Namespace); err != nil {
			return err
		}
	}
	from, err := f.access.Open()
	if err != nil {
		return err
	}
	if f.dump != "" {
		return writeDump(ctx, from, f.dump, stderr)
	}
	result, err := of.traceSubject(ctx, from, trace.Page{Limit: f.limit, After: f.after})
	if err != nil {
		return err
	}
	t := &traceReport{Result: result}
	if f.diff {
		if t.Diff, err = from.DiffWithCurrent(ctx, result); err != nil {
			return err
		}
	}
	if err := write(ctx, stdout, from, t); err != nil {
		return err
	}
	if !result.IsConclusive() {
		return errUnknown
	}
	return nil
}

// subject is the object to trace.
type subject struct {
	kind string
	key  types.NamespacedName
}

// parseSubject reads KIND/NAME or KIND/NAMESPACE/NAME.
func parseSubject(text string) (subject, error) {
	const hint = "node/NAME, nodeprovenance/NAME, machine/NAME, machinedeployment/NAMESPACE/NAME, osc/NAME, osp/NAME, secret/NAME or commit/ID"
	kind, rest, ok := strings.Cut(text, "/")
	if !ok || rest == "" {
		return subject{}, cli.Misusef(hint, "%q is not KIND/NAME", text)
	}
	s := subject{kind: cli.CanonicalKind(kind)}
	if slices.Contains([]string{"", "source", "rollout", "window"}, s.kind) {
		return subject{}, cli.Misusef(hint, "unknown kind %q", kind)
	}
	namespace, name, namespaced := strings.Cut(rest, "/")
	switch {
	case s.kind == "commit": // the revision of an artifact may hold a slash
		s.key.Name = rest
		if len(rest) < trace.MinCommit {
			return s, cli.Misusef(hint, "commit %q: give at least %d digits", rest, trace.MinCommit)
		}
	case !namespaced:
		s.key.Name = rest
	case s.kind == "node" || s.kind == "nodeprovenance":
		return s, cli.Misusef(hint, "%q: a %s has no namespace", text, s.kind)
	case namespace == "" || name == "" || strings.Contains(name, "/"):
		return s, cli.Misusef(hint, "%q is not KIND/NAMESPACE/NAME", text)
	default:
		s.key = types.NamespacedName{Namespace: namespace, Name: name}
	}
	return s, nil
}

func (s subject) traceSubject(ctx context.Context, c trace.Clusters, page trace.Page) (*trace.Result, error) {
	switch s.kind {
	case "node":
		return c.Node(ctx, s.key.Name)
	case "nodeprovenance":
		return c.Provenance(ctx, s.key.Name)
	case "machine":
		return c.Machine(ctx, s.key)
	case "machinedeployment":
		return c.MachineDeployment(ctx, s.key, page)
	case "osc":
		if s.key.Namespace != "" {
			c.Namespace = s.key.Namespace
		}
		return c.Config(ctx, s.key.Name)
	case "osp":
		return c.TraceProfile(ctx, s.key, page)
	case "secret":
		return c.Secret(ctx, s.key)
	case "commit":
		return c.Commit(ctx, s.key.Name, page)
	}
	return nil, fmt.Errorf("cannot trace a %s", s.kind)
}

// writeDump writes a new file that only its owner can read.
func writeDump(ctx context.Context, from trace.Clusters, path string, stderr io.Writer) error {
	// The dump must not go into a file that another user has prepared.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--dump: %w: name a new file", err)
	}
	dumped, err := dumpInto(ctx, from, file, strings.HasSuffix(path, ".gz"))
	if err = errors.Join(err, file.Close()); err != nil {
		// A partial dump could be mistaken for a complete one.
		return errors.Join(err, os.Remove(path))
	}
	for _, u := range dumped.ReadErrors {
		fmt.Fprintf(stderr, "osm-gitops: warning: not in the dump: %s\n", u)
	}
	fmt.Fprintf(stderr, "osm-gitops: wrote %d objects without credentials to %s\n", dumped.Objects, path)
	return nil
}

// dumpInto writes a dump, compressed with gzip if packed is set.
func dumpInto(ctx context.Context, from trace.Clusters, file io.Writer, packed bool) (*offline.Written, error) {
	if !packed {
		return offline.Write(ctx, from, file, time.Now())
	}
	pack := gzip.NewWriter(file)
	dumped, err := offline.Write(ctx, from, pack, time.Now())
	return dumped, errors.Join(err, pack.Close())
}

// outputIntoto is the value of --output for statements of in-toto.
const outputIntoto = "intoto"

// printStatements prints the statements about a node, one on each line.
func printStatements(ctx context.Context, out io.Writer, from trace.Clusters, t *traceReport) error {
	return forEachStatement(ctx, from, t, func(text []byte) error {
		_, err := fmt.Fprintf(out, "%s\n", text)
		return err
	})
}

// signedStatementOutput returns an output that prints statements signed with the key in a file,
// each in a DSSE envelope.
func signedStatementOutput(file string) (traceOutput, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("--sign: %w", err)
	}
	key, err := attestation.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("--sign: %s: %w", file, err)
	}
	return func(ctx context.Context, out io.Writer, from trace.Clusters, t *traceReport) error {
		return forEachStatement(ctx, from, t, func(text []byte) error {
			envelope, err := key.Sign(ctx, text)
			if err == nil {
				_, err = fmt.Fprintf(out, "%s\n", envelope)
			}
			return err
		})
	}, nil
}

// forEachStatement builds the statements about a traced node and passes each to do.
func forEachStatement(ctx context.Context, from trace.Clusters, t *traceReport, do func([]byte) error) error {
	switch {
	case t.Node == nil:
		return cli.Misusef("osm-gitops trace node/NAME -o "+outputIntoto, "%s is not a node: statements are about nodes", t.Subject)
	case t.Node.Provenance == "":
		return fmt.Errorf("node %s has no NodeProvenance yet, which statements need: the controller writes it after the node has joined", t.Node.Name)
	}
	var np api.NodeProvenance
	if err := from.Worker.Get(ctx, client.ObjectKey{Name: t.Node.Provenance}, &np); err != nil {
		return fmt.Errorf("reading NodeProvenance %s: %w", t.Node.Provenance, err)
	}
	n := attestation.Node{Provenance: &np}
	pool := types.NamespacedName{Namespace: np.Spec.Pool.Namespace, Name: np.Spec.Pool.Name}
	if c := np.Spec.Configuration; c != nil {
		stored, err := from.ReadRecord(ctx, pool, c.InputDigest)
		if err != nil {
			return err
		}
		n.Provisioning, n.Bootstrap = stored.Record, stored.Record
		if b := np.Spec.Bootstrap; b != nil && b.InputDigest != c.InputDigest {
			if stored, err = from.ReadRecord(ctx, pool, b.InputDigest); err != nil {
				return err
			}
			n.Bootstrap = stored.Record
		}
	}
	statements, err := attestation.Statements(n)
	if err != nil {
		return err
	}
	if np.Spec.Configuration != nil {
		for _, rec := range []render.Record{n.Provisioning, n.Bootstrap} {
			if err := checkRecordReproduces(ctx, from, pool, rec); err != nil {
				return fmt.Errorf("node %s: no statement: %w", np.Spec.Node.Name, err)
			}
		}
	}
	for _, text := range statements {
		if err := do(text); err != nil {
			return err
		}
	}
	return nil
}

// checkRecordReproduces returns an error if a record's document digests differ from what it renders
// to: its own digest covers its inputs, not the result. Records of another engine, and those
// without their profile or settings, pass.
func checkRecordReproduces(ctx context.Context, from trace.Clusters, pool types.NamespacedName, rec render.Record) error {
	if rec.Engine != render.EngineVersion {
		return nil
	}
	in, err := from.ReadGenerationInput(ctx, pool, rec.Digests.Input)
	if _, ok := errors.AsType[*trace.NotFoundError](err); ok {
		return nil
	}
	if err != nil {
		return err
	}
	out, err := render.NewEngine().Render(in)
	if err != nil {
		return err
	}
	if got := out.Record.Digests; got != rec.Digests {
		return fmt.Errorf("the record of configuration %s does not match its rendering: run osm-gitops verify for the difference", rec.Digests.Input)
	}
	return nil
}

// traceText formats a result as text: the answer, the chain and the lists.
func traceText(t *traceReport) string {
	var b strings.Builder
	fmt.Fprintln(&b, t.Subject)
	writeTraceSummary(&b, t.Result)
	for _, d := range t.Disagreements {
		writeField(&b, "DISAGREES", d)
	}
	bootLines(&b, t.Boots)
	writeSteps(&b, t.Steps)
	versionLines(&b, t.Versions)
	poolLines(&b, t.Pools)
	provisionedNodeLines(&b, t.Nodes)
	diffLines(&b, t.Diff)
	return redact.RemoveControlChars(b.String()) // security.md 28
}

// writeField prints a named value, or nothing if it is empty.
func writeField(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, "  %-11s %s\n", name, value)
	}
}

// writeTraceSummary prints the answer: profile, commit, evidence and missing versions.
func writeTraceSummary(b *strings.Builder, t *trace.Result) {
	if t.Version != "" {
		writeField(b, "profile", t.Profile+" "+t.Version)
	} else if len(t.Versions) > 0 {
		writeField(b, "profile", t.Profile)
	} else if t.Commit == nil && t.Nodes == nil {
		writeField(b, "profile", "not known")
	}
	switch {
	case t.Commit != nil:
		commitLines(b, t.Commit)
	case t.Version != "":
		writeField(b, "commit", "none: the profile comes from no known repository")
	}
	if n := t.Node; n != nil {
		writeField(b, "evidence", joinNonEmpty(": ", string(n.Evidence), n.Explanation))
		if n.Evidence != "" && n.Provenance == "" {
			writeField(b, "", "(concluded now; the controller has not recorded it yet)")
		}
		if a := n.Agreed; a != nil && a.Status == metav1.ConditionUnknown { // or the evidence already says it
			writeField(b, "its word", a.Message)
		}
		for _, p := range n.Possible {
			writeField(b, "possible", fmt.Sprintf("%s %s of %s", p.Profile, p.Version, formatPeriod(p.From, p.Until)))
		}
		if p := n.Bootstrap; p != nil {
			writeField(b, "bootstrap", fmt.Sprintf("%s %s: its bootstrap document is older than the other", p.Profile, p.Version))
		}
		matchLines(b, n.Match)
		writeField(b, "others", strings.Join(n.Others, " "))
	}
	behindLines(b, t.Behind)
}

// matchLines prints how the files and units of a node differ from its configuration.
func matchLines(b *strings.Builder, m *trace.Match) {
	if m == nil {
		return
	}
	reason := m.Condition.Reason
	if reason == string(m.State) {
		reason = ""
	}
	writeField(b, "match", joinNonEmpty(", ", string(m.State), reason, "since "+lineage.FormatTime(m.Since.Time)))
	for _, d := range m.Differences {
		of := ""
		if d.Version != "" {
			of = joinNonEmpty(" ", "as in", d.Version, d.Commit)
		}
		writeField(b, "", joinNonEmpty(" ", d.Path, string(d.Reason), d.Found, of))
	}
	if m.Others > 0 {
		writeField(b, "", fmt.Sprintf("%d more", m.Others))
	}
	if len(m.Differences) == 0 && m.State != api.MatchStateMatches {
		writeField(b, "", m.Condition.Message)
	}
}

func commitLines(b *strings.Builder, c *trace.Commit) {
	writeField(b, "commit", c.Commit)
	writeField(b, "", c.Link)
	if c.LinkGuessed {
		writeField(b, "", "(the kind of host was guessed from its name: --git-hosts says it)")
	}
	if c.Change != c.Commit {
		writeField(b, "change", joinNonEmpty(" ", c.Change, c.ChangeLink))
	}
	if c.SelectedBy != c.Commit {
		writeField(b, "selected by", c.SelectedBy)
	}
	writeField(b, "file", joinNonEmpty(" of ", c.Path, c.Repository))
	writeField(b, "", c.FileLink)
	writeField(b, "subject", c.Subject)
	writeField(b, "author", joinNonEmpty(", ", c.Author, c.CommittedAt))
	switch {
	case c.Signature != "":
		writeField(b, "signature", c.Signature)
	case c.Author == "":
		writeField(b, "signature", "not known, and neither is the author")
	default:
		writeField(b, "signature", "none is recorded")
	}
}

func behindLines(b *strings.Builder, of *trace.Behind) {
	if of == nil {
		return
	}
	switch {
	case of.State == api.BehindNo:
		writeField(b, "behind", "no")
	case of.State == api.BehindUnknown:
		writeField(b, "behind", "not known"+strings.TrimSuffix("; the pool has "+of.Current+" now", "; the pool has  now"))
	case len(of.Versions) == 0: // the pool changed while the machine booted
		writeField(b, "behind", fmt.Sprintf("yes; the pool has %s now", of.Current))
	default:
		writeField(b, "behind", fmt.Sprintf("%s; the pool has %s now", phrase.Count(len(of.Versions), "version"), of.Current))
		for _, v := range of.Versions {
			writeField(b, "", fmt.Sprintf("%s %s since %s %s", v.Profile, v.Version, lineage.FormatTime(v.Since.Time), v.Commit))
		}
	}
}

// bootLines prints what a machine without a node reports, with the output of its scripts.
func bootLines(b *strings.Builder, boots []trace.Boot) {
	for _, boot := range boots {
		writeField(b, "boot", fmt.Sprintf("%s %s since %s, attempt %d, %s", boot.Stage, strings.ToLower(string(boot.Outcome)), lineage.FormatTime(boot.Since.Time), boot.Attempt, boot.Version))
		if c := boot.Cause; c != nil {
			writeField(b, "cause", c.String())
			if c.File != "" && c.NodeFile != "" {
				writeField(b, "", fmt.Sprintf("on the node %s:%d", c.NodeFile, c.NodeLine))
			}
			writeField(b, "command", c.Command)
			writeField(b, "introduced", joinNonEmpty(" by ", c.Commit, c.Author))
		}
		for line := range strings.Lines(boot.Log) {
			fmt.Fprintf(b, "    | %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
}

// writeSteps prints the steps, each with its details.
func writeSteps(b *strings.Builder, steps []trace.Step) {
	for i, s := range steps {
		branch, below := "├─", "│ "
		if i == len(steps)-1 {
			branch, below = "└─", "  "
		}
		fmt.Fprintf(b, "%s %s", branch, s.Object)
		if s.State != trace.Found {
			fmt.Fprintf(b, ": %s", strings.ToUpper(string(s.State)))
		}
		if s.Note != "" {
			fmt.Fprintf(b, ": %s", s.Note)
		}
		fmt.Fprintln(b)
		var details []string
		for _, f := range s.Details {
			value := f.Value
			if strings.HasSuffix(f.Name, "digest") {
				value = render.ShortDigest(value)
			}
			details = append(details, f.Name+" "+value)
		}
		if len(details) > 0 {
			fmt.Fprintf(b, "%s    %s\n", below, strings.Join(details, ", "))
		}
	}
}

func versionLines(b *strings.Builder, versions []trace.ProfileVersion) {
	if len(versions) > 0 {
		fmt.Fprintln(b, "versions")
	}
	for _, v := range versions {
		object := cmp.Or(v.Object, "no object is left")
		current := ""
		if v.Current {
			current = "current"
		}
		fmt.Fprintf(b, "  %s: %s\n", v.Version, joinNonEmpty(", ", current, object, v.Commit, v.Author, v.CommittedAt, phrase.Count(v.Pools, "pool"), phrase.Count(v.Nodes, "node")))
	}
}

func poolLines(b *strings.Builder, uses []trace.PoolUse) {
	if len(uses) > 0 {
		fmt.Fprintln(b, "pools")
	}
	for _, p := range uses {
		fmt.Fprintf(b, "  %s: %s %s, %s\n", p.Pool, p.Profile, p.Version, formatPeriod(p.From, p.Until))
	}
}

func provisionedNodeLines(b *strings.Builder, of *trace.ProvisionedNodes) {
	if of == nil {
		return
	}
	if of.ReadError != "" {
		fmt.Fprintf(b, "nodes: NodeProvenances cannot be read: %s\n", of.ReadError)
		return
	}
	fmt.Fprintf(b, "nodes: %d (%d existing, %d behind)\n", of.Total, of.Present, of.Behind)
	if len(of.Versions) > 1 {
		for _, v := range of.Versions {
			fmt.Fprintf(b, "  %6d %s\n", v.Nodes, joinNonEmpty(" ", v.Profile, v.Version, v.Commit))
		}
	}
	for _, n := range of.Nodes {
		is := string(n.Evidence)
		if n.Behind == api.BehindYes {
			is += ", behind"
		}
		if n.Removed != nil {
			is += ", deleted " + lineage.FormatTime(n.Removed.Time)
		}
		fmt.Fprintf(b, "  %s  %s  %s  joined %s  %s\n", n.Name, n.Pool, joinNonEmpty(" ", n.Profile, n.Version), lineage.FormatTime(n.Joined.Time), is)
	}
	if of.Next != "" {
		fmt.Fprintf(b, "  more with --after %s\n", of.Next)
	}
}

func diffLines(b *strings.Builder, d *trace.Diff) {
	if d == nil {
		return
	}
	if len(d.Files) == 0 {
		fmt.Fprintf(b, "no changes since then in the files of the node\n")
		return
	}
	fmt.Fprintf(b, "from %s to %s\n", d.From, d.To)
	for _, f := range d.Files {
		fmt.Fprintf(b, "--- %s of %s\n+++ %s of %s, %s", f.Path, d.From, f.Path, d.To, f.Stage)
		if f.Change != "changed" {
			fmt.Fprintf(b, ", %s", f.Change)
		}
		if f.OldMode != "" {
			fmt.Fprintf(b, ", mode %s to %s", f.OldMode, f.NewMode)
		}
		fmt.Fprintf(b, "\n%s", f.Diff)
	}
}

func joinNonEmpty(by string, texts ...string) string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, by)
}

// formatPeriod formats a period of time; without an end it is still going on.
func formatPeriod(from metav1.Time, until *metav1.Time) string {
	if until == nil {
		return "since " + lineage.FormatTime(from.Time)
	}
	return lineage.FormatTime(from.Time) + " to " + lineage.FormatTime(until.Time)
}
