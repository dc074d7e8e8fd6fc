package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs/session"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// fieldManager is the manager of what verbs write. It does not begin with "kubectl": Flux
// removes fields of such managers.
const fieldManager = api.FieldManager + "-cli"

// argoNamespace is the namespace of Argo CD's objects that are named without one.
const argoNamespace = "argocd"

// changeFlags are the flags of verbs that write.
type changeFlags struct {
	session.AccessFlags
	force bool
}

func (f *changeFlags) bind(cmd *cobra.Command) {
	f.Bind(cmd)
	cmd.Flags().BoolVar(&f.force, "force", false, "change it although Flux or Argo CD can undo it, or a check fails; without it, the error names each reason")
}

// change is one write.
type change struct {
	*changeFlags

	out         io.Writer
	errs        io.Writer
	of          session.Ref
	obj         client.Object
	patch       map[string]any // a merge patch
	args        []string       // of kubectl, after the namespace
	doneMessage string         // what to print when it is done
	// request: it changes nothing that Git can have, so that its owner does not matter.
	request bool
	// objections are the reasons against it, which --force overrides.
	rejections []rejection
}

// rejection is a reason against a change, and what to do instead of it.
type rejection struct {
	reason error
	remedy string
}

// addRejection records a reason against a change, with the remedy.
func (c *change) addRejection(remedy, reason string, values ...any) {
	c.rejections = append(c.rejections, rejection{fmt.Errorf(reason, values...), remedy})
}

// resolveRejections returns all rejections as an error, or with --force prints them as warnings.
func (c *change) resolveRejections() error {
	var rejected []error
	for _, o := range c.rejections {
		if c.force {
			cli.Warn(c.errs, o.reason)
			continue
		}
		rejected = append(rejected, fmt.Errorf("%w: %s", o.reason, o.remedy))
	}
	return errors.Join(rejected...)
}

// patchAnnotation sets an annotation, or removes it if value is empty.
func (c *change) patchAnnotation(key, value string) {
	var patched any = value
	args := []string{"annotate", c.kubectlResource(), c.of.Name, "--overwrite", key + "=" + value}
	if value == "" {
		patched, args = nil, []string{"annotate", c.kubectlResource(), c.of.Name, key + "-"}
	}
	c.patch = map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: patched}}}
	c.args = args
}

// patchSuspend sets spec.suspend of a ProfileSource.
func (c *change) patchSuspend(to bool) {
	c.patch = map[string]any{"spec": map[string]any{"suspend": to}}
	c.args = []string{"patch", c.kubectlResource(), c.of.Name, "--type", "merge", "-p", fmt.Sprintf(`{"spec":{"suspend":%t}}`, to)}
}

func (c *change) kubectlResource() string {
	if c.of.IsPool {
		return "machinedeployment"
	}
	return "profilesource"
}

// writeTimeout limits a write after an interruption.
const writeTimeout = 10 * time.Second

// apply writes a change, or prints it.
func (c *change) apply(ctx context.Context, s *session.Session) error {
	k := session.SourceKind
	if c.of.IsPool {
		k = session.PoolKind
	}
	if !c.request {
		c.checkOwner(k)
	}
	if err := c.resolveRejections(); err != nil {
		return err
	}
	if c.ShowKubectl {
		_, err := fmt.Fprintln(c.out, s.KubectlCommand(c.of.IsPool, c.of.Namespace, append(c.args, "--field-manager", fieldManager)...))
		return err
	}
	body, err := json.Marshal(c.patch)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	// An interruption does not end at once a write that the API server may have stored already: what remains is then reported.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(writeTimeout, cancel) })()
	if err := k.ConnectionIn(s).Patch(writing, c.obj, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)); err != nil {
		return session.AddRemedy(err)
	}
	_, err = fmt.Fprintf(c.out, "%s/%s/%s %s\n", c.kubectlResource(), c.of.Namespace, c.of.Name, c.doneMessage)
	return err
}

// checkOwner looks for Flux or Argo CD, which can undo a change.
func (c *change) checkOwner(k *session.Kind) {
	by, label := ownership.Owner(c.obj, k.GVK.GroupKind(), argoNamespace)
	switch {
	case by != "":
		c.addRejection("change it in Git, or repeat the command with --force", "%s is applied by %s, which can undo this", c.of, by)
	case label != "":
		cli.Warn(c.errs, fmt.Errorf("%s has the label %s, which Argo CD and others set: if Argo CD applies it, it can undo this", c.of, label))
	}
}

// verb is a command that changes the object of its first argument.
type verb struct {
	use, short, long, example string
	pools, sources            bool // what it can change
	arguments                 int
	// check looks at the arguments after the first; nil for nothing.
	check func(args []string) error
	// plan completes a change of an object that exists.
	plan func(ctx context.Context, s *session.Session, c *change, args []string) error
	// then follows the change; nil for nothing.
	then func(ctx context.Context, s *session.Session, c *change) error
}

func (v verb) newCommand() *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Long: v.long, Example: v.example,
		Args: cli.RequireArgumentCount(v.arguments, v.arguments),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := session.ParseRef(cmd, args[0], v.pools, v.sources)
			if err != nil {
				return err
			}
			if v.check != nil {
				if err := v.check(args); err != nil {
					return err
				}
			}
			s, err := f.Open()
			if err != nil {
				return err
			}
			c := &change{changeFlags: f, of: of, out: cli.NewEscapingWriter(cmd.OutOrStdout(), ""), errs: cmd.ErrOrStderr()}
			if c.obj, err = s.GetReferenced(cmd.Context(), &c.of); err != nil {
				return err
			}
			if err := v.plan(cmd.Context(), s, c, args); err != nil {
				return err
			}
			if err := c.apply(cmd.Context(), s); err != nil || f.ShowKubectl || v.then == nil {
				return err
			}
			return v.then(cmd.Context(), s, c)
		},
	}
	f.bind(cmd)
	return cmd
}

func NewReconcileCommand() *cobra.Command {
	var await bool
	var timeout time.Duration
	var token string
	cmd := verb{
		use:   "reconcile source/[NAMESPACE/]NAME [--wait]",
		short: "read a source now, instead of at the next interval",
		long: `Request that a ProfileSource reads its repository now, by Flux's annotation.

With --wait, the command ends when the controller has answered, and prints the revision.
The exit status is 1 if the revision was rejected, with the reason.`,
		example: "  osm-gitops reconcile source/platform --wait",
		sources: true, arguments: 1,
		plan: func(_ context.Context, _ *session.Session, c *change, _ []string) error {
			// The controller records no request to a suspended source, so --wait would end by its timeout only.
			if c.obj.(*api.ProfileSource).Spec.Suspend {
				return fmt.Errorf("%s is suspended: resume it first", c.of)
			}
			// Unique, so that the result of an earlier request is not mistaken for that of this one.
			token = time.Now().UTC().Format(time.RFC3339Nano)
			c.doneMessage, c.request = "requested", true
			c.patchAnnotation(meta.ReconcileRequestAnnotation, token)
			return nil
		},
		then: func(ctx context.Context, s *session.Session, c *change) error {
			if !await {
				return nil
			}
			return c.awaitReconciliation(ctx, s, token, timeout)
		},
	}.newCommand()
	cmd.Flags().BoolVar(&await, "wait", false, "wait for the answer")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "for --wait: the longest time")
	return cmd
}

// awaitEvery is the interval of reads while --wait waits.
const awaitEvery = 250 * time.Millisecond

// awaitReconciliation waits until the controller has handled a reconcile request.
func (c *change) awaitReconciliation(ctx context.Context, s *session.Session, token string, timeout time.Duration) error {
	fmt.Fprintf(c.errs, "osm-gitops: waiting for %s\n", c.of)
	var ps api.ProfileSource
	var ready *metav1.Condition
	err := wait.PollUntilContextTimeout(ctx, awaitEvery, timeout, true, func(ctx context.Context) (bool, error) {
		if err := s.Management.Get(ctx, client.ObjectKey{Namespace: c.of.Namespace, Name: c.of.Name}, &ps); err != nil {
			return false, err
		}
		ready = apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition)
		// The request can be recorded while Ready is still Unknown, which is not a result.
		return isRequestHandled(ps.Status.LastHandledReconcileAt, token) && ready != nil && ready.Status != metav1.ConditionUnknown, nil
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: the request remains, and the answer will be in the conditions of %s", c.of)
	case wait.Interrupted(err):
		return fmt.Errorf("%s did not answer within %s: check the controller with osm-gitops doctor", c.of, timeout)
	case err != nil:
		return session.AddRemedy(err)
	case ready.Status == metav1.ConditionFalse:
		return fmt.Errorf("%s: %s: %s", c.of, ready.Reason, ready.Message)
	}
	_, err = fmt.Fprintf(c.out, "profilesource/%s/%s applied %s\n", c.of.Namespace, c.of.Name, ps.Status.Revision)
	return err
}

// isRequestHandled reports whether the last handled request is this one, or a later one of another
// user, which replaced this one in the annotation.
func isRequestHandled(last, token string) bool {
	at, err := time.Parse(time.RFC3339Nano, last)
	requested, errRequested := time.Parse(time.RFC3339Nano, token)
	if err != nil || errRequested != nil {
		return last == token
	}
	return !at.Before(requested)
}

func NewSuspendCommand() *cobra.Command {
	return verb{
		use:   "suspend source/[NAMESPACE/]NAME|md/[NAMESPACE/]NAME",
		short: "stop a source, or freeze a pool",
		long: `Stop reconciling a ProfileSource: what is applied remains, and no wave begins. Or freeze
the configuration of a pool; its tokens are renewed.`,
		example: "  osm-gitops suspend source/platform\n  osm-gitops suspend md/shop/web",
		pools:   true, sources: true, arguments: 1,
		plan: planSuspension(true, "suspended"),
	}.newCommand()
}

func NewResumeCommand() *cobra.Command {
	return verb{
		use:     "resume source/[NAMESPACE/]NAME|md/[NAMESPACE/]NAME",
		short:   "end what suspend began",
		long:    `Reconcile a ProfileSource again, or let a pool follow its profile again.`,
		example: "  osm-gitops resume source/platform\n  osm-gitops resume md/shop/web",
		pools:   true, sources: true, arguments: 1,
		plan: planSuspension(false, "resumed"),
	}.newCommand()
}

func planSuspension(suspend bool, doneMessage string) func(context.Context, *session.Session, *change, []string) error {
	return func(_ context.Context, _ *session.Session, c *change, _ []string) error {
		c.doneMessage = doneMessage
		switch {
		case !c.of.IsPool:
			c.patchSuspend(suspend)
		case suspend:
			c.patchAnnotation(api.AnnotationSuspend, "true")
		default:
			c.patchAnnotation(api.AnnotationSuspend, "")
		}
		return nil
	}
}

func NewPinCommand() *cobra.Command {
	return verb{
		use:   "pin md/[NAMESPACE/]NAME VERSION",
		short: "give a pool a version of its profile, until unpin",
		long: `Give a pool a version of its profile, such as v1.8.0, or the highest in a range, such as
~1.8. New machines get it; existing machines remain.

A pin protects one pool at once. The lasting way back is a revert in Git: it reaches every
pool, and is reviewed. Remove the pin afterwards.`,
		example: "  osm-gitops pin md/shop/web v1.8.0\n  osm-gitops unpin md/shop/web",
		pools:   true, arguments: 2,
		check: func(args []string) error {
			if _, err := version.ParsePin(args[1]); err != nil {
				return cli.Misusef("osm-gitops pin md/NAMESPACE/NAME v1.8.0", "%q %w", args[1], err)
			}
			return nil
		},
		plan: func(ctx context.Context, s *session.Session, c *change, args []string) error {
			c.doneMessage = "pinned to " + args[1]
			c.patchAnnotation(api.AnnotationVersionPin, args[1])
			return c.checkPin(ctx, s, c.obj.(*cluster.MachineDeployment), args[1])
		},
		then: func(_ context.Context, _ *session.Session, c *change) error {
			_, err := fmt.Fprintln(c.errs, "osm-gitops: the pin remains until unpin; the lasting way back is a revert in Git")
			return err
		},
	}.newCommand()
}

func NewUnpinCommand() *cobra.Command {
	return verb{
		use:     "unpin md/[NAMESPACE/]NAME",
		short:   "let a pool follow its profile again",
		long:    `Remove the version that pin gave a pool, so that it follows its profile again.`,
		example: "  osm-gitops unpin md/shop/web",
		pools:   true, arguments: 1,
		plan: func(_ context.Context, _ *session.Session, c *change, _ []string) error {
			c.doneMessage = "unpinned"
			c.patchAnnotation(api.AnnotationVersionPin, "")
			return nil
		},
	}.newCommand()
}

// checkPin objects to a pin that no version satisfies, and names those there are.
func (c *change) checkPin(ctx context.Context, s *session.Session, md *cluster.MachineDeployment, pin string) error {
	annotations := map[string]string{}
	for _, key := range []string{api.AnnotationOSP, api.AnnotationOSPNamespace} {
		annotations[key] = md.Annotations[key]
	}
	annotations[api.AnnotationVersionPin] = pin
	want, err := selection.RequestOf(annotations, md.Labels, s.ControllerNamespace)
	if err != nil {
		return err
	}
	known, err := ListVersions(ctx, s, want)
	if err != nil {
		c.addRejection("repeat the command with --force to pin without this check", "%w", err)
		return nil
	}
	if _, ok := want.Pin.Best(known.Versions); !ok {
		c.rejectUnlistedVersion(known, want.Name, pin)
	}
	return nil
}

// rejectUnlistedVersion adds a rejection for a version that is not in the list. It only warns if
// the list can be incomplete, since the controller then creates the version on request.
func (c *change) rejectUnlistedVersion(known versionList, profile, version string) {
	if known.complete {
		c.addRejection("use one of them, or repeat the command with --force", "profile %q of %s has no version %q; it has %s", profile, known.from, version, strings.Join(known.Versions, ", "))
		return
	}
	cli.Warn(c.errs, fmt.Errorf("version %q is not listed by %s for profile %q, whose list has only the newest versions", version, known.from, profile))
}

// versionList has the versions of a profile that pools can request, the highest first.
type versionList struct {
	Versions []string
	// complete: the list has all of them.
	complete bool
	from     string // the object that lists them
}

// ListVersions returns the versions of the profile that a pool requests.
func ListVersions(ctx context.Context, s *session.Session, want selection.Request) (versionList, error) {
	found, err := s.FindCandidate(ctx, want.Namespace, want.Name)
	if err == nil {
		return versionListOf(found), nil
	}
	var osp osm.OperatingSystemProfile // which no ProfileSource created
	if s.Management.Get(ctx, client.ObjectKey{Namespace: want.Namespace, Name: want.Name}, &osp) == nil {
		return versionList{[]string{osp.Spec.Version}, true, fmt.Sprintf("OperatingSystemProfile %s/%s", osp.Namespace, osp.Name)}, nil
	}
	return versionList{}, err
}

func versionListOf(found selection.Candidate) versionList {
	versions := version.SortDescending(found.Versions())
	limit := min(api.MaxListedVersions, api.MaxListedTotal/max(len(found.Source.Status.Profiles), 1))
	return versionList{versions, len(versions) < limit, session.Ref{Namespace: found.Source.Namespace, Name: found.Source.Name}.String()}
}

func NewReleaseCommand() *cobra.Command {
	f := &changeFlags{}
	var wave int
	var remove bool
	cmd := &cobra.Command{
		Use:   "release PROFILE@VERSION [--wave N|--remove]",
		Short: "let a rollout in waves go on despite failures",
		Long: `Let a version reach all waves at once. get rollouts shows what a rollout waits for.

With --wave N, every wave up to and including N begins at once, and its failures do not
count. The next wave begins when their pools have the version, and is judged as usual: in a
rollout that is held in wave 0, --wave 0 goes on to the next wave.

A source has one release, a version of all its profiles: a second one must replace it by
--force. Remove it with --remove when the version has reached the pools: until then,
machines that do not join are not counted.`,
		Example: "  osm-gitops release osp-web@v1.8.0 --wave 0\n  osm-gitops release osp-web@v1.8.0 --remove",
		Args:    cli.RequireArgumentCount(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, version, _ := strings.Cut(args[0], "@")
			switch {
			case name == "" || version == "":
				return cli.Misusef(cli.UsageOf(cmd), "%q is not PROFILE@VERSION", args[0])
			case remove && cmd.Flags().Changed("wave"):
				return cli.Misusef("osm-gitops release PROFILE@VERSION --remove", "--wave has no effect on --remove")
			case cmd.Flags().Changed("wave") && (wave < 0 || wave > int(api.LastWave)):
				return cli.Misusef("--wave 3", "--wave: is %d: waves are 0 to %d", wave, api.LastWave)
			}
			s, err := f.Open()
			if err != nil {
				return err
			}
			// A conflict is checked again: another user can have released another version.
			return retry.RetryOnConflict(retry.DefaultRetry, func() error {
				found, err := s.FindCandidate(cmd.Context(), s.SourceNamespace(), name)
				if err != nil {
					return err
				}
				ps := found.Source.DeepCopy()
				c := &change{changeFlags: f, out: cli.NewEscapingWriter(cmd.OutOrStdout(), ""), errs: cmd.ErrOrStderr(), of: session.Ref{Namespace: ps.Namespace, Name: ps.Name}, obj: ps, doneMessage: fmt.Sprintf("released %s %s for all waves", name, version)}
				present := ps.Annotations[api.AnnotationRelease]
				released, _, _ := strings.Cut(present, "@")
				value := version
				switch {
				case remove && released != version: // also after the version or the gate has gone
					return fmt.Errorf("%s does not release %s: its annotation %s is %q", c.of, version, api.AnnotationRelease, present)
				case remove:
					value, c.doneMessage = "", fmt.Sprintf("no longer releases %s %s", name, version)
				case !ps.HasWaves():
					return fmt.Errorf("%s does not roll out in waves, so there is nothing to release: spec.rollout.gate is not Waves", c.of)
				case cmd.Flags().Changed("wave"):
					value = fmt.Sprintf("%s@%d", version, wave)
					c.doneMessage = fmt.Sprintf("released %s %s up to wave %d", name, version, wave)
				}
				if !remove {
					c.checkRelease(ps, found, version, present)
				}
				c.patchAnnotation(api.AnnotationRelease, value)
				// Two users who release at the same time must not replace each other's release.
				c.patch["metadata"].(map[string]any)["resourceVersion"] = ps.ResourceVersion
				c.args = append(c.args, "--resource-version", ps.ResourceVersion)
				return c.apply(cmd.Context(), s)
			})
		},
	}
	f.bind(cmd)
	cmd.Flags().IntVar(&wave, "wave", 0, "the last `WAVE`, 0 to 9, that begins at once; without it, all waves do")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the release")
	return cmd
}

// checkRelease objects to what a release changes besides: the annotation has one version, which
// counts for every profile of the source.
func (c *change) checkRelease(ps *api.ProfileSource, found selection.Candidate, version, present string) {
	known := versionListOf(found)
	if !slices.Contains(known.Versions, version) {
		c.rejectUnlistedVersion(known, found.Entry.Name, version)
	}
	if released, _, _ := strings.Cut(present, "@"); present != "" && released != version {
		c.addRejection("end it with --remove first, or repeat the command with --force", "%s releases %s already, which this replaces", c.of, present)
	}
	var others []string
	for i := range ps.Status.Rollouts {
		if r := &ps.Status.Rollouts[i]; r.Profile != found.Entry.Name && r.Version == version && !r.Done {
			others = append(others, r.Profile)
		}
	}
	if len(others) > 0 {
		c.addRejection("wait for them, or repeat the command with --force", "a release is for all profiles of %s: %s also releases the unfinished rollouts of %s", c.of, version, strings.Join(others, ", "))
	}
}
