package pools

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/secretdigest"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// plannedAt is when the pools of these tests are planned.
var plannedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newPool is what is observed of a pool for which nothing was made yet.
func newPool(t *testing.T) *observed {
	t.Helper()
	md := named("ns", "pool")
	md.Annotations = map[string]string{api.AnnotationOSP: "osp-hand", api.AnnotationMDRevision: "1"}
	md.Spec.Template.Spec = machines.MachineSpec{
		Versions:     machines.MachineVersion{Kubelet: "1.35.0"},
		ProviderSpec: machines.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"aws","cloudProviderSpec":{},"operatingSystem":"ubuntu","operatingSystemSpec":{}}`)}},
	}
	pool, err := render.DecodePool(md)
	if err != nil {
		t.Fatal(err)
	}
	bootstrap, err := token.New(rand.Reader, md, plannedAt)
	if err != nil {
		t.Fatal(err)
	}
	values := render.Cluster{
		Server: "https://[fd00::1]:6443", APIServerToken: "getter", BootstrapToken: bootstrap.Value,
		BootstrapKubeconfigSecretName: namesOf(md).Kubeconfig, BootstrapKubeconfig: "kubeconfig with " + bootstrap.Value,
	}
	return &observed{
		md: md, now: plannedAt, bootstrapToken: bootstrap, nodeToken: token.Node{Value: "getter"},
		endpoint: &clientcmdapi.Cluster{Server: values.Server},
		key:      make([]byte, secretdigest.KeySize),
		values:   values, kubeconfig: values.BootstrapKubeconfig,
		desired: render.Input{
			Profile: render.Profile{
				Object: "osp-hand", Provenance: render.Provenance{Profile: "osp-hand", Version: "v1.0.0"},
				Spec: osm.OperatingSystemProfileSpec{
					OSName: "ubuntu", OSVersion: "24.04", Version: "v1.0.0",
					SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "aws"}},
					ProvisioningConfig: osm.OSPConfig{Files: []osm.File{{Path: "/kubeconfig", Permissions: 600,
						Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "{{ .BootstrapKubeconfig }}"}}}}},
				},
			},
			Pool: pool, Settings: render.Settings{ClusterDNS: []string{"10.96.0.10"}}, Cluster: values,
		},
	}
}

var testPlanner = planner{engine: render.NewEngine(), namespace: "system"}

// servedPool is what is observed of a pool that has what it asks for.
func servedPool(t *testing.T) *observed {
	t.Helper()
	seen := newPool(t)
	p := testPlanner.planConfiguration(seen)
	if p.err != nil || p.osc == nil || p.provisioning.write == nil || p.bootstrap.write == nil || p.kubeconfig == nil {
		t.Fatalf("a new pool gets %q: %v", writes(p), p.err)
	}
	cached := func(s *corev1.Secret) *corev1.Secret {
		s = s.DeepCopy()
		s.UID = types.UID(s.Name)
		if _, err := DigestSecretsAndTrim(s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	seen.objects = objects{osc: p.osc.DeepCopy(), kubeconfig: cached(p.kubeconfig), provisioning: cached(p.provisioning.write), bootstrap: cached(p.bootstrap.write)}
	seen.objects.osc.UID = "configuration"
	seen.bootstrapToken.Create, seen.keyStored, seen.wasComplete = false, true, true
	return seen
}

// writes names what a plan writes, and what it lacks or why it writes no more.
func writes(p plan) []string {
	var out []string
	for _, w := range []struct {
		name string
		is   bool
	}{
		{"lacks the last good generation", p.lacks == lacksLastGood},
		{"lacks documents", p.lacks == lacksDocuments},
		{"lacks whether a machine boots", p.lacks == lacksMachine},
		{"lacks a node token", p.lacks == lacksNodeToken},
		{"renews the bootstrap token", p.bootstrapToken.Renew},
		{"withdraws", len(p.withdraw) > 0},
		{"fails", p.err != nil},
		{"stores the key", p.storeKey},
		{"creates the bootstrap token", p.err == nil && p.bootstrapToken.Create},
		{"kubeconfig", p.kubeconfig != nil},
		{"configuration", p.osc != nil},
		{"annotations of the configuration", p.oscMetadata != nil},
		{"provisioning", p.provisioning.write != nil},
		{"annotations of provisioning", p.provisioning.patch != nil},
		{"bootstrap", p.bootstrap.write != nil},
		{"annotations of bootstrap", p.bootstrap.patch != nil},
		{"is refused", p.rejection != nil && p.lacks == lacksNothing},
	} {
		if w.is {
			out = append(out, w.name)
		}
	}
	return out
}

func TestPlan(t *testing.T) {
	anotherVersion := func(seen *observed) {
		seen.desired.Profile.Spec = *seen.desired.Profile.Spec.DeepCopy()
		seen.desired.Profile.Provenance.Version = "v1.1.0"
		seen.desired.Profile.Spec.Version = "v1.1.0"
		seen.desired.Profile.Spec.OSVersion = "26.04"
	}
	broken := func(seen *observed) {
		seen.desired.Profile.Spec.ProvisioningConfig.Files[0].Content.Inline.Data = "{{ .Nothing }}"
	}
	refused := func(seen *observed) { seen.desired, seen.desiredErr = render.Input{}, fault.Reject("no such profile") }
	suspend := func(seen *observed) { seen.md.Annotations[api.AnnotationSuspend] = "true" }
	has := func(seen *observed) { // its last good generation is observed
		seen.lastGood = &lastGood{record: recordOf(seen.objects.osc), input: seen.desired}
	}
	tokenIsDue := func(seen *observed) { seen.bootstrapToken.Renew = true }
	boundTokens := func(seen *observed) {
		seen.boundTokens, seen.nodeToken = true, token.Node{}
		seen.values.APIServerToken, seen.desired.Cluster.APIServerToken = "", ""
	}
	rival := func(seen *observed) {
		older := named("pool-ns", "other")
		older.UID = "older"
		older.Annotations = map[string]string{api.AnnotationOSP: "osp-hand"}
		seen.conflicts = []conflictingPool{{md: older, names: []string{"secret/same"}, progress: progressServed}}
	}
	reference := func(seen *observed) { // made both documents, which are immutable
		for _, s := range []**corev1.Secret{&seen.objects.provisioning, &seen.objects.bootstrap} {
			made := (*s).DeepCopy()
			made.Immutable = new(true)
			made.Annotations = map[string]string{api.AnnotationRevisionFor: "1", api.AnnotationMDAnnotationsHash: takeover.AnnotationsHash(seen.md.Annotations), api.AnnotationOSPVersion: "v1.0.0"}
			*s = made
		}
		seen.objects.osc = nil
	}
	content := func(seen *observed) {
		seen.documents = map[string]*corev1.Secret{}
		for _, s := range []*corev1.Secret{seen.objects.provisioning, seen.objects.bootstrap} {
			live := s.DeepCopy()
			live.Data = map[string][]byte{api.UserDataKey: []byte("#cloud-config\nhostname: other\n")}
			seen.documents[s.Name] = live
		}
	}
	boots := func(machine string) func(*observed) {
		return func(seen *observed) { seen.booting = &booting{machine, seen.now.Add(time.Minute)} }
	}
	gone := func(seen *observed) { seen.lastGood.err = errors.New("what it was made from is gone") }
	due := func(seen *observed) { // the token in both documents, and the next one is known
		seen.boundTokens, seen.nodeToken = true, token.Node{Value: "next", Account: "account", Expires: seen.now.Add(time.Hour), Renew: seen.now.Add(time.Minute)}
		seen.objects.access.Account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationPool: poolKey(seen.md)}}}
		for _, s := range []*corev1.Secret{seen.objects.provisioning, seen.objects.bootstrap} {
			s.Annotations[api.AnnotationCredentialsExpireAt] = lineage.FormatTime(seen.now.Add(time.Minute))
			s.Annotations[api.AnnotationCredentialsRenewAt] = lineage.FormatTime(seen.now.Add(-time.Minute))
		}
	}
	unknownToken := func(seen *observed) { seen.nodeToken.Value = "" }
	tokens := func(seen *observed) { // are found in the documents
		content(seen)
		encode := base64.RawURLEncoding.EncodeToString
		for _, s := range seen.documents {
			s.Data[api.UserDataKey] = []byte("token: " + encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(`{"sub":"system:serviceaccount:`+api.NamespaceCloudInitSettings+":"+lineage.AccessName(keyOf(seen.md))+`"}`)) + ".c2ln")
		}
	}
	everything := []string{"stores the key", "creates the bootstrap token", "kubeconfig", "configuration", "provisioning", "bootstrap"}
	for name, c := range map[string]struct {
		of     func(*testing.T) *observed
		change []func(*observed)
		want   []string
	}{
		"a new pool gets everything":                                           {newPool, nil, everything},
		"a pool that has what it asks for gets nothing":                        {servedPool, nil, nil},
		"another version replaces configuration and documents":                 {servedPool, []func(*observed){anotherVersion}, []string{"configuration", "provisioning", "bootstrap"}},
		"a configuration that is gone comes back, its documents stay":          {servedPool, []func(*observed){func(seen *observed) { seen.objects.osc = nil }}, []string{"configuration"}},
		"an edited document is written again, the other stays":                 {servedPool, []func(*observed){func(seen *observed) { seen.objects.bootstrap.Data[api.UserDataKey] = []byte("edited") }}, []string{"bootstrap"}},
		"another revision moves annotations only":                              {servedPool, []func(*observed){func(seen *observed) { seen.md.Annotations[api.AnnotationMDRevision] = "2" }}, []string{"annotations of the configuration", "annotations of provisioning", "annotations of bootstrap"}},
		"another getter's token is written into both documents":                {servedPool, []func(*observed){func(seen *observed) { seen.nodeToken.Value = "new" }}, []string{"provisioning", "bootstrap"}},
		"a bootstrap token that is due is renewed":                             {servedPool, []func(*observed){tokenIsDue}, []string{"renews the bootstrap token"}},
		"a refused pool needs to know what it has":                             {servedPool, []func(*observed){refused}, []string{"lacks the last good generation"}},
		"a refused pool keeps what it has":                                     {servedPool, []func(*observed){has, refused, tokenIsDue}, []string{"renews the bootstrap token", "is refused"}},
		"a refused pool gets back what was deleted":                            {servedPool, []func(*observed){has, refused, func(seen *observed) { seen.objects.bootstrap = nil }}, []string{"bootstrap", "is refused"}},
		"a refused pool whose documents cannot be rendered keeps them":         {servedPool, []func(*observed){has, refused, gone}, []string{"is refused"}},
		"a refused pool that has nothing fails, its token is renewed":          {newPool, []func(*observed){refused, tokenIsDue, func(seen *observed) { seen.lastGood = &lastGood{} }}, []string{"renews the bootstrap token", "fails"}},
		"a token that is due needs the next one":                               {servedPool, []func(*observed){has, refused, gone, due, unknownToken}, []string{"lacks a node token"}},
		"a token that is due is looked for in documents":                       {servedPool, []func(*observed){has, refused, gone, due}, []string{"lacks documents"}},
		"a token that is due is replaced in documents that cannot be rendered": {servedPool, []func(*observed){has, refused, gone, due, tokens}, []string{"provisioning", "bootstrap", "is refused"}},
		"a token that is due and not found stays":                              {servedPool, []func(*observed){has, refused, gone, due, content}, []string{"is refused"}},
		"a version that cannot be rendered is refused":                         {servedPool, []func(*observed){has, anotherVersion, broken}, []string{"is refused"}},
		"a suspended pool needs to know what it has":                           {servedPool, []func(*observed){suspend, anotherVersion}, []string{"lacks the last good generation"}},
		"a suspended pool keeps what it has":                                   {servedPool, []func(*observed){has, suspend, anotherVersion}, nil},
		"a suspended pool that has nothing gets its first configuration":       {newPool, []func(*observed){suspend, func(seen *observed) { seen.lastGood = &lastGood{} }}, everything},
		"an annotation to suspend that is unclear refuses the pool":            {servedPool, []func(*observed){has, func(seen *observed) { seen.md.Annotations[api.AnnotationSuspend] = "perhaps" }}, []string{"is refused"}},
		"documents of a new pool need its own token":                           {newPool, []func(*observed){boundTokens}, []string{"lacks a node token"}},
		"a pool that yields gives back what was made, its token is renewed":    {newPool, []func(*observed){rival, tokenIsDue, func(seen *observed) { seen.unused = []client.Object{&corev1.Secret{}} }}, []string{"renews the bootstrap token", "withdraws", "fails"}},
		"a pool that has its documents yields to nobody":                       {servedPool, []func(*observed){rival}, nil},
		"an object of another pool is in the way": {newPool, []func(*observed){func(seen *observed) {
			seen.objects.osc = &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationPool: "c/other"}}}
		}}, []string{"fails"}},
		"documents of the reference are compared":                  {servedPool, []func(*observed){reference}, []string{"lacks documents"}},
		"documents of the reference that differ wait for machines": {servedPool, []func(*observed){reference, content}, []string{"lacks whether a machine boots"}},
		"they stay as long as a machine boots":                     {servedPool, []func(*observed){reference, content, boots("m")}, []string{"annotations of provisioning", "annotations of bootstrap", "is refused"}},
		"they are replaced once none does":                         {servedPool, []func(*observed){reference, content, boots("")}, []string{"configuration", "provisioning", "bootstrap"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := c.of(t)
			for _, change := range c.change {
				change(seen)
			}
			p := testPlanner.planConfiguration(seen)
			if got := writes(p); !slices.Equal(got, c.want) {
				t.Errorf("the plan is %q, want %q (error %v, rejection %v)", got, c.want, p.err, p.rejection)
			}
			if again := testPlanner.planConfiguration(seen); !reflect.DeepEqual(p, again) {
				t.Errorf("the same observation gives another plan: %q, then %q", writes(p), writes(again))
			}
		})
	}
}
