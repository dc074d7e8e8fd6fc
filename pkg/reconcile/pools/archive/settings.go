package archive

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

const (
	// SettingsTrust is how long settings are assumed to exist after they were seen.
	SettingsTrust = 10 * time.Minute
	// settingsRetry is the wait after a read of them failed.
	settingsRetry = time.Minute
	// settingsTimeout bounds such a read.
	settingsTimeout = 5 * time.Second
)

// State caches what an Archive has done. Losing it costs requests only.
type State struct {
	// Changed says that records or settings changed since the last sweep.
	Changed atomic.Bool

	mu   sync.Mutex // held while settings are looked up or deleted
	seen sync.Map   // name of settings -> time.Time at which they existed
}

// isAssumedStored reports whether settings were stored or seen so recently that they are assumed to
// exist.
func (s *State) isAssumedStored(name string, now time.Time) bool {
	at, ok := s.seen.Load(name)
	return ok && now.Sub(at.(time.Time)) < SettingsTrust
}

// EnsureSettings creates cm, a ConfigMap with settings, if it does not exist. With required false it
// ignores an error of reading it, and reads again after a minute: the settings of a configuration
// that exists were stored when it was created.
func (a Archive) EnsureSettings(ctx context.Context, cm *corev1.ConfigMap, required bool) error {
	now := a.Clock.Now()
	if a.State.isAssumedStored(cm.Name, now) {
		return nil
	}
	a.State.mu.Lock()
	defer a.State.mu.Unlock()
	if a.State.isAssumedStored(cm.Name, now) { // another pool was first
		return nil
	}
	reading, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	exists, err := kubeclient.Find(reading, a.Live, client.ObjectKeyFromObject(cm), &corev1.ConfigMap{})
	if err != nil && !required {
		a.State.seen.Store(cm.Name, now.Add(settingsRetry-SettingsTrust))
		return nil
	}
	if err != nil {
		return err
	}
	if !exists {
		err := a.Management.Create(ctx, cm, client.FieldOwner(api.FieldManager))
		// If another controller was first, it stored the same: the name has the digest of the
		// content.
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating ConfigMap %s: %w", client.ObjectKeyFromObject(cm), err)
		}
	}
	a.State.seen.Store(cm.Name, now)
	return nil
}

// sweepSettings deletes settings that neither a configuration nor a record has. A configuration can
// have been written after used was read, so it deletes only old ones.
func (a Archive) sweepSettings(ctx context.Context, used map[string]bool) error {
	ofConfigMaps := kubeclient.MetadataList(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	var unused []metav1.PartialObjectMetadata
	for list, err := range kubeclient.Pages(ctx, a.Live, ofConfigMaps, client.InNamespace(a.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}) {
		if err != nil {
			return fmt.Errorf("listing settings: %w", err)
		}
		for _, cm := range list.Items {
			if strings.HasPrefix(cm.Name, lineage.SettingsPrefix) && !used[cm.Name] {
				unused = append(unused, cm)
			}
		}
	}
	for _, cm := range unused {
		if err := a.deleteSettingsIfOld(ctx, cm); err != nil {
			return err
		}
	}
	return nil
}

func (a Archive) deleteSettingsIfOld(ctx context.Context, cm metav1.PartialObjectMetadata) error {
	a.State.mu.Lock()
	defer a.State.mu.Unlock()
	now := a.Clock.Now()
	// A run that trusts these settings can be about to write a configuration that names them.
	if at, ok := a.State.seen.Load(cm.Name); ok && now.Sub(at.(time.Time)) < 2*SettingsTrust || now.Sub(cm.CreationTimestamp.Time) < 2*SettingsTrust {
		a.State.Changed.Store(true) // sweep again
		return nil
	}
	// Forget them before the deletion, so that no run trusts settings that do not exist.
	a.State.seen.Delete(cm.Name)
	err := a.Management.Delete(ctx, &corev1.ConfigMap{ObjectMeta: cm.ObjectMeta}, client.Preconditions{UID: &cm.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ConfigMap %s: %w", client.ObjectKeyFromObject(&cm), err)
	}
	return nil
}
