package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// Edits by an attacker who knows what is compared are never reported as agreement.
func TestAdversary(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(s *scene)
		of      string
		verdict string
		where   string
	}{
		"the node says something else, and nobody has looked": {func(s *scene) {
			clusterfixture.Get[*corev1.Node](s.e, "two").Labels[api.LabelConfig] = "0123456789ab"
		}, "two", "NodeProvenance differs", "which the node reports"},
		"the node says another commit": {func(s *scene) {
			node := clusterfixture.Get[*corev1.Node](s.e, "two")
			delete(node.Labels, api.LabelConfig)
			node.Labels[api.LabelCommit] = clusterfixture.Commit(9)
		}, "two", "NodeProvenance differs", "which the node reports"},
		"the controller found that the node says something else": {func(s *scene) {
			np := s.provenance("two")
			np.Status.Conditions[0].Status, np.Status.Conditions[0].Message = metav1.ConditionFalse, "it reports another"
		}, "two", "NodeProvenance differs", "status.conditions, Agreed"},
		"another machine has the node": {func(s *scene) {
			clusterfixture.Get[*machines.Machine](s.e, "two").Status.NodeRef.Name = "other"
		}, "two", "NodeProvenance differs", "spec.node.name"},
		"when the machine was created": {func(s *scene) {
			np := s.provenance("two")
			np.Spec.Machine.Created = metav1.NewTime(clusterfixture.At(39))
			np.Spec.Window.From = &np.Spec.Machine.Created
		}, "two", "NodeProvenance differs", "spec.machine.created"},
		"the window's begin": {func(s *scene) {
			from := metav1.NewTime(clusterfixture.At(5))
			s.provenance("one").Spec.Window.From = &from
		}, "one", "NodeProvenance differs", "spec.window.from"},
		"when the node joined": {func(s *scene) {
			s.provenance("two").Spec.Node.Joined = metav1.NewTime(clusterfixture.At(55))
		}, "two", "NodeProvenance differs", "spec.node.joined"},
		"a possible configuration's commit": {func(s *scene) {
			c := s.provenance("one").Spec.Configuration
			s.provenance("two").Spec.Possible = []api.PossibleConfiguration{{InputDigest: c.InputDigest, Profile: c.Profile, Version: c.Version, Commit: clusterfixture.Commit(9), From: metav1.NewTime(clusterfixture.At(10))}}
		}, "two", "NodeProvenance differs", "spec.possible[0].commit"},
		"a possible configuration's time": {func(s *scene) {
			c := s.provenance("one").Spec.Configuration
			s.provenance("two").Spec.Possible = []api.PossibleConfiguration{{InputDigest: c.InputDigest, Profile: c.Profile, Version: c.Version, Commit: c.Commit, From: metav1.NewTime(clusterfixture.At(11))}}
		}, "two", "NodeProvenance differs", "spec.possible[0].from"},
		"a possible configuration that is kept quiet": {func(s *scene) {
			s.joinedBetween("torn")
			s.provenance("torn").Spec.Possible = nil
		}, "torn", "NodeProvenance differs", "spec.possible"},
		"and one that is not": {func(s *scene) { s.joinedBetween("torn") }, "torn", "agrees", ""},
		"a node whose pool asks for another profile by now": {func(s *scene) {
			clusterfixture.Get[*machines.MachineDeployment](s.e, "workers").Annotations[api.AnnotationOSP] = "osp-y"
		}, "two", "agrees", ""},
		"an OperatingSystemConfig that was deleted and created again": {func(s *scene) {
			s.osc().CreationTimestamp, s.osc().UID = metav1.NewTime(clusterfixture.At(60)), "again"
		}, "two", "agrees", ""},
		"the same, for a node without a report": {func(s *scene) {
			s.e.Write("workers", s.e.Join("workers", "silent", clusterfixture.At(45), nil))
			s.osc().CreationTimestamp, s.osc().UID = metav1.NewTime(clusterfixture.At(60)), "again"
		}, "silent", "agrees", ""},
		"the same, and nothing says what came before it": {func(s *scene) {
			s.osc().CreationTimestamp, s.osc().UID = metav1.NewTime(clusterfixture.At(60)), "again"
			delete(s.osc().Annotations, api.AnnotationReplaces)
		}, "two", "unproven", ""},
		"a configuration that was created again, and later archived": {func(s *scene) { s.began(25) }, "one", "unproven", ""},
		"the same, as a possible configuration": {func(s *scene) {
			s.joinedBetween("torn")
			s.began(25)
		}, "torn", "unproven", ""},
		"a possible configuration's time, before all records": {func(s *scene) {
			s.joinedBetween("torn")
			s.provenance("torn").Spec.Possible[0].From = metav1.NewTime(clusterfixture.At(9))
		}, "torn", "unproven", ""},
		"a configuration to which the pool returned, without a record of that time": {func(s *scene) {
			s.interval(func(in *api.Interval) {
				in.From, in.Until = metav1.NewTime(clusterfixture.At(1)), metav1.NewTime(clusterfixture.At(3))
			})
			delete(s.osc().Annotations, api.AnnotationReplaces)
		}, "one", "unproven", ""},
		"the same, and another record fills the time": {func(s *scene) {
			s.interval(func(in *api.Interval) {
				in.From, in.Until = metav1.NewTime(clusterfixture.At(1)), metav1.NewTime(clusterfixture.At(3))
			})
			s.recordDuring("kube-system/workers", 3, 30, "")
		}, "one", "NodeProvenance differs", "spec.window"},
		"a controller whose clock was behind, or an edited link to it": {func(s *scene) {
			s.interval(func(in *api.Interval) { in.From = metav1.NewTime(clusterfixture.At(1)); in.Until = in.From })
		}, "one", "unproven", ""},
		"an earlier configuration, in a window that was moved to its time": {func(s *scene) {
			w := &s.claim("two", "one").Spec.Window
			w.From, w.Until = nil, metav1.NewTime(clusterfixture.At(20))
		}, "two", "unproven", ""},
		"the same, with another Machine, which is gone": {func(s *scene) {
			s.joinedBetween("torn")
			np := s.claim("two", "one")
			np.Spec.Possible = s.provenance("torn").Spec.Possible
			np.Spec.Machine.UID, np.Spec.Machine.Created = "gone", metav1.NewTime(clusterfixture.At(25))
			np.Spec.Window.From = &np.Spec.Machine.Created
		}, "two", "NodeProvenance differs", "spec.machine"},
		"the same, of a machine that is younger than its node": {func(s *scene) {
			s.adopt("two")
			s.claim("two", "one")
		}, "two", "unproven", ""},
		"an earlier configuration that ended shortly before": {func(s *scene) {
			s.joined("soon", 35, 36, nil)
			s.claim("soon", "one")
		}, "soon", "unproven", ""},
		"the same, and there was one more push": {func(s *scene) {
			s.repo.Push(2, "echo three")
			s.e.Serve("workers", 2, clusterfixture.At(33))
			s.joined("soon", 32, 35, nil)
			np := s.claim("soon", "one")
			np.Spec.Possible = nil
		}, "soon", "unproven", ""},
		"the same, for a machine of a later template": {func(s *scene) {
			s.osc().Annotations[api.AnnotationRevisionFor] = "2"
			s.reportedBetween("torn").Spec.Pool.Revision = "2"
			clusterfixture.Get[*machines.MachineSet](s.e, "torn").Annotations[api.AnnotationMDRevision] = "2"
			s.claim("torn", "one")
		}, "torn", "unproven", ""},
		"the revision, so that no configuration counts": {func(s *scene) {
			np := s.reportedBetween("torn")
			np.Spec.Pool.Revision, np.Spec.Bootstrap, np.Spec.Possible = "9999", s.provenance("two").Spec.Bootstrap, nil
		}, "torn", "NodeProvenance differs", "spec.pool.revision"},
		"a MachineSet that was used again": {func(s *scene) {
			a := clusterfixture.Get[*machines.MachineSet](s.e, "two").Annotations
			a[api.AnnotationMDRevision], a[api.AnnotationMDRevisionHistory] = "7", "1,4"
		}, "two", "agrees", ""},
		"a machine that is gone, and a pool whose it was not": {func(s *scene) {
			s.ofOthers("two").Spec.Machine.UID = "gone"
		}, "two", "NodeProvenance differs", "spec.machine"},
		"the same, and the Machine that names the node is gone": {func(s *scene) {
			s.ofOthers("two").Spec.Machine.UID = "gone"
			clusterfixture.Delete[*machines.Machine](s.e, "two")
		}, "two", "unproven", ""},
		"a machine of another pool, which names no node": {func(s *scene) {
			np := s.ofOthers("two")
			m := clusterfixture.Get[*machines.Machine](s.e, "other")
			m.Status.NodeRef = nil
			np.Spec.Machine = api.ProvenanceMachine{Namespace: m.Namespace, Name: m.Name, UID: m.UID, Created: m.CreationTimestamp}
		}, "two", "NodeProvenance differs", "spec.machine"},
		"the same, and a Machine that is younger than the node names it": {func(s *scene) {
			np := s.ofOthers("two")
			s.adopt("two")
			m := clusterfixture.Get[*machines.Machine](s.e, "other")
			m.Status.NodeRef = nil
			np.Spec.Machine = api.ProvenanceMachine{Namespace: m.Namespace, Name: m.Name, UID: m.UID, Created: m.CreationTimestamp}
			np.Spec.Window.From = &np.Spec.Machine.Created
		}, "two", "unproven", ""},
		"a later revision of a MachineSet that was used again": {func(s *scene) {
			np := s.reportedBetween("torn")
			a := clusterfixture.Get[*machines.MachineSet](s.e, "torn").Annotations
			a[api.AnnotationMDRevision], a[api.AnnotationMDRevisionHistory] = "7", "1"
			s.osc().Annotations[api.AnnotationRevisionFor] = "7"
			np.Spec.Pool.Revision, np.Spec.Bootstrap, np.Spec.Possible = "7", s.provenance("two").Spec.Bootstrap, nil
		}, "torn", "unproven", ""},
		"a window before the machine, and what was possible then": {func(s *scene) {
			np := s.provenance("two")
			np.Spec.Window.From, np.Spec.Window.Until = nil, metav1.NewTime(clusterfixture.At(36))
			np.Spec.Possible = s.reportedBetween("torn").Spec.Possible
		}, "two", "unproven", ""},
		"a report that the node never made": {func(s *scene) {
			np := s.joined("silent", 40, 41, nil)
			np.Spec.Reported = &api.NodeReport{Config: "0123456789ab"}
		}, "silent", "unproven", ""},
		"a pool's label": {func(s *scene) {
			s.provenance("two").Labels[api.LabelPool] = "kube-system_others"
		}, "two", "NodeProvenance differs", "label gitops.k8c.io/pool"},
		"when the commit was made, and the profile's object is gone": {func(s *scene) {
			clusterfixture.Delete[*osm.OperatingSystemProfile](s.e, "osp-x-v1.1.0")
			c := s.provenance("two").Spec.Configuration
			c.Author, c.CommittedAt = "", "2001-01-01T00:00:00Z"
		}, "two", "NodeProvenance and OSP differ", "spec.configuration.committedAt"},
		"a node whose Machine is gone":    {func(s *scene) { clusterfixture.Delete[*machines.Machine](s.e, "two") }, "two", "unproven", ""},
		"a node whose MachineSet is gone": {func(s *scene) { clusterfixture.Delete[*machines.MachineSet](s.e, "two") }, "two", "unproven", ""},
		"the provider's id": {func(s *scene) {
			s.provenance("two").Spec.Node.ProviderID = "hcloud://evil"
		}, "two", "NodeProvenance differs", "spec.node.providerID"},
		"a label by which users select": {func(s *scene) {
			metav1.SetMetaDataLabel(&s.provenance("two").ObjectMeta, api.LabelVersion, "v6.6.6")
		}, "two", "NodeProvenance differs", "label gitops.k8c.io/version"},
		"a possible configuration that does not exist": {func(s *scene) {
			s.provenance("two").Spec.Possible = []api.PossibleConfiguration{{InputDigest: "v1:sha256:evil"}}
		}, "two", "unproven", ""},
		"a list that has reached its limit with one configuration": {func(s *scene) {
			np := s.reportedBetween("torn")
			np.Spec.Possible = slices.Repeat(np.Spec.Possible[1:], lineage.MaxPossible)
		}, "torn", "unproven", ""},
		"a node of which nothing is known": {func(s *scene) {
			np := s.joined("silent", 40, 41, nil)
			s.adopt("silent")
			np.Spec.Possible = nil
		}, "silent", "unproven", ""},
		"a node that was deleted and created again": {func(s *scene) {
			node, np := clusterfixture.Get[*corev1.Node](s.e, "two"), s.provenance("two")
			node.CreationTimestamp = metav1.NewTime(clusterfixture.At(50))
			np.Spec.Node.Joined = node.CreationTimestamp
		}, "two", "agrees", ""},
		"the present configuration, across a push before it": {func(s *scene) {
			s.joinedBetween("torn")
			s.repo.Push(2, "echo three")
			third := s.e.Serve("workers", 2, clusterfixture.At(50))
			s.e.Write("workers", s.e.Join("workers", "three", clusterfixture.At(55), clusterfixture.Says(third)))
			s.claim("torn", "three")
		}, "torn", "NodeProvenance differs", "spec.configuration.inputDigest"},
		"the later one of two possible configurations, without a report": {func(s *scene) {
			s.joinedBetween("torn")
			possible := s.provenance("torn").Spec.Possible
			np := s.claim("torn", "two")
			np.Spec.Possible, np.Spec.Evidence = possible, api.EvidenceInferred
		}, "torn", "unproven", ""},
		"the same, and the bootstrap document is right": {func(s *scene) {
			s.joinedBetween("torn")
			was := s.provenance("torn").DeepCopy()
			np := s.claim("torn", "two")
			np.Spec.Possible, np.Spec.Bootstrap, np.Spec.Evidence = was.Spec.Possible, was.Spec.Bootstrap, api.EvidenceInferred
		}, "torn", "unproven", ""},
		"a bootstrap document of before that is kept quiet": {func(s *scene) {
			np := s.reportedBetween("torn")
			np.Spec.Bootstrap = s.provenance("two").Spec.Bootstrap
		}, "torn", "unproven", ""},
		"a bootstrap document that the pool had since a later time": {func(s *scene) {
			s.provenance("two").Spec.Bootstrap.From = metav1.NewTime(clusterfixture.At(39))
		}, "two", "unproven", ""},
		"the same, since an earlier time, when it had another one": {func(s *scene) {
			s.provenance("two").Spec.Bootstrap.From = metav1.NewTime(clusterfixture.At(20))
		}, "two", "unproven", ""},
		"the same, since a time before all records": {func(s *scene) {
			s.provenance("one").Spec.Bootstrap.From = metav1.NewTime(clusterfixture.At(9))
		}, "one", "unproven", ""},
		"the same, of the present configuration": {func(s *scene) {
			s.provenance("two").Spec.Bootstrap.From = metav1.NewTime(clusterfixture.At(9))
		}, "two", "unproven", ""},
		"the same, by seconds": {func(s *scene) {
			s.provenance("two").Spec.Bootstrap.From = seconds(30, -4)
		}, "two", "unproven", ""},
		"the time of another configuration": {func(s *scene) {
			b := s.reportedBetween("torn").Spec.Bootstrap
			b.From, b.Until = seconds(30, 0), nil
		}, "torn", "unproven", ""},
		"a bootstrap document that the pool had until an earlier time": {func(s *scene) {
			s.provenance("one").Spec.Bootstrap.Until = new(seconds(25, 0))
		}, "one", "unproven", ""},
		"the same, and the pool still has it": {func(s *scene) {
			s.provenance("two").Spec.Bootstrap.Until = new(seconds(35, 0))
		}, "two", "unproven", ""},
		"the pool still had it, it is said, and the node joined later": {func(s *scene) {
			s.reportedBetween("torn").Spec.Bootstrap.Until = nil
		}, "torn", "unproven", ""},
		"the same, at that time": {func(s *scene) {
			np := s.reportedBetween("torn")
			clusterfixture.Get[*corev1.Node](s.e, "torn").CreationTimestamp, np.Spec.Node.Joined, np.Spec.Window.Until = seconds(30, 5), seconds(30, 5), seconds(30, 5)
			np.Spec.Bootstrap.Until, np.Spec.Possible[0].Until = nil, nil
		}, "torn", "agrees", ""},
		"a bootstrap document that was archived, and nothing came after it yet": {func(s *scene) {
			np := s.reportedBetween("torn")
			np.Spec.Bootstrap.Until = new(seconds(29, 50))
			s.interval(func(in *api.Interval) { in.Until = seconds(29, 50) })
		}, "torn", "agrees", ""},
		"a configuration that was created again, and began seconds after the one before was archived": {func(s *scene) {
			s.osc().CreationTimestamp, s.osc().UID = seconds(60, 0), "again"
			s.provenance("two").Spec.Bootstrap.From = seconds(30, 5)
		}, "two", "agrees", ""},
		"the same, and more than seconds": {func(s *scene) {
			s.osc().CreationTimestamp, s.osc().UID = seconds(60, 0), "again"
			s.provenance("two").Spec.Bootstrap.From = seconds(30, 6)
		}, "two", "unproven", ""},
		"the present configuration, seconds after it was created": {func(s *scene) {
			s.interval(func(in *api.Interval) { in.Until = seconds(29, 59) })
			s.provenance("two").Spec.Bootstrap.From = seconds(30, 2)
		}, "two", "unproven", ""},
		"a configuration that was created again within seconds, after a machine had fetched it": {func(s *scene) {
			s.interval(func(in *api.Interval) { in.Until = seconds(29, 59) })
			node := s.e.Join("workers", "quick", clusterfixture.At(30), nil)
			s.e.Write("workers", node)
			s.osc().CreationTimestamp, s.osc().UID = seconds(30, 3), "again"
		}, "quick", "unproven", ""},
		"a controller's clock that was behind, and a time before that": {func(s *scene) {
			s.interval(func(in *api.Interval) { in.Until = seconds(30, -4) })
			s.provenance("two").Spec.Bootstrap.From = seconds(30, -9)
		}, "two", "unproven", ""},
		"the same, and a bootstrap document of before that is kept quiet": {func(s *scene) {
			s.interval(func(in *api.Interval) { in.Until = seconds(30, -4) })
			node := s.e.Join("workers", "torn", seconds(30, -3).Time, s.says("two"))
			node.CreationTimestamp = seconds(31, 0)
			np := s.e.Write("workers", node)
			np.Spec.Bootstrap, np.Spec.Possible = s.provenance("two").Spec.Bootstrap, nil
		}, "torn", "unproven", ""},
		"a later configuration, and the record does not say when the one before it ended": {func(s *scene) {
			s.claim("one", "two")
			s.interval(func(in *api.Interval) { in.Until = metav1.Time{} })
		}, "one", "NodeProvenance differs", "spec.configuration.inputDigest"},
		"a possible configuration's time, which the pool still has": {func(s *scene) {
			s.reportedBetween("torn").Spec.Possible[1].From = seconds(29, 0)
		}, "torn", "unproven", ""},
		"until when it was possible": {func(s *scene) {
			s.reportedBetween("torn").Spec.Possible[0].Until = new(seconds(25, 0))
		}, "torn", "unproven", ""},
		"a pool that was created again, and adopted its MachineSets": {func(s *scene) {
			s.poolAgain("workers", seconds(90, 0))
		}, "two", "unproven", ""},
		"the same, under another name": {func(s *scene) {
			s.poolAgain("renamed", seconds(90, 0))
		}, "two", "unproven", ""},
		"the same, and that is gone as well": {func(s *scene) {
			s.poolAgain("workers", seconds(90, 0))
			clusterfixture.Delete[*machines.MachineDeployment](s.e, "workers")
		}, "two", "unproven", ""},
		"the same, and created once more": {func(s *scene) {
			s.poolAgain("workers", seconds(35, 0))
			clusterfixture.Get[*machines.MachineDeployment](s.e, "workers").UID = "once more"
		}, "two", "unproven", ""},
		"the same, seconds before the node joined, by another clock": {func(s *scene) {
			s.poolAgain("workers", seconds(41, -4))
		}, "two", "unproven", ""},
		"the same, before the node had joined": {func(s *scene) {
			s.poolAgain("workers", seconds(41, -5))
		}, "two", "NodeProvenance differs", "spec.pool.uid"},
		"the same, before that, under another name": {func(s *scene) {
			s.poolAgain("renamed", seconds(35, 0))
		}, "two", "NodeProvenance differs", "spec.pool"},
		"a pool that is gone, with the uid that its MachineSets name": {func(s *scene) {
			clusterfixture.Delete[*machines.MachineDeployment](s.e, "workers")
		}, "two", "agrees", ""},
		"another pool, with the uid of the right one": {func(s *scene) {
			was := s.provenance("two").Spec.Pool
			was.Name = "others"
			s.ofOthers("two").Spec.Pool = was
		}, "two", "NodeProvenance differs", "spec.pool"},
		"a pool that was created again, and another revision": {func(s *scene) {
			s.poolAgain("workers", seconds(90, 0))
			s.provenance("two").Spec.Pool.Revision = "9"
		}, "two", "NodeProvenance differs", "spec.pool.revision"},
		"no bootstrap document": {func(s *scene) { s.provenance("two").Spec.Bootstrap = nil }, "two", "NodeProvenance differs", "spec.bootstrap"},
		"a possible configuration beside the reported one that is kept quiet": {func(s *scene) {
			s.reportedBetween("torn").Spec.Possible = nil
		}, "torn", "unproven", ""},
		"a machine that is younger than its node": {func(s *scene) { s.adopt("one") }, "one", "agrees", ""},
		"the same, and its configuration was created again, and later archived": {func(s *scene) {
			s.adopt("one")
			s.began(25)
		}, "one", "unproven", ""},
		"the same, and the window ends before it begins": {func(s *scene) {
			s.began(25)
			s.provenance("one").Spec.Window.Until = metav1.NewTime(clusterfixture.At(1))
		}, "one", "NodeProvenance differs", "spec.window"},
		"the same, with an edited commit": {func(s *scene) {
			s.began(25)
			s.provenance("one").Spec.Configuration.SelectedBy = clusterfixture.Commit(9)
		}, "one", "NodeProvenance differs", "spec.configuration.selectedBy"},
		"the same, and the record before it began after the node had joined": {func(s *scene) {
			s.began(25)
			s.recordDuring("kube-system/workers", 22, 24, "")
		}, "one", "unproven", ""},
		"and the pool had another one before": {func(s *scene) {
			s.began(25)
			s.recordDuring("kube-system/workers", 5, 24, "")
		}, "one", "NodeProvenance differs", "spec.window"},
		"and it had another one at a listed time": {func(s *scene) {
			s.joinedBetween("torn")
			s.began(25)
			s.recordDuring("kube-system/workers", 5, 24, "")
		}, "torn", "NodeProvenance differs", "spec.possible[0].from"},
		"the record of another pool under the label of this one": {func(s *scene) {
			s.joinedBetween("torn")
			s.recordBetween("kube-system/other", "")
		}, "torn", "agrees", ""},
		"a record whose intervals cannot be read to their end": {func(s *scene) {
			s.joinedBetween("torn")
			s.recordBetween("kube-system/workers", ", 1")
		}, "torn", "agrees", ""},
		"a record that nothing lists": {func(s *scene) {
			s.joinedBetween("torn")
			s.recordBetween("kube-system/workers", "")
		}, "torn", "NodeProvenance differs", "spec.possible"},
		"a node that is gone, of what its pool has now": {func(s *scene) {
			s.e.RemoveNode(s.provenance("one"), clusterfixture.At(50))
			c, now := s.provenance("one").Spec.Configuration, s.provenance("two").Spec.Configuration
			*c = *now
			np := s.provenance("one")
			np.Spec.Reported.Config, np.Spec.Reported.Commit = render.ShortDigest(c.InputDigest), c.Commit
			np.Status.Reported = np.Spec.Reported
		}, "one", "NodeProvenance differs", "spec.configuration.inputDigest"},
		"who selected, of a record": {func(s *scene) {
			s.record(false, func(r *render.Record) { r.SelectedBy = clusterfixture.Commit(9) })
		}, "", "record differs", "selectedBy"},
		"nobody selected, of a node": {func(s *scene) {
			s.provenance("two").Spec.Configuration.SelectedBy = ""
		}, "two", "NodeProvenance differs", "spec.configuration.selectedBy"},
		"the object of a record": {func(s *scene) {
			osp := s.osp().DeepCopy()
			osp.Name = "osp-x-evil"
			s.e.Objects = append(s.e.Objects, osp)
			s.record(false, func(r *render.Record) { r.Object = "osp-x-evil" })
		}, "", "record differs", "object"},
		"the record of another pool, forged": {func(s *scene) {
			s.record(true, func(r *render.Record) { r.Pool.Name = "others" })
		}, "", "record differs", "pool.name"},
		"a pool that asks for another profile": {func(s *scene) {
			clusterfixture.Get[*machines.MachineDeployment](s.e, "workers").Annotations[api.AnnotationOSP] = "osp-y"
		}, "", "record differs", "profile (expected is the request of the MachineDeployment)"},
		"a signature that nobody can check": {func(s *scene) {
			const claimed = "commit 0123 by eve@example.com, ssh SHA256:x"
			s.provenance("two").Spec.Configuration.Signature, s.osp().Annotations[api.AnnotationSignature] = claimed, claimed
		}, "two", "unproven", ""},
		"the record of an older bootstrap document": {func(s *scene) {
			s.reportedBetween("torn")
			cr := s.archived()
			cr.Data.Raw = []byte(strings.Replace(string(cr.Data.Raw), "profiles/osp-x.yaml", "profiles/evil.yaml", 1))
		}, "torn", "NodeProvenance differs", "record of spec.bootstrap"},
		"the outputs in the record of an older bootstrap document": {func(s *scene) {
			s.reportedBetween("torn")
			var rec render.Record
			s.do(json.Unmarshal(s.archived().Data.Raw, &rec))
			rec.Digests.Bootstrap = "evil"
			text, err := json.Marshal(rec)
			s.do(err)
			s.archived().Data.Raw = text
		}, "torn", "record differs", "digests.bootstrap"},
		"the profile's object of an older bootstrap document": {func(s *scene) {
			s.reportedBetween("torn")
			clusterfixture.Get[*osm.OperatingSystemProfile](s.e, "osp-x-v1.0.0").Spec.OSVersion = "evil"
		}, "torn", "OSP differs", "spec.osVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.do(s)
			report := s.verify(c.of)
			text, err := json.MarshalIndent(report, "", "  ")
			s.do(err)
			if report.Verdict != c.verdict {
				t.Fatalf("verdict %q, want %q\n%s", report.Verdict, c.verdict, text)
			}
			if first := report.FirstDifference(); c.where != "" && (first == nil || first.Difference == nil || !strings.Contains(first.Difference.Field, c.where)) {
				t.Errorf("the first difference is not at %q\n%s", c.where, text)
			}
		})
	}
}

// joinedBetween creates a node without a report, whose machine was created before a push
// and which joined after it.
func (s *scene) joinedBetween(name string) { s.joined(name, 29, 31, nil) }

// reportedBetween is joinedBetween for a node that reports the configuration of the push.
func (s *scene) reportedBetween(name string) *api.NodeProvenance {
	return s.joined(name, 29, 31, s.says("two"))
}

// says returns what a node says of itself.
func (s *scene) says(node string) map[string]string {
	r := s.provenance(node).Spec.Reported
	return map[string]string{api.LabelConfig: r.Config, api.LabelCommit: r.Commit}
}

// joined creates a node with the times of its machine and of itself, and what it says.
func (s *scene) joined(name string, created, joined int, says map[string]string) *api.NodeProvenance {
	node := s.e.Join("workers", name, clusterfixture.At(created), says)
	node.CreationTimestamp = metav1.NewTime(clusterfixture.At(joined))
	np := s.e.Write("workers", node)
	if created < 30 && joined > 30 && len(np.Spec.Possible) != 2 {
		s.t.Fatalf("possible are %+v", np.Spec.Possible)
	}
	return np
}

// ofOthers edits the NodeProvenance and the labels of a node, so that it is of another pool.
func (s *scene) ofOthers(node string) *api.NodeProvenance {
	s.e.Pool("others")
	first := s.e.Serve("others", 0, clusterfixture.At(10))
	s.e.Write("others", s.e.Join("others", "other", clusterfixture.At(20), clusterfixture.Says(first)))
	np := s.claim(node, "other")
	np.Spec.Pool, np.Labels[api.LabelPool] = s.provenance("other").Spec.Pool, s.provenance("other").Labels[api.LabelPool]
	return np
}

// claim edits the NodeProvenance and the labels of a node, so that it has the configuration of another.
func (s *scene) claim(node, of string) *api.NodeProvenance {
	np, like := s.provenance(node), s.provenance(of).DeepCopy()
	np.Spec.Configuration, np.Spec.Bootstrap = like.Spec.Configuration, like.Spec.Bootstrap
	np.Spec.Evidence, np.Spec.Reported, np.Spec.Possible = like.Spec.Evidence, like.Spec.Reported, nil
	np.Status.Reported, np.Status.Conditions = like.Status.Reported, like.Status.Conditions
	maps.Copy(clusterfixture.Get[*corev1.Node](s.e, node).Labels, s.says(of))
	return np
}

// adopt makes the machine of a node younger than it.
func (s *scene) adopt(name string) {
	created := metav1.NewTime(s.provenance(name).Spec.Node.Joined.Add(3 * time.Minute))
	clusterfixture.Get[*machines.Machine](s.e, name).CreationTimestamp = created
	np := s.provenance(name)
	np.Spec.Machine.Created, np.Spec.Window.From = created, nil
}

// poolAgain creates the MachineDeployment again, which adopts its MachineSets.
func (s *scene) poolAgain(name string, at metav1.Time) {
	md := clusterfixture.Get[*machines.MachineDeployment](s.e, "workers")
	was := md.UID
	md.Name, md.UID, md.CreationTimestamp = name, "again", at
	for _, o := range s.e.Objects {
		if set, ok := o.(*machines.MachineSet); ok && set.OwnerReferences[0].UID == was {
			set.OwnerReferences[0].Name, set.OwnerReferences[0].UID = md.Name, md.UID
		}
	}
}

// seconds is a time, in minutes and seconds after noon.
func seconds(minute, s int) metav1.Time {
	return metav1.NewTime(clusterfixture.At(minute).Add(time.Duration(s) * time.Second))
}

// began changes the creation time in the archived record, as that of a second creation.
func (s *scene) began(minute int) {
	s.interval(func(in *api.Interval) { in.From = metav1.NewTime(clusterfixture.At(minute)) })
}

// interval edits the interval in the archived record.
func (s *scene) interval(edit func(*api.Interval)) {
	intervals := lineage.DecodeIntervals(s.archived().Annotations)
	edit(&intervals[0])
	text, err := lineage.EncodeIntervals(intervals)
	s.do(err)
	s.archived().Annotations[api.AnnotationIntervals] = text
}

// recordBetween archives one more record with the label of the pool, from which the node
// that joined between two pushes could come. More is appended to its only interval.
func (s *scene) recordBetween(pool, more string) {
	s.t.Helper()
	s.recordDuring(pool, 15, 60, more)
}

// recordDuring is recordBetween for other times.
func (s *scene) recordDuring(pool string, from, until int, more string) {
	cr := s.archived().DeepCopy()
	cr.Name, cr.UID = cr.Name+"-other", "other"
	cr.Annotations[api.AnnotationPool], cr.Annotations[api.AnnotationInputDigest] = pool, "v1:sha256:other"
	text, err := json.Marshal(api.Interval{From: metav1.NewTime(clusterfixture.At(from)), Until: metav1.NewTime(clusterfixture.At(until))})
	s.do(err)
	cr.Annotations[api.AnnotationIntervals] = "[" + string(text) + more + "]"
	s.e.Objects = append(s.e.Objects, cr)
}

// A MachineDeployment that cannot be read proves nothing.
func TestUnreadablePool(t *testing.T) {
	s := newScene(t)
	s.poolAgain("workers", seconds(35, 0))
	s.verify("two")
	s.v.Worker = withoutMetadata{s.v.Worker}
	if report, err := s.v.Node(t.Context(), "two"); err == nil {
		t.Errorf("%+v", report)
	}
}

// withoutMetadata cannot read the metadata of MachineDeployments.
type withoutMetadata struct{ client.Reader }

func (r withoutMetadata) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok && m.Kind == "MachineDeployment" {
		return errors.New("injected")
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}

// For an existing node only its own NodeProvenance is verified, even if a user deleted it
// or wrote another one for its name.
func TestNodeThatIsThere(t *testing.T) {
	s := newScene(t)
	older := s.provenance("two").DeepCopy()
	older.Spec.Node.UID = "11111111-0000"
	older.Name = lineage.ProvenanceName("two", older.Spec.Node.UID)
	later := older.DeepCopy()
	later.Spec.Node.UID, later.Spec.Node.Joined = "22222222-0000", metav1.NewTime(clusterfixture.At(90))
	later.Name = lineage.ProvenanceName("two", later.Spec.Node.UID)
	s.e.Objects = append(s.e.Objects, older, later)
	own := lineage.ProvenanceName("two", clusterfixture.Get[*corev1.Node](s.e, "two").UID)
	if report := s.verify("two"); report.Verdict != VerdictAgrees || report.Checks[0].Name != own {
		t.Errorf("%s of %s, want that of %s", report.Verdict, report.Checks[0].Name, own)
	}
	clusterfixture.Delete[*api.NodeProvenance](s.e, own)
	if report, err := s.try("two"); err == nil || !strings.Contains(err.Error(), "NodeProvenance "+own) {
		t.Errorf("%+v (err %v)", report, err)
	}
}

// No text of a report contains control characters or starts a line of its own (security.md
// 28), and no URL contains a password (security.md 14).
func TestHostileNames(t *testing.T) {
	const evil = "x\x1b[31m\nverdict: agrees"
	s := newScene(t)
	s.v.Repository, s.v.FollowedOnly = nil, true
	np := s.provenance("one")
	s.e.RemoveNode(np, clusterfixture.At(50))
	np.Spec.Node.Name = evil
	np.Labels[api.LabelNode] = api.NodeLabel(evil)
	np.Spec.Pool.Name, np.Spec.Configuration.InputDigest = evil, evil
	np.Spec.Configuration.Profile, np.Spec.Configuration.Version, np.Spec.Configuration.Object = evil, evil, ""
	np.Spec.Configuration.Repository = "https://user:canary@git.example.com/" + evil
	for _, c := range func() []Check {
		report := s.verify(evil)
		text := report.Subject + report.Profile + report.Version + report.Repository + report.Commit + report.InputDigest
		if strings.ContainsAny(text, "\x1b\n") || strings.Contains(text, "canary") {
			t.Errorf("the report says %q", text)
		}
		return report.Checks
	}() {
		text := c.Name + c.Note
		if c.Difference != nil {
			text += c.Difference.Field + c.Difference.Expected + c.Difference.Found
		}
		if strings.ContainsAny(text, "\x1b\n") || strings.Contains(text, "canary") {
			t.Errorf("%s says %q", c.Thing, text)
		}
	}
	s = newScene(t)
	s.provenance("two").Spec.Possible = []api.PossibleConfiguration{{InputDigest: evil, Version: evil}}
	if note := s.verify("two").Checks[0].Note; !strings.Contains(note, "spec.possible lists x[31mverdict: agrees (") || strings.ContainsAny(note, "\x1b\n") {
		t.Errorf("the note is %q", note)
	}
}

// The Secret with credentials also contains other inputs: a proxy that differs from the
// recorded one is found.
func TestInputsOfAnother(t *testing.T) {
	s := withSecrets(t)
	var rec render.Record
	s.do(json.Unmarshal([]byte(s.osc().Annotations[api.AnnotationRecord]), &rec))
	in := s.e.Input("workers", 1)
	in.Settings.NodeHTTPProxy = "http://user:canary@evil.example.com"
	out, err := render.NewEngine().Render(in)
	s.do(err)
	get1(s, inputsName).Data[render.ShortDigest(rec.Digests.Input)] = []byte(`{"httpProxy":"http://user:canary@evil.example.com"}`)
	for name, text := range map[string][]byte{bootName: out.Bootstrap, "workers-kube-system-provisioning-config": out.Provisioning} {
		secret := get1(s, name)
		secret.Data[api.UserDataKey] = text
		secret.Annotations[api.AnnotationDataDigest] = lineage.DataDigest(text)
	}
	report := s.verify("")
	first := report.FirstDifference()
	if report.Verdict != "Secret differs" || first == nil || !strings.HasSuffix(first.Name, inputsName) {
		t.Errorf("%s: %+v", report.Verdict, first)
	}
}

// A kubelet's kubeconfig contains only compared fields, since machines get all of it.
func TestKubeconfigWithMore(t *testing.T) {
	for name, c := range map[string][2]string{
		"a comment":        {"apiVersion: v1", "apiVersion: v1\n# evil"},
		"a name of TLS":    {"server: " + server, "server: " + server + "\n    tls-server-name: evil"},
		"somebody else":    {"token: canary.0123456789canary", "token: canary.0123456789canary\n    as: evil"},
		"an unknown field": {"apiVersion: v1", "apiVersion: v1\nevil: true"},
	} {
		s := withSecrets(t)
		s.edit(kubeName, api.KubeconfigKey, c[0], c[1])
		if report := s.verify(""); !strings.Contains(report.Verdict, "Secret differ") {
			t.Errorf("%s: %s", name, report.Verdict)
		}
	}
}

// For a record of another engine everything that needs no rendering is still compared.
func TestOtherEngineHidesNothing(t *testing.T) {
	s := newScene(t)
	s.record(false, func(r *render.Record) { r.Engine = "v0" })
	if report := s.verify("two"); !report.NeedsOnlyOtherEngine() || !strings.Contains(fmt.Sprintf("%+v", report), "a later release of osm-gitops") {
		t.Errorf("it does not say which release is needed: %+v", report)
	}
	s.provenance("two").Spec.Configuration.Author = "Eve"
	if report := s.verify("two"); report.NeedsOnlyOtherEngine() || report.Verdict != "NodeProvenance differs" {
		t.Errorf("%s", report.Verdict)
	}
}
