package pools

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// sighting is one state of a Secret, as a permanent watch sees it.
type sighting struct {
	kind     watch.EventType
	stage    string // of a document; empty for the kubeconfig
	document string
	revision string
	input    string
}

// witness watches a pool's Secrets until the returned function is called.
func (f *fixture) witness() func() []sighting {
	f.t.Helper()
	w, err := cluster.Shared(f.t).Client(f.t).Watch(f.t.Context(), &corev1.SecretList{}, client.InNamespace(api.NamespaceCloudInitSettings))
	if err != nil {
		f.t.Fatal(err)
	}
	marker := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "marker-" + f.pool.Namespace}}
	stages := map[string]string{namesOf(f.pool).Bootstrap: stageBootstrap, namesOf(f.pool).Provisioning: stageProvision, namesOf(f.pool).Kubeconfig: ""}
	seen, last := make(chan []sighting, 1), marker.Name
	go func() {
		var out []sighting
		for e := range w.ResultChan() {
			s, ok := e.Object.(*corev1.Secret)
			if ok && s.Name == last {
				break
			}
			if stage, ours := "", false; ok {
				if stage, ours = stages[s.Name]; ours {
					out = append(out, sighting{e.Type, stage, string(s.Data[api.UserDataKey]), s.Annotations[api.AnnotationRevisionFor], s.Annotations[api.AnnotationInputDigest]})
				}
			}
		}
		w.Stop()
		seen <- out
	}()
	return func() []sighting {
		f.t.Helper()
		f.ensure(marker) // the last that is waited for
		f.t.Cleanup(func() { _ = f.client.Delete(context.WithoutCancel(f.t.Context()), marker) })
		select {
		case out := <-seen:
			return out
		case <-time.After(time.Minute):
			f.t.Fatal("the watch did not see the marker")
			return nil
		}
	}
}

// template gives the pool another template and, as machine-controller does, a revision.
func (f *fixture) template(kubelet, revision string) {
	f.t.Helper()
	var md machines.MachineDeployment
	if err := f.client.Get(f.t.Context(), client.ObjectKeyFromObject(f.pool), &md); err != nil {
		f.t.Fatal(err)
	}
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"template":{"spec":{"versions":{"kubelet":%q}}}}}`, api.AnnotationMDRevision, revision, kubelet)
	f.patch(&md, body)
}

var templateOf = regexp.MustCompile(`template v1\.35\.(\d+)`)

// A permanent watch sees no missing Secret, no revision of a MachineDeployment on a document of an
// older template, and no new bootstrap document together with an old provisioning one. Each change
// is one update of each document.
func TestRotationSeenByAWatcher(t *testing.T) {
	f := newFixture(t)
	file := func(stage string) osm.OSPConfig {
		return osm.OSPConfig{Files: []osm.File{{Path: "/a", Content: osm.FileContent{Inline: &osm.FileContentInline{Data: stage + " template {{ .KubeVersion }}"}}}}}
	}
	f.osp("osp-hand", "v1.0.1", func(spec *osm.OperatingSystemProfileSpec) {
		spec.BootstrapConfig, spec.ProvisioningConfig = file("b"), file("p")
	})
	f.template("1.35.1", "1")
	f.reconcile()
	stop := f.witness()

	f.template("1.35.2", "2") // both at once
	f.reconcile()
	f.template("1.35.3", "2") // the template first
	f.reconcile()
	f.template("1.35.3", "3") // then only its revision
	f.reconcile()
	f.osp("osp-hand", "v1.1.0", func(spec *osm.OperatingSystemProfileSpec) { spec.OSVersion = "26.04" }) // a profile
	f.reconcile()
	f.osp("osp-hand", "v1.2.0", func(spec *osm.OperatingSystemProfileSpec) { // a broken one, and a template
		spec.ProvisioningConfig.Files[0].Content.Inline.Data = "{{ .NetworkConfig.CIDR }}"
	})
	f.template("1.35.4", "4")
	f.reconcile()
	if got := f.secret(namesOf(f.pool).Bootstrap).Annotations[api.AnnotationRevisionFor]; got != "3" {
		t.Errorf("a document that could not be rendered is for revision %s", got)
	}
	f.osp("osp-hand", "v1.3.0", func(spec *osm.OperatingSystemProfileSpec) { spec.ProvisioningConfig = file("p") })
	f.reconcile()
	f.patch(f.pool, `{"metadata":{"annotations":{"example.com/note":"hello"}}}`) // nothing that is rendered
	f.reconcile()
	f.clock.Step(3 * time.Hour) // a new token
	f.reconcile()

	counts := map[string]int{}
	input := map[string]string{stageProvision: "first"}
	for _, s := range stop() {
		if s.kind == watch.Deleted {
			t.Errorf("the Secret of stage %q was deleted", s.stage)
		}
		if s.stage == "" || s.kind != watch.Modified {
			input[s.stage] = s.input
			continue
		}
		counts[s.stage]++
		template := templateOf.FindStringSubmatch(s.document)
		if template == nil || template[1] < s.revision {
			t.Errorf("revision %s stands over template %v", s.revision, template)
		}
		if s.stage == stageBootstrap && s.input != input[stageProvision] {
			t.Errorf("a bootstrap document of %s stands beside a provisioning one of %s", s.input, input[stageProvision])
		}
		input[s.stage] = s.input
	}
	// Three templates or revisions, two profiles (that of the fourth template included),
	// the token.
	for _, stage := range []string{stageBootstrap, stageProvision} {
		if counts[stage] != 6 {
			t.Errorf("the %s document was written %d times, want 6", stage, counts[stage])
		}
	}
}

// A rotation that is interrupted at any point leaves no state that a watch must not see, and
// the next run completes it.
func TestRotationCutOff(t *testing.T) {
	for writes := int64(0); ; writes++ {
		f := newFixture(t)
		file := func(text string) osm.OSPConfig {
			return osm.OSPConfig{Files: []osm.File{{Path: "/a", Content: osm.FileContent{Inline: &osm.FileContentInline{Data: text + " template {{ .KubeVersion }}"}}}}}
		}
		f.osp("osp-hand", "v1.0.1", func(spec *osm.OperatingSystemProfileSpec) {
			spec.BootstrapConfig, spec.ProvisioningConfig = file("one"), file("one")
		})
		f.template("1.35.1", "1")
		f.reconcile()
		stop := f.witness()
		f.template("1.35.2", "2")
		f.osp("osp-hand", "v1.1.0", func(spec *osm.OperatingSystemProfileSpec) {
			spec.BootstrapConfig, spec.ProvisioningConfig = file("two"), file("two")
		})
		cut := &cutOff{digesting: digesting{f.client}, left: writes}
		f.r.Management.Client, f.r.Worker.Client = cut, cut
		_, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)})
		f.r.Management.Client, f.r.Worker.Client = digesting{f.client}, digesting{f.client}
		f.reconcile()
		provisioning := ""
		for _, s := range stop() {
			template := templateOf.FindStringSubmatch(s.document)
			switch {
			case s.kind == watch.Deleted:
				t.Errorf("cut off after %d writes: the Secret of stage %q was deleted", writes, s.stage)
			case s.stage != "" && (template == nil || template[1] < s.revision):
				t.Errorf("cut off after %d writes: revision %s stands over template %v", writes, s.revision, template)
			case s.stage == stageProvision:
				provisioning = s.document
			case s.stage == stageBootstrap && s.kind == watch.Modified && strings.Contains(s.document, "two") && !strings.Contains(provisioning, "two"):
				t.Errorf("cut off after %d writes: a new bootstrap document stands beside an old provisioning one", writes)
			}
		}
		for _, stage := range []string{stageBootstrap, stageProvision} {
			s := f.secret(userDataName(f.pool, stage))
			if got := string(s.Data[api.UserDataKey]); !strings.Contains(got, "two template v1.35.2") || s.Annotations[api.AnnotationRevisionFor] != "2" {
				t.Errorf("cut off after %d writes: the %s document is for revision %s", writes, stage, s.Annotations[api.AnnotationRevisionFor])
			}
		}
		if err == nil {
			return
		}
	}
}
