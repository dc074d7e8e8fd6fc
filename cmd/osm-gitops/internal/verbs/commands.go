package verbs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs/change"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs/session"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// Commands are the verbs, with completions that read the cluster.
func Commands() []*cobra.Command {
	complete := func(cmd *cobra.Command, by completion) *cobra.Command {
		cmd.ValidArgsFunction = by.complete
		return cmd
	}
	return []*cobra.Command{
		newBootsCommand(),
		complete(newGetCommand(), completeGet),
		complete(newHistoryCommand(), completeRefs(session.PoolKind)),
		complete(change.NewPinCommand(), completePin),
		complete(change.NewReconcileCommand(), completeRefs(session.SourceKind)),
		complete(change.NewReleaseCommand(), completeRollouts),
		complete(change.NewResumeCommand(), completeRefs(session.SourceKind, session.PoolKind)),
		complete(change.NewSuspendCommand(), completeRefs(session.SourceKind, session.PoolKind)),
		complete(change.NewUnpinCommand(), completeRefs(session.PoolKind)),
	}
}

// completionTimeout bounds what a shell waits for.
const completionTimeout = 3 * time.Second

// completion returns the words that can follow arguments, as far as the cluster can be read.
type completion func(ctx context.Context, s *session.Session, args []string) []string

// complete is a completion function of cobra.
func (by completion) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	flag := func(name string) string {
		value, _ := cmd.Flags().GetString(name)
		return value
	}
	a := &session.AccessFlags{Namespace: flag("namespace"), ControllerNamespace: flag("controller-namespace")}
	a.Flags = clusters.Flags{Kubeconfig: flag("kubeconfig"), Context: flag("context"), WorkerKubeconfig: flag("worker-cluster-kubeconfig"), Command: "completion"}
	s, err := a.Open()
	if err != nil {
		s = nil // kinds need no cluster
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	return by(ctx, s, args), cobra.ShellCompDirectiveNoFileComp
}

// CompleteObject offers one argument KIND/[NAMESPACE/]NAME: first the kinds, then names from the
// cluster.
func CompleteObject(kinds ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		word, _, named := strings.Cut(typed, "/")
		switch {
		case len(args) > 0:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case !named:
			return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		case cmd.Flags().Changed("from"): // the names of a cluster can be others than those of a dump
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := func(ctx context.Context, s *session.Session, _ []string) (out []string) {
			k := traceableKind(cli.CanonicalKind(word))
			if k == nil || s == nil {
				return nil
			}
			found, _ := k.ListNames(ctx, s, s.Namespace)
			for _, name := range found {
				out = append(out, word+"/"+name)
			}
			return out
		}
		return completion(names).complete(cmd, args, typed)
	}
}

// traceableKind is a kind by its name in arguments of trace and verify; nil for one whose names are
// not read.
func traceableKind(name string) *session.Kind {
	return map[string]*session.Kind{
		"node":              {GVK: corev1.SchemeGroupVersion.WithKind("Node"), InWorkerCluster: true, ClusterScoped: true},
		"nodeprovenance":    session.NodeKind,
		"machine":           {GVK: cluster.GroupVersion.WithKind("Machine"), InWorkerCluster: true},
		"machinedeployment": session.PoolKind,
		"osc":               {GVK: osm.GroupVersion.WithKind("OperatingSystemConfig")},
		"osp":               session.ProfileKind,
	}[name]
}

func completeGet(ctx context.Context, s *session.Session, args []string) (out []string) {
	if len(args) == 0 {
		for _, k := range listedKinds() {
			out = append(out, k.Plural)
		}
		return out
	}
	k := findKind(args[0])
	if k == session.RolloutKind {
		for _, name := range completeRollouts(ctx, s, nil) {
			profile, _, _ := strings.Cut(name, "@")
			out = append(out, profile)
		}
		return slices.Compact(out)
	}
	if k != nil && s != nil {
		names, _ := k.ListNames(ctx, s, s.Namespace)
		for _, name := range names {
			out = append(out, name[strings.LastIndex(name, "/")+1:])
		}
	}
	return out
}

// completeRefs offers objects of some kinds.
func completeRefs(of ...*session.Kind) completion {
	return func(ctx context.Context, s *session.Session, args []string) (out []string) {
		if len(args) > 0 || s == nil {
			return nil
		}
		for _, k := range of {
			names, _ := k.ListNames(ctx, s, s.Namespace)
			for _, name := range names {
				if k == session.SourceKind {
					name = strings.TrimPrefix(name, s.SourceNamespace()+"/")
				}
				out = append(out, k.ArgumentPrefix+name)
			}
		}
		return out
	}
}

func completePin(ctx context.Context, s *session.Session, args []string) []string {
	if len(args) != 1 || s == nil {
		return completeRefs(session.PoolKind)(ctx, s, args)
	}
	of, err := session.ParseRef(change.NewPinCommand(), args[0], true, false)
	if err != nil {
		return nil
	}
	var md *cluster.MachineDeployment
	if md, err = s.GetPool(ctx, &of); err != nil {
		return nil
	}
	want, _ := selection.RequestOf(md.Annotations, md.Labels, s.ControllerNamespace)
	known, _ := change.ListVersions(ctx, s, want)
	return known.Versions
}

// completeRollouts offers the versions that are rolled out.
func completeRollouts(ctx context.Context, s *session.Session, args []string) []string {
	if len(args) > 0 || s == nil {
		return nil
	}
	l, err := rolloutRows(ctx, s, s.SourceNamespace())
	if err != nil {
		return nil
	}
	var names []string
	for _, r := range l.rows {
		names = append(names, r.argument)
	}
	slices.Sort(names)
	return names
}
