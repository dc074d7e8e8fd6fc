package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/doctor"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/manager"
)

// doctorFlags are the flags of `osm-gitops doctor`.
type doctorFlags struct {
	clusters.Flags

	namespace        string
	user, workerUser string
	pre              bool
	checkGit         bool
	allowInsecure    bool
	allowedCIDRs     string
	output           string
}

func newDoctorCommand() *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor [-o text|json|yaml]",
		Short: "check an installation, and say what to do",
		Long: `Check an installation, and print a remedy for each problem: the kinds and whether they
match this release, the permissions of the controller, its lease, cluster-info,
ProfileSources, clocks, webhooks, policies, pools that do not have what they request, and
expired tokens. With --pre, check a cluster before the installation: its version,
machine-controller, cluster-info, what operating-system-manager left or runs, and your
permissions to install.

Nothing is written, and no credential is printed. Checks for which you lack permission are
reported as unknown. The exit status is 0 if there is no problem and nothing is unknown,
otherwise 1; 2 for misuse.`,
		Example: "  osm-gitops doctor --pre\n  osm-gitops doctor\n  osm-gitops doctor --kubeconfig seed.kubeconfig --worker-cluster-kubeconfig worker.kubeconfig -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return runDoctor(cmd.Context(), f, cli.NewEscapingWriter(cmd.OutOrStdout(), f.output))
		},
	}
	f.bind(cmd)
	return cmd
}

func (f *doctorFlags) bind(cmd *cobra.Command) {
	f.Bind(cmd)
	fs := cmd.Flags()
	clusters.BindNamespace(fs, &f.namespace)
	fs.StringVar(&f.user, "user", "", "user `NAME` of the controller; empty: ServiceAccount osm-gitops of --namespace")
	fs.StringVar(&f.workerUser, "worker-user", "", "the same `NAME` in the worker cluster; empty: ServiceAccount osm-gitops of kube-system")
	fs.BoolVar(&f.pre, "pre", false, "check a cluster in which osm-gitops will be installed")
	fs.BoolVar(&f.checkGit, "ask-git", false, "also fetch each repository from this machine, with the credentials of its Secret")
	fs.BoolVar(&f.allowInsecure, "allow-insecure-git", false, "for --ask-git: allow http")
	fs.StringVar(&f.allowedCIDRs, "git-allowed-cidrs", "", "for --ask-git: comma `LIST` of allowed loopback and link-local networks")
	cli.BindOutput(fs, &f.output, "text", "json", "yaml")
}

func (f *doctorFlags) check() error {
	switch {
	case f.namespace == "":
		return cli.Misusef("--namespace kube-system", "--namespace: is empty: name the namespace of the controller")
	case f.workerUser != "" && f.WorkerKubeconfig == "":
		return cli.Misusef("--user NAME", "--worker-user: there is no separate worker cluster without --worker-cluster-kubeconfig")
	}
	if f.pre && (f.WorkerKubeconfig != "" || f.user != "" || f.checkGit) {
		return cli.Misusef("osm-gitops doctor --pre", "--pre: there is no controller, worker cluster or ProfileSource yet: omit --worker-cluster-kubeconfig, --user and --ask-git")
	}
	if _, err := load.ParseCIDRs(f.allowedCIDRs); err != nil {
		return cli.Misusef("--git-allowed-cidrs 127.0.0.0/8", "--git-allowed-cidrs: %w", err)
	}
	return nil
}

// errProblems follows printed findings.
var errProblems = errors.New("problems found: see above")

func runDoctor(ctx context.Context, f *doctorFlags, stdout io.Writer) error {
	d, done, err := f.newDoctor()
	if err != nil {
		return err
	}
	defer done()
	examine := d.Examine
	if f.pre {
		examine = d.ExamineBeforeInstall
	}
	report := examine(ctx)
	if err := cli.Print(stdout, f.output, report, func() string { return doctorText(report) }); err != nil {
		return err
	}
	if report.Problems+report.Unknown > 0 {
		return errProblems
	}
	return nil
}

// newDoctor prepares the run. The caller calls done afterwards.
func (f *doctorFlags) newDoctor() (d *doctor.Doctor, done func(), err error) {
	managementConfig, workerConfig, err := f.Configs()
	if err != nil {
		return nil, nil, err
	}
	management, err := newDoctorCluster("management", managementConfig)
	if err != nil {
		return nil, nil, err
	}
	d = &doctor.Doctor{
		Management: management, Worker: management, Namespace: f.namespace,
		User:       cmp.Or(f.user, "system:serviceaccount:"+f.namespace+":osm-gitops"),
		WorkerUser: cmp.Or(f.workerUser, "system:serviceaccount:kube-system:osm-gitops"),
		LeaseName:  manager.LeaseName, WorkerLeaseName: manager.WorkerLeaseName, Clock: time.Now,
	}
	if workerConfig != managementConfig {
		if d.Worker, err = newDoctorCluster("worker", workerConfig); err != nil {
			return nil, nil, err
		}
	}
	if !f.checkGit {
		return d, func() {}, nil
	}
	d.Git, done, err = load.TemporaryMirrors(f.allowedCIDRs, f.allowInsecure)
	return d, done, err
}

// newDoctorCluster returns a cluster to read with the user's own permissions.
func newDoctorCluster(name string, cfg *rest.Config) (*doctor.Cluster, error) {
	scheme, err := kubeclient.NewScheme()
	if err != nil {
		return nil, err
	}
	return doctor.NewCluster(name, cfg, scheme)
}

// doctorText formats a report as text: a line for each finding, with its remedy below.
func doctorText(r doctor.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		check := f.Check
		if f.Cluster != "" {
			check += " (" + f.Cluster + ")"
		}
		fmt.Fprintf(&b, "%-8s %s: %s\n", f.Level, check, indented(f.Found))
		if f.Remedy != "" {
			fmt.Fprintf(&b, "         do: %s\n", indented(f.Remedy))
		}
	}
	return b.String()
}

func indented(s string) string { return strings.ReplaceAll(s, "\n", "\n         ") }
