package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const checkSettings = "settings"

// examinePoolSettings reports flags that nodes receive but that probably do not have the intended
// effect. Doctor does not know the flags of the controller; it reads the settings that
// pools were created from, without credentials.
func (w *examination) examinePoolSettings(ctx context.Context) {
	s := w.readInventory(ctx, checkSettings)
	if s == nil {
		return
	}
	digests, reported := map[string]bool{}, map[string]bool{}
	for _, osc := range s.configs {
		if rec, err := lineage.ParseRecordAnnotation(osc); err == nil && rec.SettingsDigest != "" {
			digests[rec.SettingsDigest] = true
		}
	}
	read := 0
	for _, digest := range slices.Sorted(maps.Keys(digests)) {
		key := types.NamespacedName{Namespace: w.Namespace, Name: lineage.SettingsName(digest)}
		var cm corev1.ConfigMap
		if err := w.Management.Client.Get(ctx, key, &cm); err != nil {
			w.addUnreadable(checkSettings, w.Management, "ConfigMap "+key.String(), err)
			continue
		}
		var stored struct {
			Settings render.Settings `json:"settings"`
		}
		if err := json.Unmarshal([]byte(cm.Data[lineage.SettingsKey]), &stored); err != nil {
			w.addUnreadable(checkSettings, w.Management, "what ConfigMap "+key.String()+" holds", err)
			continue
		}
		read++
		for _, doubt := range stored.Settings.Warnings() {
			if reported[doubt.String()] {
				continue
			}
			reported[doubt.String()] = true
			w.report(Warning, checkSettings, w.Management, fmt.Sprintf("%s %q, which pools have: %s", doubt.Setting, doubt.Value, doubt.Problem), doubt.Remedy)
		}
	}
	if read > 0 && len(reported) == 0 {
		w.report(OK, checkSettings, w.Management, "the settings of pools show no problem; doctor cannot read users and passwords", "")
	}
}
