package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Limits.
const (
	// maxWarnings are told at once, of maxWarning bytes each. The API server cuts off
	// what has more than 256 characters where all of them have more than 4096 together:
	// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response
	maxWarnings = 8
	maxWarning  = 500
	// patience is how long the caches may take to answer. The API server waits longer.
	patience = 3 * time.Second
)

// Pools knows profiles.
type Pools interface {
	// Admit says why a pool cannot have the profile it asks for, nil if it can. An
	// error for which refused is false is about the cluster, and says nothing about
	// the pool.
	Admit(ctx context.Context, md *cluster.MachineDeployment) (refused bool, err error)
}

// Checker knows templates. *render.Engine is one.
type Checker interface {
	Check(p render.Profile) error
}

// Handlers are the webhooks.
type Handlers struct {
	Pools   Pools
	Checker Checker
	// DenyUnknownProfiles refuses what is otherwise warned of: MachineDeployments whose
	// profile does not exist or does not suit them.
	DenyUnknownProfiles bool
}

// defaultProfile names the profile of a MachineDeployment that names none (contract
// 10.1). Nothing but that annotation is patched, so that fields which our types do
// not know stay as they are.
func (h Handlers) defaultProfile(_ context.Context, req admission.Request) admission.Response {
	if done, ok := passed(req); ok {
		return done
	}
	var md cluster.MachineDeployment
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &md); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the MachineDeployment: %w", err))
	}
	if !md.DeletionTimestamp.IsZero() || md.Annotations[api.AnnotationOSP] != "" {
		return admission.Allowed("")
	}
	name, err := render.DefaultProfile(&md)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("finding the default of annotation %s: %w", api.AnnotationOSP, err))
	}
	op := operation{"add", "/metadata/annotations/" + strings.ReplaceAll(api.AnnotationOSP, "/", "~1"), name}
	if md.Annotations == nil {
		op = operation{"add", "/metadata/annotations", map[string]string{api.AnnotationOSP: name}}
	}
	patch, err := json.Marshal([]operation{op})
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the patch: %w", err))
	}
	kind := admissionv1.PatchTypeJSONPatch
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true, Patch: patch, PatchType: &kind}}
}

// validatePool warns of a MachineDeployment that cannot have the profile it names,
// or refuses it. GitOps tools often apply a pool together with the source of its
// profile, so a profile that is not there may be about to come.
func (h Handlers) validatePool(ctx context.Context, req admission.Request) admission.Response {
	if done, ok := passed(req); ok {
		return done
	}
	var md, before cluster.MachineDeployment
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &md); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the MachineDeployment: %w", err))
	}
	if !md.DeletionTimestamp.IsZero() || md.Annotations[api.AnnotationOSP] == "" {
		return admission.Allowed("")
	}
	if req.Operation == admissionv1.Update {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the MachineDeployment as it was: %w", err))
		}
		if sameQuestion(&before, &md) {
			return admission.Allowed("") // whatever the answer is, it is not this change's
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	refused, err := h.Pools.Admit(ctx, &md)
	switch {
	case err == nil:
		return admission.Allowed("")
	case !refused:
		log.FromContext(ctx).Error(err, "checking the profile of a MachineDeployment; it was let through", "machineDeployment", md.Namespace+"/"+md.Name)
		return admission.Allowed("").WithWarnings("osm-gitops could not check the profile: an event on the MachineDeployment will say if it is refused")
	case h.DenyUnknownProfiles:
		return admission.Denied(strings.Join(texts(err), "; "))
	}
	return admission.Allowed("").WithWarnings(texts(err)...)
}

// asking are the annotations that choose a profile.
var asking = []string{api.AnnotationOSP, api.AnnotationOSPNamespace, api.AnnotationVersionPin, api.AnnotationIgnitionVersion}

// sameQuestion reports whether two states of a MachineDeployment ask for the same
// profile in the same way: machine-controller and others write a pool all the time.
func sameQuestion(a, b *cluster.MachineDeployment) bool {
	for _, key := range asking {
		if a.Annotations[key] != b.Annotations[key] {
			return false
		}
	}
	return equality.Semantic.DeepEqual(a.Spec.Template.Spec.ProviderSpec, b.Spec.Template.Spec.ProviderSpec)
}

// validateProfile holds the contract's rule for the spec of a profile (10.2), which
// the CustomResourceDefinition holds as well, and warns of templates that no pool
// could use. Units are allowed for every operating system.
func (h Handlers) validateProfile(_ context.Context, req admission.Request) admission.Response {
	if done, ok := passed(req); ok {
		return done
	}
	var osp, before osm.OperatingSystemProfile
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &osp); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the OperatingSystemProfile: %w", err))
	}
	if req.Operation == admissionv1.Update {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the OperatingSystemProfile as it was: %w", err))
		}
		same := equality.Semantic.DeepEqual(before.Spec, osp.Spec)
		if same || !osp.DeletionTimestamp.IsZero() {
			return admission.Allowed("")
		}
		if before.Spec.Version == osp.Spec.Version {
			return admission.Denied(fmt.Sprintf("spec: it is immutable while spec.version is %q: give the profile another version", osp.Spec.Version))
		}
		if namedAfter(osp.Name, before.Spec.Version) {
			return admission.Denied(fmt.Sprintf("spec: it is immutable because %q is named after version %q: make an object for the new version", osp.Name, before.Spec.Version))
		}
	}
	if err := h.Checker.Check(render.Profile{Spec: osp.Spec, Object: osp.Name}); err != nil {
		return admission.Allowed("").WithWarnings(texts(err)...)
	}
	return admission.Allowed("")
}

// namedAfter reports whether an object's name ends in a version, as the rule of the
// CustomResourceDefinition has it.
func namedAfter(object, version string) bool {
	return strings.HasSuffix(object, "-"+strings.ReplaceAll(strings.ToLower(version), "+", "-"))
}

// validateConfig holds the contract's rule for the spec of a configuration (10.3),
// which the CustomResourceDefinition holds as well.
func (h Handlers) validateConfig(_ context.Context, req admission.Request) admission.Response {
	if done, ok := passed(req); ok || req.Operation == admissionv1.Create {
		return done
	}
	var now, before osm.OperatingSystemConfig
	if err := errors.Join(kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &now), kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &before)); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the OperatingSystemConfig: %w", err))
	}
	if !equality.Semantic.DeepEqual(before.Spec, now.Spec) {
		return admission.Denied("spec: it is immutable: osm-gitops makes a new object when the profile or the pool changes")
	}
	return admission.Allowed("")
}

// passed answers what no webhook here has a say in.
func passed(req admission.Request) (admission.Response, bool) {
	switch req.Operation {
	case admissionv1.Create, admissionv1.Update:
		return admission.Allowed(""), false
	case admissionv1.Delete:
		return admission.Allowed(""), true
	}
	return admission.Errored(http.StatusBadRequest, fmt.Errorf("operation %q: there is no rule for it", req.Operation)), true
}

// texts are the parts of an error, one for each thing to change, as people read them
// on a terminal.
func texts(err error) []string {
	var out []string
	for _, p := range render.Problems(err) {
		out = append(out, p.Error())
	}
	if len(out) == 0 {
		out = append(out, err.Error())
	}
	if len(out) > maxWarnings {
		out = append(out[:maxWarnings-1], fmt.Sprintf("%d more problems: mend what is named above first", len(out)-maxWarnings+1))
	}
	for i := range out {
		out[i] = redact.Shorten(strings.Join(strings.Fields(redact.Printable(out[i])), " "), maxWarning)
	}
	return out
}
