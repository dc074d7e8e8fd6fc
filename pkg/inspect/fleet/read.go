package fleet

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// Reader reads the objects that the pages show.
type Reader struct {
	// Management has ProfileSources, profiles, configurations and records; Worker has the
	// pools and NodeProvenances.
	Management, Worker client.Reader
	// Reports returns what reads BootReports, nil for nothing; a nil function says that they are
	// not needed.
	Reports func() client.Reader
	// Namespace is the controller's namespace.
	Namespace string
	// PageSize is the number of objects per list request. It is 0 for caches, which do not
	// support paging.
	PageSize int64
}

// Objects are the objects of a cluster that the pages need. They are not modified, since
// they can belong to a cache.
type Objects struct {
	Sources  []api.ProfileSource
	Profiles []metav1.ObjectMeta         // of OperatingSystemProfiles
	Configs  []osm.OperatingSystemConfig // without their spec
	Records  []metav1.ObjectMeta         // of archived records
	Pools    []metav1.ObjectMeta         // of MachineDeployments with a profile
	Nodes    []ProvenanceSummary
	Failing  []MachineBoot // boots that fail, without the time of creation
	// ReadErrors names what could not be read and why, if the rest could be read.
	ReadErrors []string
}

// MachineBoot is a machine without a Node.
type MachineBoot struct {
	Pool    string    `json:"pool"`
	Machine string    `json:"machine"`
	Created time.Time `json:"created"`
	// Boot is its stage that fails, nil if it reports none.
	Boot *api.MachineBootStatus `json:"boot,omitempty"`
}

// ProvenanceSummary has the fields of a NodeProvenance that the pages need. A fleet has
// tens of thousands.
type ProvenanceSummary struct {
	Record, Node, UID string
	Pool              string // "namespace/name"
	Digest            string
	Profile, Version  string
	Commit            string // empty if the cache omits it; the record has it
	Evidence          api.Evidence
	Behind            api.Behind
	Disputed          bool
	Match             api.MatchState // "" if it has not reported
	Created           metav1.Time    // of the machine
	Joined            metav1.Time
	Removed           *metav1.Time
}

// Differs reports whether the node reports that it does not match its configuration, or has stopped
// reporting.
func (s ProvenanceSummary) Differs() bool {
	return s.Match == api.MatchStateDiffers || s.Match == api.MatchStateNotReported
}

// Read reads all objects. Kinds that the user cannot read, or that the cluster does not
// have, are reported in ReadErrors; any other failure is an error.
func (r *Reader) Read(ctx context.Context) (Objects, error) {
	var o Objects
	for _, read := range []struct {
		what string
		list func(context.Context, *Objects) error
	}{
		{"ProfileSources", r.listSources}, {"OperatingSystemProfiles", r.listProfiles}, {"OperatingSystemConfigs", r.listConfigs},
		{"ControllerRevisions", r.listRecords}, {"MachineDeployments", r.listPools}, {"NodeProvenances", r.listNodes},
		{"BootReports", r.listFailing},
	} {
		err := read.list(ctx, &o)
		switch {
		case apierrors.IsForbidden(err):
			o.ReadErrors = append(o.ReadErrors, read.what+" cannot be listed with these permissions.")
		case apimeta.IsNoMatchError(err):
			o.ReadErrors = append(o.ReadErrors, read.what+" are a kind that the cluster does not have.")
		case err != nil:
			return Objects{}, fmt.Errorf("listing %s: %w", read.what, err)
		}
	}
	return o, nil
}

func (r *Reader) listSources(ctx context.Context, o *Objects) error {
	return forEachPage(ctx, listed{r.Management, r.PageSize}, &api.ProfileSourceList{}, func(l *api.ProfileSourceList) {
		o.Sources = append(o.Sources, l.Items...)
	}, client.InNamespace(r.Namespace))
}

func (r *Reader) listProfiles(ctx context.Context, o *Objects) error {
	return forEachPage(ctx, listed{r.Management, r.PageSize}, &osm.OperatingSystemProfileList{}, func(l *osm.OperatingSystemProfileList) {
		for i := range l.Items {
			o.Profiles = append(o.Profiles, l.Items[i].ObjectMeta)
		}
	}, client.InNamespace(r.Namespace))
}

func (r *Reader) listConfigs(ctx context.Context, o *Objects) error {
	return forEachPage(ctx, listed{r.Management, r.PageSize}, kubeclient.MetadataList(kubeclient.ConfigKind), func(l *metav1.PartialObjectMetadataList) {
		for i := range l.Items {
			o.Configs = append(o.Configs, osm.OperatingSystemConfig{ObjectMeta: l.Items[i].ObjectMeta})
		}
	}, client.InNamespace(r.Namespace))
}

func (r *Reader) listRecords(ctx context.Context, o *Objects) error {
	list := kubeclient.MetadataList(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
	return forEachPage(ctx, listed{r.Management, r.PageSize}, list, func(l *metav1.PartialObjectMetadataList) {
		for i := range l.Items {
			o.Records = append(o.Records, l.Items[i].ObjectMeta)
		}
	}, client.InNamespace(r.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager})
}

func (r *Reader) listPools(ctx context.Context, o *Objects) error {
	return forEachPage(ctx, listed{r.Worker, r.PageSize}, &cluster.MachineDeploymentList{}, func(l *cluster.MachineDeploymentList) {
		for i := range l.Items {
			if l.Items[i].Annotations[api.AnnotationOSP] != "" {
				o.Pools = append(o.Pools, l.Items[i].ObjectMeta)
			}
		}
	})
}

func (r *Reader) listNodes(ctx context.Context, o *Objects) error {
	return forEachPage(ctx, listed{r.Worker, r.PageSize}, &api.NodeProvenanceList{}, func(l *api.NodeProvenanceList) {
		for i := range l.Items {
			o.Nodes = append(o.Nodes, summaryOf(&l.Items[i]))
		}
	})
}

func (r *Reader) listFailing(ctx context.Context, o *Objects) error {
	if r.Reports == nil {
		return nil
	}
	from := r.Reports()
	if from == nil {
		return nil
	}
	return ForEachFailing(ctx, from, func(pool string, s *api.MachineBootStatus) {
		o.Failing = append(o.Failing, MachineBoot{Pool: pool, Machine: s.Machine, Boot: s})
	}, client.Limit(r.PageSize))
}

// ForEachFailing calls take for each stage that fails, with its pool, "namespace/name".
func ForEachFailing(ctx context.Context, from client.Reader, take func(pool string, s *api.MachineBootStatus), opts ...client.ListOption) error {
	opts = append(opts, client.UnsafeDisableDeepCopy, client.InNamespace(api.NamespaceCloudInitSettings))
	for reports, err := range kubeclient.Pages(ctx, from, &api.BootReportList{}, opts...) {
		if err != nil {
			return err
		}
		for i := range reports.Items {
			for _, s := range reports.Items[i].Status.Machines {
				if s.Outcome == api.BootFailing {
					take(lineage.PoolOf(&reports.Items[i]), &s)
				}
			}
		}
	}
	return nil
}

// listed is a reader with the number of objects per request; 0 for all.
type listed struct {
	client.Reader

	pageSize int64
}

// forEachPage lists objects page by page and calls take for each page.
func forEachPage[L client.ObjectList](ctx context.Context, from listed, list L, take func(L), o ...client.ListOption) error {
	opts := append([]client.ListOption{client.UnsafeDisableDeepCopy, client.Limit(from.pageSize)}, o...)
	for page, err := range kubeclient.Pages(ctx, from, list, opts...) {
		if err != nil {
			return err
		}
		take(page)
	}
	return nil
}

func summaryOf(np *api.NodeProvenance) ProvenanceSummary {
	s := ProvenanceSummary{
		Record: np.Name, Node: np.Spec.Node.Name, UID: string(np.Spec.Node.UID),
		Pool:     np.Spec.Pool.Namespace + "/" + np.Spec.Pool.Name,
		Evidence: np.Spec.Evidence, Behind: np.Status.Behind, Created: np.Spec.Machine.Created, Joined: np.Spec.Node.Joined, Removed: np.Status.Removed,
	}
	if m := np.Status.Match; m != nil {
		s.Match = m.State
	}
	if c := np.Spec.Configuration; c != nil {
		s.Digest = c.InputDigest
		s.Profile = c.Profile
		s.Version = c.Version
		s.Commit = c.Commit
	}
	for _, c := range np.Status.Conditions {
		if c.Type == api.AgreedCondition {
			s.Disputed = c.Status == metav1.ConditionFalse
		}
	}
	return s
}
