package trace

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// maxLog is the length of a log, in bytes: the limit of its field, in characters.
const maxLog = 4 << 10

// Boot is a stage of a machine's boot.
type Boot struct {
	api.MachineBootStatus `json:",inline"`

	// Log has the last lines of output, which the machine reported. Possible credentials are
	// replaced.
	Log string `json:"log,omitempty"`
}

// addBoots adds what a machine without a node reports about its boot.
func (w *resultBuilder) addBoots(ctx context.Context, m *cluster.Machine) error {
	state, note, err := List(ctx, w.in.Worker, &api.BootReportList{}, func(page *api.BootReportList) error {
		for i := range page.Items {
			r := &page.Items[i]
			for _, status := range r.Status.Machines {
				if status.MachineUID == m.UID {
					w.Boots = append(w.Boots, Boot{status, reportedLog(r, status)})
				}
			}
		}
		return nil
	}, client.InNamespace(api.NamespaceCloudInitSettings))
	if err == nil && state == Unreadable {
		w.Step("Machine").addDetail("reports of its boot", note)
	}
	return err
}

// reportedLog returns the log of a stage, "" if the machine has reported another boot since.
func reportedLog(r *api.BootReport, of api.MachineBootStatus) string {
	for _, entry := range r.Spec.Machines {
		if entry.Machine == of.Machine && entry.Stage == of.Stage && entry.BootID == of.BootID {
			// Cleaned first: invisible characters could split what Mask recognizes.
			return redact.PrintableText(redact.Mask(redact.PrintableText(entry.Log, maxLog)), maxLog)
		}
	}
	return ""
}
