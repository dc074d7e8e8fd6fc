package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// traceFlags are the flags of `osm-gitops trace`.
type traceFlags struct {
	person personFlags
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
		Short: "say which commit something was provisioned from",
		Long: `Say which commit a node was provisioned from, and follow every step from one to the
other: what is there, gone, missing, edited, or somebody else's.

KIND/NAME is one of
  node/NAME                         a node that is there, or was
  nodeprovenance/NAME               one of several nodes that had a name
  machine/[NAMESPACE/]NAME
  machinedeployment/[NAMESPACE/]NAME  with its nodes
  osc/NAME                          an OperatingSystemConfig
  osp/[NAMESPACE/]NAME              an OperatingSystemProfile, with its pools and nodes; or a
                                    profile as its file and the pools name it, with its versions
  secret/NAME                       a Secret of cloud-init-settings; its data is not read
  commit/ID                         what comes from a commit: profiles, pools, nodes

The exit status is 0 where that is known, and 1 where it is not or where something
disagrees, which is printed nevertheless.

--diff adds what changed in the files of the node since: of that version and of what
the pool has now, rendered with placeholders for credentials.

-o intoto prints an in-toto statement about a node for other tools, with SLSA's
provenance: the commit, and the digests of the documents that it booted from, rendered
with placeholders. --sign FILE puts it into a signed envelope.

--dump FILE writes everything that trace reads into a file, without credentials, and
--from FILE reads it, where the cluster is not at hand. FILE ending in .gz is compressed.`,
		Example: "  osm-gitops trace node/workers-7c9f-x2x4k\n  osm-gitops trace commit/3f2a9c1 -o json\n  osm-gitops trace --dump audit.jsonl.gz",
		Args:    func(_ *cobra.Command, args []string) error { return flags.checkArgs(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTrace(cmd.Context(), flags, args, shown(cmd.OutOrStdout(), flags.output), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	flags.person.bind(fs)
	fs.StringVarP(&flags.output, "output", "o", "text", "what to print: "+strings.Join(slices.Sorted(maps.Keys(traceOutputs())), ", "))
	fs.StringVar(&flags.sign, "sign", "", "`FILE` with a private key in PEM, Ed25519 or ECDSA, that signs what -o intoto prints, in a DSSE envelope")
	fs.BoolVar(&flags.diff, "diff", false, "add what changed since in the files of the node")
	fs.StringVar(&flags.dump, "dump", "", "`FILE` to write, with everything that trace reads; it must not exist")
	fs.IntVar(&flags.limit, "limit", 20, "the most nodes to list")
	fs.StringVar(&flags.after, "after", "", "the `NAME` after which the next page of nodes begins, as the page before says")
	return cmd
}

// traceOutput writes a trail.
type traceOutput func(ctx context.Context, out io.Writer, from trace.Clusters, t *tracing) error

// tracing is what is printed.
type tracing struct {
	*trace.Trail

	// Diff is what changed since, file by file; nil where that was not asked for.
	Diff *trace.Diff `json:"diff,omitempty"`
}

// traceOutputs are the values of --output.
func traceOutputs() map[string]traceOutput {
	return map[string]traceOutput{
		"text": func(_ context.Context, out io.Writer, _ trace.Clusters, t *tracing) error {
			_, err := io.WriteString(out, traceText(t))
			return err
		},
		"json": func(_ context.Context, out io.Writer, _ trace.Clusters, t *tracing) error {
			enc := json.NewEncoder(out)
			enc.SetIndent("", "  ")
			return enc.Encode(t)
		},
		outputIntoto: printStatements,
		"yaml": func(_ context.Context, out io.Writer, _ trace.Clusters, t *tracing) error {
			text, err := runnerlog.YAML(t)
			if err == nil {
				_, err = out.Write(text)
			}
			return err
		},
	}
}

func (f *traceFlags) checkArgs(args []string) error {
	const usage = "osm-gitops trace node/NAME"
	switch {
	case f.dump != "" && (len(args) > 0 || f.person.from != "" || f.diff):
		return misusef("osm-gitops trace --dump FILE", "--dump writes what is in a cluster, and traces nothing")
	case f.dump != "":
		return nil
	case len(args) == 0:
		return misusef(usage, "KIND/NAME is missing")
	case len(args) > 1:
		return misusef(usage, "unexpected argument %q", args[1])
	case traceOutputs()[f.output] == nil:
		return misusef("-o text, -o json, -o yaml or -o intoto", "unknown output %q", f.output)
	case f.output == outputIntoto && f.diff:
		return misusef("osm-gitops trace node/NAME -o intoto", "--diff has no place in -o intoto")
	case f.sign != "" && f.output != outputIntoto:
		return misusef("osm-gitops trace node/NAME -o intoto --sign FILE", "--sign signs what -o intoto prints, and nothing else")
	case f.limit < 0:
		return misusef("--limit 20", "--limit: is %d", f.limit)
	}
	_, err := parseSubject(args[0])
	return err
}

// errUnknown says that the trail leads nowhere, which was printed.
var errUnknown = errors.New("what it was provisioned from is not known for sure: see above")

func runTrace(ctx context.Context, f traceFlags, args []string, stdout, stderr io.Writer) error {
	write := traceOutputs()[f.output]
	if f.sign != "" {
		var err error
		if write, err = signedBy(f.sign); err != nil {
			return err
		}
	}
	from, err := f.person.clusters()
	if err != nil {
		return err
	}
	if f.dump != "" {
		return writeDump(ctx, from, f.dump, stderr)
	}
	of, err := parseSubject(args[0])
	if err != nil {
		return err
	}
	trail, err := of.follow(ctx, from, trace.Page{Limit: f.limit, After: f.after})
	if err != nil {
		return err
	}
	t := &tracing{Trail: trail}
	if f.diff {
		if t.Diff, err = from.Diff(ctx, trail); err != nil {
			return err
		}
	}
	if err := write(ctx, stdout, from, t); err != nil {
		return err
	}
	if !trail.Known() {
		return errUnknown
	}
	return nil
}

// subject is what trace is asked about.
type subject struct {
	kind string
	key  types.NamespacedName
}

// parseSubject reads KIND/NAME or KIND/NAMESPACE/NAME.
func parseSubject(text string) (subject, error) {
	const hint = "node/NAME, nodeprovenance/NAME, machine/NAME, machinedeployment/NAMESPACE/NAME, osc/NAME, osp/NAME, secret/NAME or commit/ID"
	kind, rest, ok := strings.Cut(text, "/")
	if !ok || rest == "" {
		return subject{}, misusef(hint, "%q is not KIND/NAME", text)
	}
	s := subject{kind: longKind(kind)}
	if s.kind == "" {
		return subject{}, misusef(hint, "unknown kind %q", kind)
	}
	namespace, name, namespaced := strings.Cut(rest, "/")
	switch {
	case s.kind == "commit": // the revision of an artifact may hold a slash
		s.key.Name = rest
		if len(rest) < trace.MinCommit {
			return s, misusef(hint, "commit %q: at least %d digits are needed", rest, trace.MinCommit)
		}
	case !namespaced:
		s.key.Name = rest
	case s.kind == "node" || s.kind == "nodeprovenance":
		return s, misusef(hint, "%q: a %s is in no namespace", text, s.kind)
	case namespace == "" || name == "" || strings.Contains(name, "/"):
		return s, misusef(hint, "%q is not KIND/NAMESPACE/NAME", text)
	default:
		s.key = types.NamespacedName{Namespace: namespace, Name: name}
	}
	return s, nil
}

// longKind is the name of a kind by any of its names; "" for none.
func longKind(kind string) string {
	for long, names := range map[string][]string{
		"node":              {"nodes", "no"},
		"nodeprovenance":    {"nodeprovenances", "np"},
		"machine":           {"machines"},
		"machinedeployment": {"machinedeployments", "md"},
		"osc":               {"operatingsystemconfig", "operatingsystemconfigs"},
		"osp":               {"operatingsystemprofile", "operatingsystemprofiles"},
		"secret":            {"secrets"},
		"commit":            nil,
	} {
		if kind = strings.ToLower(kind); kind == long || slices.Contains(names, kind) {
			return long
		}
	}
	return ""
}

// follow makes the trail.
func (s subject) follow(ctx context.Context, c trace.Clusters, page trace.Page) (*trace.Trail, error) {
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
		return c.ProfileTrail(ctx, s.key, page)
	case "secret":
		return c.Secret(ctx, s.key)
	case "commit":
		return c.Commit(ctx, s.key.Name, page)
	}
	return nil, fmt.Errorf("no way to follow a %s", s.kind)
}
