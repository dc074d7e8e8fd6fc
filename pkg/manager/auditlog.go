package manager

import (
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// ControllerKind is the kind of the audit log entries about the controller process.
const ControllerKind = "Controller"

// newAuditLog returns the audit log of the flag, which the leading replica opens; nil for
// none. An unusable file is rejected immediately.
func (opts *Options) newAuditLog(counted *metrics.Metrics) (*auditlog.Writer, error) {
	if opts.AuditLog == "" {
		return nil, nil
	}
	if opts.AuditLog != auditlog.Stdout {
		if err := auditlog.CheckWritable(opts.AuditLog); err != nil {
			return nil, fmt.Errorf("--audit-log: %w", err)
		}
	}
	return &auditlog.Writer{
		Path: opts.AuditLog, Out: os.Stdout, Clock: clock.RealClock{}, Metrics: counted, Log: ctrl.Log.WithName("audit-log"),
		Began: auditlog.Event{
			Kind: auditlog.ControllerStarted, Object: auditlog.Object{Kind: ControllerKind, Namespace: opts.Namespace, Name: "osm-gitops"},
			Key:        InstanceIdentity() + " " + time.Now().UTC().Format(time.RFC3339Nano),
			Controller: &auditlog.Controller{Version: opts.Version, Commit: opts.Commit, Instance: InstanceIdentity()},
		},
	}, nil
}

// InstanceIdentity identifies this process for users.
func InstanceIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%d on %s", os.Getpid(), host)
}
