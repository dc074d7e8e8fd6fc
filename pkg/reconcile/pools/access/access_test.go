package access

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// A machine can be booting with the last token of a pool, so its account outlives the
// documents that carried it.
func TestRetire(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool", UID: "uid"}}
	endsIn := func(left time.Duration, annotations map[string]string) map[string]string {
		if left != 0 {
			annotations[api.AnnotationCredentialsExpireAt] = lineage.FormatTime(now.Add(left))
		}
		return annotations
	}
	account := func(left time.Duration) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: endsIn(left, map[string]string{api.AnnotationPool: "ns/pool"})}}
	}
	role := func(pool string) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationPool: pool}}}
	}
	document := func(left time.Duration) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: endsIn(left, map[string]string{})}}
	}
	for name, c := range map[string]struct {
		have      Objects
		documents []*corev1.Secret
		deleted   int
		nextRun   time.Time
		records   bool
	}{
		"nothing exists":                        {},
		"no token is alive":                     {have: Objects{Account: account(0), Role: role("ns/pool")}, documents: []*corev1.Secret{nil, document(0)}, deleted: 2},
		"another pool's Role stays":             {have: Objects{Account: account(0), Role: role("ns/other")}, deleted: 1},
		"a Role without an account goes":        {have: Objects{Role: role("ns/pool")}, documents: []*corev1.Secret{document(time.Hour)}, deleted: 1},
		"a document's token is alive":           {have: Objects{Account: account(0)}, documents: []*corev1.Secret{document(time.Hour), document(time.Minute)}, nextRun: now.Add(time.Hour), records: true},
		"the account outlives the documents":    {have: Objects{Account: account(time.Hour)}, documents: []*corev1.Secret{document(0)}, nextRun: now.Add(time.Hour)},
		"the account says so already":           {have: Objects{Account: account(time.Hour)}, documents: []*corev1.Secret{document(time.Hour)}, nextRun: now.Add(time.Hour)},
		"a token that has just ended":           {have: Objects{Account: account(-time.Second)}, deleted: 1},
		"a document's token outlives the known": {have: Objects{Account: account(time.Minute)}, documents: []*corev1.Secret{document(time.Hour)}, nextRun: now.Add(time.Hour), records: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.have.PlanRetirement(md, now, c.documents...)
			if len(p.retire) != c.deleted || !p.NextRun.Equal(c.nextRun) || (len(p.grant) > 0) != c.records {
				t.Errorf("deletes %d, looks again at %s, records the end: %t", len(p.retire), p.NextRun, len(p.grant) > 0)
			}
			if kept := p.RetainAll(); len(kept.retire) != 0 || !kept.NextRun.Equal(p.NextRun) {
				t.Errorf("keeping everything deletes %d, looks again at %s", len(kept.retire), kept.NextRun)
			}
		})
	}
}
