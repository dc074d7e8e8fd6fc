package pools

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// The digests that operating-system-manager writes for these annotations.
func TestAnnotationsHash(t *testing.T) {
	for want, annotations := range map[string]map[string]string{
		"240e92a138b73a540fc8f38a171c511995e6c10890b9af15f92f5a8b84136765": {"k8c.io/operating-system-profile": "osp-ubuntu", "machinedeployment.clusters.k8s.io/revision": "1"},
		"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a": {},
		"74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b": nil,
		"db6245a22a5958830206f9321c52feed3cd4a3203c26316db7238b5bd0d1510c": {"a": "x<y"},
	} {
		if got := takeover.AnnotationsHash(annotations); got != want {
			t.Errorf("hash of %v is %s, want %s", annotations, got, want)
		}
	}
}

func named(namespace, name string) *machines.MachineDeployment {
	return &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}}
}

// The names that operating-system-manager gives the objects of a pool.
func TestNames(t *testing.T) {
	md := named("kube-system", "pool")
	for got, want := range map[string]string{
		namesOf(md).Config:            "pool-kube-system-config",
		namesOf(md).Bootstrap:         "pool-kube-system-bootstrap-config",
		namesOf(md).Provisioning:      "pool-kube-system-provisioning-config",
		namesOf(md).Kubeconfig:        "kube-system-pool-kubelet-bootstrap-config",
		lineage.TokenLabel(keyOf(md)): "kube-system-pool",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := lineage.NamespacedKeyOrName(keyOf(named("ns", strings.Repeat("a", 59)))); got != "ns-"+strings.Repeat("a", 59) {
		t.Errorf("a key of 62 characters is %s", got)
	}
	if got := lineage.NamespacedKeyOrName(keyOf(named("ns", strings.Repeat("a", 60)))); got != strings.Repeat("a", 60) {
		t.Errorf("a key of 63 characters is %s", got)
	}
	long := lineage.TokenLabel(keyOf(named("ns", strings.Repeat("a", 100))))
	for _, name := range []string{"a", strings.Repeat("a", 253), strings.Repeat("a", 39) + "." + strings.Repeat("b", 99)} {
		a, b := lineage.AccessName(keyOf(named("b-c", name))), lineage.AccessName(keyOf(named("c", name+"-b")))
		if a == b || len(a) > 62 || len(validation.IsDNS1123Subdomain(a)) > 0 {
			t.Errorf("%s and %s of pool %s", a, b, name)
		}
	}
	if len(long) > 63 || long == lineage.TokenLabel(keyOf(named("other", strings.Repeat("a", 100)))) {
		t.Errorf("label %q of a long name", long)
	}
}

func TestCollision(t *testing.T) {
	md := named("c", "a-b")
	object := func(owner string) *osm.OperatingSystemConfig {
		o := &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Name: namesOf(md).Config}}
		if owner != "" {
			o.Annotations = map[string]string{api.AnnotationPool: owner}
		}
		return o
	}
	account := func(owner string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: lineage.AccessName(keyOf(md)), Annotations: map[string]string{api.AnnotationPool: owner}}}
	}
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: namesOf(md).Kubeconfig}}
	references := func(version string) *osm.OperatingSystemConfig {
		o := object("")
		o.Annotations = map[string]string{api.AnnotationRevisionFor: "", api.AnnotationMDAnnotationsHash: takeover.AnnotationsHash(md.Annotations), api.AnnotationOSPVersion: version}
		return o
	}
	edited := object("b-c/a")
	edited.Annotations[api.AnnotationPoolUID] = string(md.UID)
	for name, c := range map[string]struct {
		objects objects
		says    string
	}{
		"nothing there":                        {objects{}, ""},
		"our own":                              {objects{osc: object("c/a-b")}, ""},
		"another pool's":                       {objects{osc: object("b-c/a")}, "belongs to MachineDeployment b-c/a"},
		"somebody's":                           {objects{osc: object("")}, "was not made for a pool"},
		"the reference's is taken over":        {objects{osc: references("v1.0.0")}, ""},
		"a handed back one of ours":            {objects{osc: references("gitops/v1.0.0")}, "was not made for a pool"},
		"our own whose owner was edited":       {objects{osc: edited}, ""},
		"a kubeconfig of nobody is taken over": {objects{kubeconfig: kubeconfig}, ""},
		"another pool's account":               {objects{access: access.Objects{Account: account("b-c/a")}}, "belongs to MachineDeployment b-c/a"},
		"an account of nobody is taken over":   {objects{access: access.Objects{Account: account("")}}, ""},
	} {
		err := checkObjectOwnership(&observed{md: md, objects: c.objects})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUntilRenewal(t *testing.T) {
	now := time.Now()
	if got := untilRenewal(time.Time{}, now); got != 0 {
		t.Errorf("a token without an end is renewed in %s", got)
	}
	for range 100 {
		if got := untilRenewal(now.Add(token.Life), now); got < 30*time.Minute || got > 32*time.Minute {
			t.Fatalf("a new token is renewed in %s", got)
		}
	}
	if got := untilRenewal(now.Add(time.Minute), now); got < time.Second || got > 2*time.Second {
		t.Errorf("an old token is renewed in %s", got)
	}
}

func TestConfigSize(t *testing.T) {
	big := &osm.OperatingSystemConfig{Spec: osm.OperatingSystemConfigSpec{OSVersion: strings.Repeat("x", 2<<20)}}
	if err := checkConfigSize(big, render.Record{}); err == nil || !strings.Contains(err.Error(), "the OperatingSystemConfig has") {
		t.Errorf("got %v", err)
	}
	if err := checkConfigSize(&osm.OperatingSystemConfig{}, render.Record{}); err != nil {
		t.Error(err)
	}
}

func TestCollisionOfALongName(t *testing.T) {
	err := checkObjectOwnership(&observed{md: named("ns", strings.Repeat("a", 240))})
	if err == nil || !strings.Contains(err.Error(), "use a shorter name") {
		t.Errorf("got %v", err)
	}
}
