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
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
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
	// maxWarnings is the maximum number of warnings in a response, of maxWarning bytes
	// each. The API server truncates warnings of more than 256 characters if all together
	// have more than 4096:
	// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response
	maxWarnings = 8
	maxWarning  = 500
	// patience is the timeout of reads from the caches. The API server waits longer.
	patience = 3 * time.Second
)

// Pools checks the profile of a pool.
type Pools interface {
	// CheckRequestedProfile returns why a pool cannot have the profile it requests, nil if it can. If
	// rejected is false, the error is a problem of the cluster and not of the pool.
	CheckRequestedProfile(ctx context.Context, md *cluster.MachineDeployment) (rejected bool, err error)
}

// Handlers are the webhooks.
type Handlers struct {
	Pools Pools
	// Checker checks templates.
	Checker *render.Engine
	// DenyUnknownProfiles rejects MachineDeployments whose profile does not exist or does
	// not suit them; otherwise they only cause a warning.
	DenyUnknownProfiles bool
}

// completePool sets the profile of a MachineDeployment that names none, and the
// finalizer of a new one, which saves the controller a request. The API server notes nobody as the
// finalizer's owner, so later requests of Flux or Argo CD neither remove nor report it. It patches only
// these, so that fields which our types do not know remain unchanged.
func (h Handlers) completePool(_ context.Context, req admission.Request) admission.Response {
	if done, ok := uncheckedResponse(req); ok {
		return done
	}
	var md cluster.MachineDeployment
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &md); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the MachineDeployment: %w", err))
	}
	if !md.DeletionTimestamp.IsZero() {
		return admission.Allowed("")
	}
	var patch []operation
	if md.Annotations[api.AnnotationOSP] == "" {
		name, err := render.DefaultProfile(&md)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, fmt.Errorf("finding the default of annotation %s: %w", api.AnnotationOSP, err))
		}
		op := operation{"add", "/metadata/annotations/" + strings.ReplaceAll(api.AnnotationOSP, "/", "~1"), name}
		// JSON Patch cannot add a key to a map that does not exist.
		if md.Annotations == nil {
			op = operation{"add", "/metadata/annotations", map[string]string{api.AnnotationOSP: name}}
		}
		patch = append(patch, op)
	}
	if req.Operation == admissionv1.Create && controllerutil.AddFinalizer(&md, api.FinalizerPool) {
		patch = append(patch, operation{"add", "/metadata/finalizers", md.Finalizers})
	}
	if patch == nil {
		return admission.Allowed("")
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the patch: %w", err))
	}
	kind := admissionv1.PatchTypeJSONPatch
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true, Patch: body, PatchType: &kind}}
}

// validatePool warns about a MachineDeployment that cannot have the profile it names, or
// rejects it. GitOps tools often apply a pool together with the source of its profile, so
// a missing profile can follow soon.
func (h Handlers) validatePool(ctx context.Context, req admission.Request) admission.Response {
	if done, ok := uncheckedResponse(req); ok {
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
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the previous MachineDeployment: %w", err))
		}
		if isSameProfileRequest(&before, &md) {
			return admission.Allowed("") // the result does not depend on this change
		}
	}
	// The answer has to arrive before the API server's own timeout, after which the request can
	// fail.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rejected, err := h.Pools.CheckRequestedProfile(ctx, &md)
	switch {
	case err == nil:
		return admission.Allowed("")
	case !rejected:
		log.FromContext(ctx).Error(err, "checking the profile of a MachineDeployment; the request was admitted", "machineDeployment", md.Namespace+"/"+md.Name)
		return admission.Allowed("").WithWarnings("osm-gitops could not check the profile: see the events of the MachineDeployment")
	case h.DenyUnknownProfiles:
		return admission.Denied(strings.Join(errorTexts(err), "; "))
	}
	return admission.Allowed("").WithWarnings(errorTexts(err)...)
}

// asking are the annotations that select a profile.
var asking = []string{api.AnnotationOSP, api.AnnotationOSPNamespace, api.AnnotationVersionPin, api.AnnotationIgnitionVersion}

// isSameProfileRequest reports whether two states of a MachineDeployment request the same profile in the
// same way: machine-controller and others write a pool frequently.
func isSameProfileRequest(a, b *cluster.MachineDeployment) bool {
	for _, key := range asking {
		if a.Annotations[key] != b.Annotations[key] {
			return false
		}
	}
	return equality.Semantic.DeepEqual(a.Spec.Template.Spec.ProviderSpec, b.Spec.Template.Spec.ProviderSpec)
}

// validateProfile rejects another spec with the same version, as the CustomResourceDefinition also
// does, and warns about templates that no pool could use. Units are allowed for every operating system.
func (h Handlers) validateProfile(_ context.Context, req admission.Request) admission.Response {
	if done, ok := uncheckedResponse(req); ok {
		return done
	}
	var osp, before osm.OperatingSystemProfile
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &osp); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the OperatingSystemProfile: %w", err))
	}
	if req.Operation == admissionv1.Update {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the previous OperatingSystemProfile: %w", err))
		}
		same := equality.Semantic.DeepEqual(before.Spec, osp.Spec)
		if same || !osp.DeletionTimestamp.IsZero() {
			return admission.Allowed("")
		}
		if before.Spec.Version == osp.Spec.Version {
			return admission.Denied(fmt.Sprintf("spec: it is immutable while spec.version is %q: set another version", osp.Spec.Version))
		}
		if namedAfter(osp.Name, before.Spec.Version) {
			return admission.Denied(fmt.Sprintf("spec: it is immutable because %q is named after version %q: create an object for the new version", osp.Name, before.Spec.Version))
		}
	}
	if err := h.Checker.Check(render.Profile{Spec: osp.Spec, Object: osp.Name}); err != nil {
		return admission.Allowed("").WithWarnings(errorTexts(err)...)
	}
	return admission.Allowed("")
}

// namedAfter reports whether an object's name ends in a version, as in the rule of the
// CustomResourceDefinition.
func namedAfter(object, version string) bool {
	return strings.HasSuffix(object, "-"+strings.ReplaceAll(strings.ToLower(version), "+", "-"))
}

// validateConfigUnchanged rejects another spec of a configuration, as the CustomResourceDefinition
// also does.
func (h Handlers) validateConfigUnchanged(_ context.Context, req admission.Request) admission.Response {
	if done, ok := uncheckedResponse(req); ok || req.Operation == admissionv1.Create {
		return done
	}
	var now, before osm.OperatingSystemConfig
	if err := errors.Join(kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &now), kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &before)); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the OperatingSystemConfig: %w", err))
	}
	if !equality.Semantic.DeepEqual(before.Spec, now.Spec) {
		return admission.Denied("spec: it is immutable: osm-gitops creates a new object when the profile or the pool changes")
	}
	return admission.Allowed("")
}

// uncheckedResponse returns the response for requests that no webhook here checks, and whether this
// is one.
func uncheckedResponse(req admission.Request) (admission.Response, bool) {
	switch req.Operation {
	case admissionv1.Create, admissionv1.Update:
		return admission.Allowed(""), false
	case admissionv1.Delete:
		return admission.Allowed(""), true
	}
	return admission.Errored(http.StatusBadRequest, fmt.Errorf("unsupported operation %q", req.Operation)), true
}

// errorTexts splits an error into one text per problem, for display in a terminal.
func errorTexts(err error) []string {
	var out []string
	for _, p := range render.Problems(err) {
		out = append(out, p.Error())
	}
	if len(out) == 0 {
		out = append(out, err.Error())
	}
	if len(out) > maxWarnings {
		out = append(out[:maxWarnings-1], fmt.Sprintf("%d more problems: fix those above first", len(out)-maxWarnings+1))
	}
	for i := range out {
		out[i] = redact.Shorten(strings.Join(strings.Fields(redact.RemoveControlChars(out[i])), " "), maxWarning)
	}
	return out
}
