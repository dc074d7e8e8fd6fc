package verbs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// Commands are the verbs, with completions that read the cluster.
func Commands() []*cobra.Command {
	complete := func(cmd *cobra.Command, by completion) *cobra.Command {
		cmd.ValidArgsFunction = by.words
		return cmd
	}
	return []*cobra.Command{
		complete(newGetCommand(), completeGet),
		complete(newHistoryCommand(), completeRefs(poolKind)),
		complete(newPinCommand(), completePin),
		complete(newReconcileCommand(), completeRefs(sourceKind)),
		complete(newReleaseCommand(), completeRelease),
		complete(newResumeCommand(), completeRefs(sourceKind, poolKind)),
		complete(newSuspendCommand(), completeRefs(sourceKind, poolKind)),
		complete(newUnpinCommand(), completeRefs(poolKind)),
	}
}

// completionTimeout bounds what a shell waits for.
const completionTimeout = 3 * time.Second

// completion returns the words that can follow arguments, as far as the cluster can be read.
type completion func(ctx context.Context, s *session, args []string) []string

// words implements the function of cobra.
func (by completion) words(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	flag := func(name string) string {
		value, _ := cmd.Flags().GetString(name)
		return value
	}
	a := &access{kubeconfig: flag("kubeconfig"), context: flag("context"), workerKubeconfig: flag("worker-cluster-kubeconfig"), namespace: flag("namespace"), controller: flag("controller-namespace")}
	s, err := a.open("completion")
	if err != nil {
		s = nil // kinds need no cluster
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	return by(ctx, s, args), cobra.ShellCompDirectiveNoFileComp
}

func completeGet(ctx context.Context, s *session, args []string) (out []string) {
	if len(args) == 0 {
		for _, k := range kinds() {
			out = append(out, k.name)
		}
		return out
	}
	k := kindOf(args[0])
	if k == rolloutKind {
		for _, name := range completeRelease(ctx, s, nil) {
			profile, _, _ := strings.Cut(name, "@")
			out = append(out, profile)
		}
		return slices.Compact(out)
	}
	if k != nil && s != nil {
		names, _ := k.names(ctx, s, s.namespace)
		for _, name := range names {
			out = append(out, name[strings.LastIndex(name, "/")+1:])
		}
	}
	return out
}

// completeRefs offers objects of some kinds.
func completeRefs(of ...*kind) completion {
	return func(ctx context.Context, s *session, args []string) (out []string) {
		if len(args) > 0 || s == nil {
			return nil
		}
		for _, k := range of {
			names, _ := k.names(ctx, s, s.namespace)
			for _, name := range names {
				if k == sourceKind {
					name = strings.TrimPrefix(name, s.sourceNamespace()+"/")
				}
				out = append(out, k.prefix+name)
			}
		}
		return out
	}
}

func completePin(ctx context.Context, s *session, args []string) []string {
	if len(args) != 1 || s == nil {
		return completeRefs(poolKind)(ctx, s, args)
	}
	of, err := parseRef(newPinCommand(), args[0], true, false)
	if err != nil {
		return nil
	}
	var md *cluster.MachineDeployment
	if md, err = s.pool(ctx, &of); err != nil {
		return nil
	}
	want, _ := selection.RequestOf(md.Annotations, md.Labels, s.controller)
	known, _ := s.versions(ctx, want)
	return known.versions
}

// completeRelease offers the versions that are rolled out.
func completeRelease(ctx context.Context, s *session, args []string) []string {
	if len(args) > 0 || s == nil {
		return nil
	}
	l, err := rolloutRows(ctx, s, s.sourceNamespace())
	if err != nil {
		return nil
	}
	slices.Sort(l.names)
	return l.names
}
