package main

import (
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// controllerKind is the kind of object that a run of the controller is in the audit log.
const controllerKind = "Controller"

// newJournal is the audit log of the flag, which the replica that leads opens; nil for
// none. A file that cannot be one is refused at once.
func (f *controllerFlags) newJournal(counted *metrics.Metrics) (*auditlog.Writer, error) {
	if f.auditLog == "" {
		return nil, nil
	}
	if f.auditLog != auditlog.Stdout {
		if err := auditlog.Check(f.auditLog); err != nil {
			return nil, fmt.Errorf("--audit-log: %w", err)
		}
	}
	version, commit := buildVersion()
	return &auditlog.Writer{
		Path: f.auditLog, Out: os.Stdout, Clock: clock.RealClock{}, Metrics: counted, Log: ctrl.Log.WithName("audit-log"),
		Began: auditlog.Fact{
			Kind: auditlog.ControllerStarted, Object: auditlog.Object{Kind: controllerKind, Namespace: f.namespace, Name: "osm-gitops"},
			Occasion:   instance() + " " + time.Now().UTC().Format(time.RFC3339Nano),
			Controller: &auditlog.Controller{Version: version, Commit: commit, Instance: instance()},
		},
	}, nil
}

// instance tells this process from others, for people.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%d on %s", os.Getpid(), host)
}
